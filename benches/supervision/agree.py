"""Counts how often a checker's verdicts and outcomes give people's labels: agree.py CHECKED

CHECKED is an output of `labels judge --checker arithmetic` for data with people's first errors and outcomes (ProcessBench).
"""

import json
import sys


def people(chain):
    count, first = len(chain["steps"]), chain["first_error"]
    return [1] * count if first == -1 else [1] * first + [0] + [None] * (count - first - 1)


def checker(chain):
    labels = []
    for step in chain["steps"]:
        verdict = (step.get("verdicts") or {}).get("arithmetic")
        if 0 in labels or verdict is None or "abstain" in verdict:
            labels.append(None)
        else:
            labels.append(1 if verdict == "pass" else 0)
    return labels


def outcome(chain):
    count = len(chain["steps"])
    return [1] * count if chain["outcome"] else [None] * (count - 1) + [0]


def main():
    chains = [json.loads(line) for line in open(sys.argv[1])]
    wrong = [chain for chain in chains if 0 in people(chain)]
    print(f"{len(chains)} chains, {len(wrong)} with a wrong step")
    for source in (checker, outcome):
        pairs = [pair for chain in chains for pair in zip(people(chain), source(chain))]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        found = sum(0 in source(chain) and source(chain).index(0) == people(chain).index(0) for chain in wrong)
        flagged = sum(0 in source(chain) for chain in chains)
        false = sum(0 in source(chain) for chain in chains if chain not in wrong)
        print(f"{source.__name__}: {sum(b is not None for _, b in pairs)} labels; next to a label of people {len(both)},")
        for a, b, what in ((1, 1, "right, right"), (0, 0, "wrong, wrong"), (1, 0, "right, called wrong"), (0, 1, "wrong, called right")):
            print(f"  {what}: {both.count((a, b))}")
        print(f"  chains flagged {flagged}, at the first wrong step {found}, without a wrong step {false}")


main()
