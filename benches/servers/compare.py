"""Compares what a served model gave with what the local engine gave.

compare.py A B: two run files of `solve --tree`, or two outputs of `score`. Prints how many problems have equal trees (tokens,
texts, states), and the largest difference of two scores.
"""

import json
import sys


def rows(path):
    lines = [json.loads(line) for line in open(path)]
    return {row["id"]: row for row in lines if "id" in row}


def scores(row):
    if "tree" in row:
        return [node["score"] for node in row["tree"] if node["score"] is not None]
    return row["scores"] or []


def shape(row):
    return [(node["tokens"], node["text"], node["state"]) for node in row.get("tree", [])]


def main():
    a, b = (rows(path) for path in sys.argv[1:])
    assert a.keys() == b.keys(), "other problems"
    equal = [key for key in a if shape(a[key]) == shape(b[key])]
    pairs = [pair for key in equal for pair in zip(scores(a[key]), scores(b[key]), strict=True)]
    largest = max((abs(x - y) for x, y in pairs), default=0.0)
    print(f"{len(equal)} of {len(a)} equal; {len(pairs)} scores, largest difference {largest:.1e}")


main()
