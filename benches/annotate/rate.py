"""A rater who knows the truth: rates chains by a checker's verdicts, through beamgen.annotate.

rate.py TRUTH CHAINS OUT ORDER SEED COUNT: TRUTH has the verdicts of `labels judge --checker exact`; the first COUNT ratings in
this order are given. A step that the checker passes is 1, one that it fails -1, any other 0.
"""

import json
import sys

import beamgen

truth_path, chains, out, order, seed, count = sys.argv[1:]
truth = {}
with open(truth_path) as lines:
    for chain in map(json.loads, lines):
        steps = chain["steps"]
        verdicts = [step.get("verdicts", {}).get("exact") for step in steps]
        truth[chain["problem"], tuple(step["text"] for step in steps)] = verdicts

rating = beamgen.annotate(chains, out, rater="exact", order=order, seed=int(seed))
for given, view in enumerate(rating):
    if given == int(count):
        break
    verdict = truth[view.problem, tuple(step.text for step in view.steps)][view.step]
    rating.rate(0 if verdict is None else 1 if verdict == "pass" else -1)
