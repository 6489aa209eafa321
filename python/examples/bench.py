"""Compares two strategies on the same problems: accuracy and tokens."""

import beamgen
import pandas as pd

bench = beamgen.bench(strategies=["beam", "majority"], n=[4, 8], limit=20, seed=1)
for cell in bench.cells:
    interval = f"{cell.accuracy_low:.0%} to {cell.accuracy_high:.0%}"
    print(f"{cell.name}: {cell.accuracy:.0%} right ({interval}), {cell.ledger['generated_tokens']} tokens")

# A row for each problem, seed and cell.
rows = pd.DataFrame(bench.rows)
print(rows.pivot_table(index="run", columns="n", values="generated_tokens", aggfunc="mean").round(1).to_string())
