#!/usr/bin/env python3
"""Whether two builds of beamgen give the same chains and scores, by hand:

    tests/same_results.py OLD_BINARY NEW_BINARY [PROBLEMS.jsonl ...]

Runs every strategy that both know on the bundled sample and on the files given, and compares
answers, texts and scores of all steps, the chain's score, how it ended, and the tokens and passes it cost.
Exits with 1 if anything differs.
"""
import json
import subprocess
import sys

STRATEGIES = [
    ["beam"], ["dvts"], ["lookahead"], ["variable-granularity"], ["rebase"], ["particle"], ["mcts"],
    ["speculative-rejection"], ["refine"], ["best-of-n"], ["majority"], ["weighted"], ["greedy"], ["single"],
    ["beam", "--early-rejection", "11"], ["dvts", "--early-rejection", "11"], ["beam", "--speculate"],
    ["majority", "--consensus"],
]


def results(binary, file, strategy):
    command = [binary, "solve", *file, "--json", "--strategy", *strategy, "-n", "8", "-m", "2"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    kept = {}
    for line in run.stdout.splitlines():
        record = json.loads(line)
        if "summary" in record:
            continue
        ledger = record["ledger"]
        kept[record["id"]] = (
            record["answer"], record["steps"], record["score"], record["finish"],
            ledger["generated_tokens"], ledger["scored_tokens"], ledger["prompt_tokens"],
            ledger["reused_tokens"], ledger["forward_passes"],
        )
    return kept


def main():
    old, new, *files = sys.argv[1:]
    different = 0
    for file in [[]] + [[name] for name in files]:
        for strategy in STRATEGIES:
            before, after = results(old, file, strategy), results(new, file, strategy)
            assert before.keys() == after.keys(), strategy
            changed = [key for key in before if before[key] != after[key]]
            different += len(changed)
            name = " ".join(strategy)
            print(f"{file[0] if file else 'sample':24} {name:32} {len(before)} problems, {len(changed)} differ", flush=True)
            for key in changed[:2]:
                print("   ", key, before[key], after[key], sep="\n      ")
    sys.exit(1 if different else 0)


main()
