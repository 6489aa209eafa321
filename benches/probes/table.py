"""What each reward model is blind to, in one table: table.py RESULTS

Reads `results.json` of every report of `beamgen eval-prm --probes --report RESULTS/NAME` and prints a table in Markdown: a row
for each probe and each shift, and a column for each model and set of data. A cell has the change of the chains' mean score
with its 95 % interval over problems (of a shift, of the ROC area), and the verdict.
"""

import json
import sys
from pathlib import Path

MARK = {"sound": "", "weak": "**~** ", "failed": "**✗** ", "unknown": "? "}


def figure(of):
    if of is None:
        return ""
    low, high = of["interval"] or (None, None)
    around = "" if low is None else f" ({low:+.2f} to {high:+.2f})"
    return f"{of['value']:+.2f}{around}: "


def main():
    columns, rows = [], {}
    for path in sorted(Path(sys.argv[1]).glob("*/results.json")):
        results = json.loads(path.read_text())
        for of in results["sets"]:
            if "probes" not in of:
                continue
            column = f"{path.parent.name}, {of['name']}"
            columns.append(column)
            auc = of["model"]["figures"]["auc"]
            rows.setdefault("(ROC area of steps)", {})[column] = f"{auc['value']:.3f}" if auc else "-"
            measured = [(probe, probe["effects"]["chain_change"]) for probe in of["probes"]["probes"]]
            measured += [(shift, shift["difference"]) for shift in of["probes"]["shifts"]]
            for probe, change in measured:
                verdict = probe["verdict"]
                words = verdict["words"].split(" (")[0]  # the change is there already
                cell = f"{MARK[verdict['grade']]}{figure(change)}{words}"
                rows.setdefault(probe["name"], {})[column] = cell
    print("| probe | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells.get(column, "-") for column in columns) + " |")


main()
