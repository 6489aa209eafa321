"""Paired difference in accuracy of two runs of one bench, in points: python3 paired.py RESULTS.csv[.xz] A B

A and B are names of the column `run`, at one N each. In parentheses: the 95 % percentile bootstrap interval over problems, 2000
draws. A bench file says the same of the pairs that it names under [[compare]].
"""

import collections
import csv
import lzma
import random
import sys


def main(path, a, b):
    right = collections.defaultdict(list)
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            right[row["run"], row["id"]].append(row["correct"] == "true")
    share = {key: sum(seeds) / len(seeds) for key, seeds in right.items()}
    differences = [100 * (share[a, id] - share[b, id]) for run, id in share if run == a]
    draw, count = random.Random(7), len(differences)
    means = sorted(sum(draw.choices(differences, k=count)) / count for _ in range(2000))
    print(f"{a} minus {b}: {sum(differences) / count:+.1f} ({means[49]:+.1f} to {means[1949]:+.1f}), {count} problems")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
