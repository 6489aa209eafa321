"""Accuracy and tokens of the same problems, before and after a change.

    paired.py BEFORE AFTER [FROM]

BEFORE and AFTER are folders of run files (`beamgen solve --out`). Files of the same strategy and N are compared problem by
problem. The 95 % intervals resample problems. With FROM, the smallest N, each N of AFTER is compared with it, too.
"""

import json
import random
import sys
from pathlib import Path

DRAWS = 2000


def read(folder):
    """By strategy and N: by problem whether it is right, and its tokens."""
    runs = {}
    for path in sorted(Path(folder).glob("*.jsonl")):
        header, *lines = (json.loads(line) for line in path.open())
        search = header["settings"]["search"]
        problems = {line["id"]: line for line in lines if "id" in line}
        runs[search["strategy"], search["n"]] = {
            name: (bool(line["correct"]), line["ledger"]["generated_tokens"]) for name, line in problems.items()
        }
    return runs


def mean(values):
    return sum(values) / len(values)


def with_interval(values, sign=""):
    """The mean in per cent, and its interval."""
    draw = random.Random(0)
    means = sorted(mean(draw.choices(values, k=len(values))) for _ in range(DRAWS))
    low, high = means[DRAWS // 40], means[-DRAWS // 40 - 1]
    return f"{100 * mean(values):{sign}.1f} | {100 * low:{sign}.1f} to {100 * high:{sign}.1f}"


def paired(one, other):
    """The differences on the problems that both have."""
    both = sorted(one.keys() & other.keys())
    return [other[name][0] - one[name][0] for name in both]


def main():
    before, after = read(sys.argv[1]), read(sys.argv[2])
    smallest = int(sys.argv[3]) if len(sys.argv) > 3 else None
    print("| strategy | N | problems | before, % | 95 % interval | tokens | after, % | 95 % interval | tokens | difference | 95 % interval |"
          + (f" against N = {smallest} | 95 % interval |" if smallest else ""))
    print("|---|---:|---:|---:|---|---:|---:|---|---:|---:|---|" + ("---:|---|" if smallest else ""))
    for (strategy, n), run in sorted(after.items()):
        row = f"| {strategy} | {n} | {len(run)} "
        for of in (before.get((strategy, n)), run):
            if of is None:
                row += "| | | "
                continue
            right, tokens = zip(*of.values())
            row += f"| {with_interval(right)} | {mean(tokens):.0f} "
        there = before.get((strategy, n))
        row += f"| {with_interval(paired(there, run), '+')} |" if there else "| | |"
        if smallest and (strategy, smallest) in after:
            row += f" {with_interval(paired(after[strategy, smallest], run), '+')} |"
        print(row)


main()
