"""A rater who knows the truth: rates chains by a checker's verdicts, by the keys of `beamgen annotate --terminal`.

rate.py BEAMGEN TRUTH CHAINS OUT ORDER SEED COUNT: TRUTH has the verdicts of `labels judge --checker exact`; the first COUNT
ratings in this order are given. A step that the checker passes is 1, one that it fails -, any other 0.
"""

import json
import re
import subprocess
import sys

beamgen, truth_path, chains, out, order, seed, count = sys.argv[1:]
# A verdict depends on the problem and the steps so far only.
truth = {}
with open(truth_path) as lines:
    for chain in map(json.loads, lines):
        texts = []
        for step in chain["steps"]:
            texts.append(step["text"].strip())
            truth[chain["problem"].strip(), tuple(texts)] = step.get("verdicts", {}).get("exact")

command = [beamgen, "annotate", chains, "--out", out, "--rater", "exact", "--order", order, "--seed", seed, "--terminal"]
rater = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def shown():
    """The problem and the steps up to the one to rate; None after the last chain."""
    problem, texts = [], []
    for line in rater.stdout:
        line = line.rstrip("\n")
        if line.startswith("exact: chain "):
            problem, texts = [], []
            if "all chains are done" in line:
                return None
        elif step := re.match(r"([> ]) \[.\] \d+\. (.*)", line):
            texts.append(step.group(2).strip())
            if step.group(1) == ">":
                return " ".join(problem), tuple(texts)
        elif line and not line.startswith("(answer: "):
            problem.append(line)
    raise SystemExit("beamgen annotate ended early")


given = 0
while given < int(count) and (place := shown()):
    verdict = truth[place]
    rater.stdin.write("0\n" if verdict is None else "1\n" if verdict == "pass" else "-\n")
    rater.stdin.flush()
    given += 1
rater.communicate("q\n")
print(f"{given} ratings")
