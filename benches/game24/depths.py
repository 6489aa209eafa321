"""Areas of a report of `eval-prm` by the depth of the step: python3 depths.py REPORT

The area under the ROC curve is the probability that a right step scores higher than a wrong one of the same depth. Only the first wrong step of a chain counts.
"""

import collections
import json
import pathlib
import sys

sys.path.insert(0, f"{__file__.rsplit('/', 1)[0]}/../real")
from areas import area  # noqa: E402


def main(folder):
    depths = collections.defaultdict(list)
    for line in (pathlib.Path(folder) / "rows.jsonl").read_text(encoding="utf-8").splitlines():
        chain = json.loads(line).get("chain")
        if not chain:
            continue
        for depth, (score, label) in enumerate(zip(chain["scores"], chain["labels"]), 1):
            if label is None:
                break
            depths[depth].append((score, label))
            if label < 0.5:
                break
    for depth, steps in sorted(depths.items()):
        right = sum(label > 0.5 for _, label in steps)
        if 0 < right < len(steps):
            print(f"step {depth}: area {area(steps):.3f} of {right} right and {len(steps) - right} wrong steps")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
