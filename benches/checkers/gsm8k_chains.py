"""GSM8K's solutions as labelled chains, for `beamgen check`.

    gsm8k_chains.py gsm8k_test.jsonl > reference.jsonl        people's solutions: all steps count as right
    gsm8k_chains.py gsm8k_model_solutions.jsonl > models.jsonl
        models' solutions: all steps of one with the right answer count as right, those of others have no label
"""

import json
import sys


def chain(name, problem, solution, right):
    steps = [line for line in solution.split("\n") if line.strip() and not line.startswith("####")]
    label = {"right": True} if right else {}
    return {"id": name, "problem": problem, "steps": [{"text": step, **label} for step in steps], "outcome": right}


def chains(number, record):
    if "answer" in record:
        yield chain(str(number), record["question"], record["answer"], True)
    for model, solution in record.items():
        if isinstance(solution, dict):
            yield chain(f"{number} {model}", record["question"], solution["solution"], solution["is_correct"])


with open(sys.argv[1], encoding="utf-8") as lines:
    for number, line in enumerate(lines, 1):
        for one in chains(number, json.loads(line)):
            print(json.dumps(one))
