"""The results folder of `beamgen bench --out DIR` as a pandas data frame.

    beamgen bench --strategies beam,best-of-n --n 4,16 --out folder
    python bench_frame.py folder
"""

import json
import sys
from pathlib import Path

import pandas as pd

folder = Path(sys.argv[1])

# A row for each problem, seed and cell; what is absent is NaN.
rows = pd.read_csv(folder / "results.csv", dtype={"id": str, "answer": str})
table = rows.groupby(["run", "n"]).agg(
    accuracy=("correct", "mean"), tokens=("generated_tokens", "mean"), problems=("id", "nunique")
)
print(table.round(3).to_string())

# Problems that one cell solves and another does not, by the runs' names.
by_problem = rows.pivot_table(index="id", columns=["run", "n"], values="correct", aggfunc="mean")
differ = by_problem[by_problem.nunique(axis=1) > 1]
print(f"{len(differ)} of {len(by_problem)} problems are solved by some cells and not by others")

# rows.jsonl has the same rows with more in them: the wall clock, tokens by depth, chains where they were kept.
with (folder / "rows.jsonl").open(encoding="utf-8") as file:
    lines = [json.loads(line) for line in file]
raw = pd.json_normalize([line["row"] for line in lines if "row" in line])
seconds = raw.filter(like="ledger.seconds.").sum()
share = seconds["ledger.seconds.score"] / seconds.sum()
print(f"{len(raw)} rows, {raw['ledger.generated_tokens'].sum()} tokens generated, {share:.0%} of the time for scores")
