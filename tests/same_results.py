#!/usr/bin/env python3
"""Whether two builds of beamgen give the same chains and scores, by hand:

    tests/same_results.py OLD_BINARY NEW_BINARY [PROBLEMS.jsonl ...]

Runs every strategy that both know on the bundled sample and on the files given, and compares
answers, texts and scores of all steps, the chain's score, how it ended, and the tokens and passes it cost.
Names the strategies that only one of them knows. Exits with 1 if anything differs.
"""
import json
import re
import subprocess
import sys

# Options that change a search, with the strategies that they are tried with.
VARIANTS = [
    ["beam", "--early-rejection", "11"], ["dvts", "--early-rejection", "11"], ["beam", "--speculate"],
    ["majority", "--consensus"],
]


def strategies(binary):
    """The names of a build's strategies, which it lists when it refuses one."""
    run = subprocess.run([binary, "solve", "--strategy", "?"], capture_output=True, text=True)
    listed = re.search(r"--strategy.*\[possible values: (.+?)\]", run.stderr)
    if listed is None:
        sys.exit(f"{binary} lists no strategies: {run.stderr or run.stdout}")
    return listed[1].split(", ")


def results(binary, file, strategy):
    command = [binary, "solve", *file, "--json", "--strategy", *strategy, "-n", "8", "-m", "2"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)}: exit code {run.returncode}: {run.stderr}")
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
    old, new, *names = sys.argv[1:]
    files = [[]] + [[name] for name in names]
    known, now = strategies(old), strategies(new)
    for name in sorted(set(known) ^ set(now)):
        print(f"{name}: only {'the old build' if name in known else 'the new build'} knows it")
    both = [name for name in known if name in now]
    problems = different = 0
    for strategy in [[name] for name in both] + [case for case in VARIANTS if case[0] in both]:
        compared, changed = 0, []
        for file in files:
            before, after = results(old, file, strategy), results(new, file, strategy)
            if not before or before.keys() != after.keys():
                sys.exit(f"{strategy} {file}: {len(before)} and {len(after)} problems, which are not the same")
            compared += len(before)
            changed += [(file, key, before[key], after[key]) for key in before if before[key] != after[key]]
        print(f"{' '.join(strategy):32} {compared} problems, {len(changed)} differ", flush=True)
        for change in changed[:2]:
            print("   ", *change, sep="\n      ")
        problems, different = problems + compared, different + len(changed)
    print(f"{len(both)} strategies, {problems} comparisons, {different} differ")
    sys.exit(1 if different else 0)


main()
