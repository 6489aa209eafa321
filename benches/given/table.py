"""Chooses the answers of benches/given/run.sh, and counts what became of them.

table.py choose PROBLEMS RUN COUNT: prints the first COUNT wrong and the first COUNT right answers of a run file, as chains.
table.py table ANSWERS REFINED... GUARDED: prints a Markdown table; the outputs are those of `refine`, the last one that of `guard`.
"""

import json
import sys
from collections import Counter


def lines(path):
    return [json.loads(line) for line in open(path)]


def choose(problems, run, count):
    references = {row["id"]: row for row in lines(problems)}
    left = {False: count, True: count}
    for row in lines(run)[1:]:
        right = bool(row["correct"])
        if row.get("answer") is None or not left[right]:
            continue
        left[right] -= 1
        problem = references[row["id"]]
        steps = [step["text"] for step in row["steps"]]
        chain = {"id": row["id"], "problem": problem["problem"], "steps": steps, "answer": problem["answer"], "right": right}
        print(json.dumps(chain))


def table(answers, *outputs):
    right = {row["id"]: row["right"] for row in lines(answers)}
    print("| `refine` | wrong answers mended | right answers spoilt | changed | sampled tokens |\n|---|---:|---:|---:|---:|")
    for path in outputs[:-1]:
        rows = lines(path)
        mended = sum(not right[row["id"]] and bool(row["after"]["correct"]) for row in rows)
        spoilt = sum(right[row["id"]] and not row["after"]["correct"] for row in rows)
        changed = sum(row["changed"] for row in rows)
        tokens = sum(row["cost"]["generated_tokens"] for row in rows)
        print(f"| {path.removesuffix('.jsonl')} | {mended} | {spoilt} | {changed} | {tokens:,} |")
    rows = lines(outputs[-1])
    verdicts = Counter(row["verdict"] for row in rows)
    shown = [row["given" if row["verdict"] == "accept" else "mended"] for row in rows if row["verdict"] != "withhold"]
    wrong = sum(not chain["correct"] for chain in shown)
    codes = Counter(reason["code"] for row in rows for reason in row["reasons"])
    print(f"\n`guard`: {dict(verdicts)}; shown: {len(shown) - wrong} right, {wrong} wrong; reasons: {dict(codes)}")


if sys.argv[1] == "choose":
    choose(sys.argv[2], sys.argv[3], int(sys.argv[4]))
else:
    table(*sys.argv[2:])
