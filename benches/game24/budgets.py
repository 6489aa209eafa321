"""Draws accuracy over tokens for the budgets of a thought: python3 budgets.py BENCH OUT (needs matplotlib; writes OUT.svg and OUT.png)."""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main(bench, out):
    report = json.loads((pathlib.Path(bench) / "results.json").read_text(encoding="utf-8"))
    series = {}
    for row in report["summary"]:
        name, budget = row["run"].split(", thought of ")
        tokens = row["ledger"]["generated_tokens"] / row["searches"]
        points = (tokens, *(100 * row[key] for key in ("accuracy", "accuracy_low", "accuracy_high")), budget)
        series.setdefault(name, []).append(points)
    figure, axis = plt.subplots(figsize=(7, 4.5))
    for name, points in series.items():
        tokens, accuracy, low, high, budgets = zip(*points)
        around = [[a - b for a, b in zip(accuracy, low)], [b - a for a, b in zip(accuracy, high)]]
        axis.errorbar(tokens, accuracy, around, fmt="o-", capsize=3, label=name)
        for x, y, budget in zip(tokens, accuracy, budgets):
            axis.annotate(budget, (x, y), xytext=(4, 5), textcoords="offset points", fontsize=8)
    axis.set_xscale("log")
    axis.set_xlabel("tokens a game; the numbers are the budgets of a thought")
    axis.set_ylabel("games solved, %")
    axis.set_ylim(0, 100)
    axis.margins(x=0.1)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.tight_layout()
    for kind in ("svg", "png"):
        figure.savefig(f"{out}.{kind}", dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
