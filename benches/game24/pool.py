"""Pools rollouts over chains that have reached the same numbers: python3 pool.py LABELS > POOLED

A legal step says what is left. The rollouts of all legal steps of one game, and of all games, with the same numbers left are rollouts from one state, so their counts are
added. After an illegal step no completion is right, whatever the counts. Labels stay those of the generator's own rollouts: the solver is not asked.

Of the chains of a game that leave the same numbers after the first step one stays, a right one if there is one: the others would repeat its first label, at the same cost.
"""

import collections
import json
import sys

sys.path.insert(0, f"{__file__.rsplit('/', 1)[0]}/../../examples/verifiers")
from game24 import STEP, fault  # noqa: E402


def state(problem, texts):
    """The numbers that are left after legal steps; None after an illegal one or a sentence."""
    move = STEP.fullmatch(texts[-1].strip())
    if not move or fault(problem, [text.strip() for text in texts], whole=False) is not None:
        return None
    return tuple(sorted(move[5].split()))


def main(path):
    chains = [json.loads(line) for line in open(path, encoding="utf-8")]
    counts, seen = collections.Counter(), set()
    for chain in chains:
        texts = [step["text"] for step in chain["steps"]]
        for at, step in enumerate(chain["steps"], 1):
            prefix = (chain["problem"], *texts[:at])
            # Chains with a common beginning share its rollouts.
            if step.get("rollouts") and prefix not in seen and (left := state(chain["problem"], texts[:at])):
                seen.add(prefix)
                counts[left, "n"] += step["rollouts"]["n"]
                counts[left, "k"] += step["rollouts"]["k"]
    kept = {}
    for number, chain in enumerate(chains):
        texts = [step["text"] for step in chain["steps"]]
        for at, step in enumerate(chain["steps"], 1):
            if step.get("rollouts") and (left := state(chain["problem"], texts[:at])):
                step["rollouts"] = step["rollouts"] | {"n": counts[left, "n"], "k": counts[left, "k"]}
        # A chain with an illegal first step stays.
        key = (chain["problem"], state(chain["problem"], texts[:1]) or number)
        if key not in kept or (chain.get("outcome") and not kept[key].get("outcome")):
            kept[key] = chain
    for chain in kept.values():
        print(json.dumps(chain))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
