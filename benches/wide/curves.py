"""Accuracy and the PRM's own reward over N, before and after: does a wider search find better chains, or what the
reward model takes for right?

    curves.py OUT LABEL=BENCH_FOLDER [LABEL=BENCH_FOLDER ...]

Reads `rows.jsonl` of `beamgen bench` folders. Prints a table, with 95 % intervals by resampling problems and the
difference of each N to the smallest, paired by problem and seed; writes OUT.svg and OUT.png (needs matplotlib, numpy).
"""

import json
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

DRAWS = 10_000


def rows(folder):
    """By strategy and N: by problem the accuracies and rewards of its seeds."""
    cells = defaultdict(lambda: defaultdict(lambda: ([], [])))
    for line in open(f"{folder}/rows.jsonl"):
        row = json.loads(line).get("row")
        if row:
            correct, reward = cells[row["run"], row["n"]][row["id"]]
            correct.append(float(row["correct"]))
            reward.append(row["score"] or 0.0)
    return cells


def interval(values, draws):
    """Of a mean over problems."""
    return np.percentile(values[draws].mean(axis=1), [2.5, 97.5])


def main():
    out, *named = sys.argv[1:]
    figure, axes = plt.subplots(len(named), 4, figsize=(12, 2.8 * len(named)), sharex=True, sharey=True, squeeze=False)
    print("| | strategy | N | accuracy, % | 95 % interval | against the smallest N | 95 % interval | reward |")
    print("|---|---|---:|---:|---|---:|---|---:|")
    for line, (label, folder) in zip(axes, (name.split("=", 1) for name in named)):
        cells = rows(folder)
        for axis, strategy in zip(line, dict.fromkeys(run for run, _ in cells)):
            numbers = sorted(n for run, n in cells if run == strategy)
            problems = sorted(cells[strategy, numbers[0]])
            draws = np.random.default_rng(0).integers(len(problems), size=(DRAWS, len(problems)))
            shown = []
            for n in numbers:
                of = cells[strategy, n]
                right, reward = (np.array([np.mean(of[p][i]) for p in problems]) for i in (0, 1))
                shown.append((right, reward))
                low, high = 100 * interval(right, draws)
                gain = right - shown[0][0]
                below, above = 100 * interval(gain, draws)
                against = "" if n == numbers[0] else f"{100 * gain.mean():+.1f}"
                around = "" if n == numbers[0] else f"{below:+.1f} to {above:+.1f}"
                print(
                    f"| {label} | {strategy} | {n} | {100 * right.mean():.1f} | {low:.1f} to {high:.1f} "
                    f"| {against} | {around} | {reward.mean():.3f} |"
                )
            axis.plot(numbers, [100 * right.mean() for right, _ in shown], "o-", label="accuracy, %")
            axis.plot(numbers, [100 * reward.mean() for _, reward in shown], "s--", label="PRM reward × 100")
            axis.set_xscale("log", base=4)
            axis.set_xticks(numbers, [str(n) for n in numbers])
            axis.set_title(f"{strategy}, {label}", fontsize=10)
            axis.grid(alpha=0.3)
        line[0].set_ylabel("of 100")
    for axis in axes[-1]:
        axis.set_xlabel("N")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    for kind in ("svg", "png"):
        figure.savefig(f"{out}.{kind}", dpi=110)


main()
