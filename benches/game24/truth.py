"""Labels chains by the exact solver, the truth of a step: python3 truth.py LABELS > TRUTH

LABELS are labelled chains of `beamgen label`. A step is right if it and all before it are legal and 24 is still within reach; chains end at their first wrong step.
`beamgen eval-prm --data TRUTH --rule given` then measures a reward model against the truth, by the number of the step, too. Nothing is trained on it.

    python3 truth.py --coverage LABELS

prints for each number of steps how many chains are legal, and from how many 24 is within reach.
"""

import collections
import json
import sys
from fractions import Fraction

sys.path.insert(0, f"{__file__.rsplit('/', 1)[0]}/../../examples/verifiers")
from game24 import STEP, fault  # noqa: E402
from rules import within_reach  # noqa: E402


def truths(problem, steps):
    """Whether each step is right."""
    found, right = [], True
    for count, step in enumerate(steps, 1):
        move = STEP.fullmatch(step.strip())
        right = right and fault(problem, [s.strip() for s in steps[:count]], whole=move is None) is None
        if right and move:
            right = within_reach([Fraction(number) for number in move[5].split()])
        found.append(right)
    return found


def main(path, coverage=False):
    counts = collections.defaultdict(collections.Counter)
    for line in open(path, encoding="utf-8"):
        chain = json.loads(line)
        texts = [step["text"] for step in chain["steps"]]
        labels = truths(chain["problem"], texts)
        if coverage:
            for at, right in enumerate(labels, 1):
                legal = fault(chain["problem"], [t.strip() for t in texts[:at]], whole=False) is None
                counts[at].update({"chains": 1, "legal": int(legal), "within reach": int(right)})
        else:
            end = labels.index(False) + 1 if False in labels else len(labels)
            print(json.dumps({"problem": chain["problem"], "steps": texts[:end], "labels": [int(label) for label in labels[:end]]}))
    for at, count in sorted(counts.items()):
        print(at, dict(count))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--coverage":
        main(sys.argv[2], coverage=True)
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit(__doc__)
