"""Verifies rows of a Sudoku: the ten lines that a verifier needs.

    beamgen solve rows.jsonl --verifier 'python3 examples/verifiers/sudoku_row.py' --verifier-open

A problem is "Complete the row: 5 3 _ _ 7 _ _ 1 _". The answer is the whole row: the given digits stay, and each of 1 to 9 is there once.
"""

import json
import re
import sys


def verdict(problem, answer):
    if ":" not in problem:
        return {"verdict": "unknown", "reason": "not a row of a Sudoku"}
    given, row = re.findall(r"[1-9_]", problem.split(":")[1]), re.findall(r"[1-9]", answer or "")
    if any(digit not in ("_", put) for digit, put in zip(given, row)):
        return {"verdict": "wrong", "reason": "a given digit was changed"}
    if sorted(row) != list("123456789"):
        return {"verdict": "wrong", "reason": "each of 1 to 9 must be there once"}
    return {"verdict": "right"}


for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], **verdict(asked["problem"], asked.get("answer"))}), flush=True)
