"""ROC areas of two reports of `eval-prm` on the same chains, and their paired difference: python3 areas.py SET A B

SET is the number of the data file in the reports, from 0; A and B are their folders, with rows.jsonl. One problem may have most
of the chains, so the areas are given with all problems and without the one that has most. "shorter" is the area of a judge that
takes the shorter step for the right one. In parentheses: 95 % percentile bootstrap intervals over problems, 2000 draws.
"""

import bisect
import collections
import json
import pathlib
import random
import sys


def steps_by_problem(folder, number):
    """Score, characters and label of each labelled step, and the number of chains, by problem."""
    steps, chains = collections.defaultdict(list), collections.Counter()
    for line in (pathlib.Path(folder) / "rows.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("set") == number and "chain" in row:
            chain = row["chain"]
            all_steps = zip(chain["scores"], chain["lengths"], chain["labels"])
            steps[chain["problem"]] += [step for step in all_steps if step[2] is not None]
            chains[chain["problem"]] += 1
    return steps, chains


def area(steps):
    """The probability that a right step has a higher score than a wrong one, ties counting half."""
    right = sorted(score for score, label in steps if label > 0.5)
    wrong = [score for score, label in steps if label < 0.5]
    above = sum(2 * len(right) - bisect.bisect_left(right, s) - bisect.bisect_right(right, s) for s in wrong)
    return above / (2 * len(right) * len(wrong))


def figures(a, b, problems):
    def of(drawn):
        of_a, of_b = ([step for problem in drawn for step in steps[problem]] for steps in (a, b))
        areas = [area([(score, label) for score, _, label in steps]) for steps in (of_a, of_b)]
        return [*areas, areas[1] - areas[0], area([(-length, label) for _, length, label in of_a])]

    draw = random.Random(7)
    draws = [of(draw.choices(problems, k=len(problems))) for _ in range(2000)]
    for name, value, drawn in zip(("A", "B", "B minus A", "shorter"), of(problems), zip(*draws)):
        drawn = sorted(drawn)
        print(f"  {name:9} {value:+.3f} ({drawn[49]:+.3f} to {drawn[1949]:+.3f})")


def main(number, a, b):
    (a, chains), (b, _) = steps_by_problem(a, int(number)), steps_by_problem(b, int(number))
    problems = sorted(chains)
    print(f"all {len(problems)} problems, {chains.total()} chains")
    figures(a, b, problems)
    most, count = chains.most_common(1)[0]
    problems.remove(most)
    print(f"without the one of {count} chains, {sum(len(a[p]) for p in problems)} steps")
    figures(a, b, problems)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
