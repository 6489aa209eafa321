"""Kinds of supervision in one table of Markdown: table.py W

Reads the folders that run.sh left in W: the reports of `eval-prm --probes`, the results of `bench`, and the costs of the labels.
"""

import json
import sys
from pathlib import Path

work = Path(sys.argv[1])
KINDS = [
    ("orm", "outcomes: an ORM"),
    ("people-100", "100 ratings of steps"),
    ("people-300", "300 ratings"),
    ("people-1000", "1,000 ratings"),
    ("people-all", "ratings of all chains"),
    ("rollouts", "8 rollouts of each step"),
    ("checker", "checker of arithmetic"),
    ("checker-outcome", "the checker, then outcomes"),
    ("self", "its own sure scores, after 1,000 ratings"),
    ("bundled", "the bundled PRM"),
]

def read(path):
    return json.loads((work / path).read_text())


def lines(name):
    with open(work / name) as file:
        return [json.loads(line) for line in file]


def tokens(cost):
    return read(cost)["ledger"]["generated_tokens"]


def cost(kind):
    ratings = {"people-100": 100, "people-300": 300, "people-1000": 1000}
    if kind in ratings:
        steps = sum(len(chain["steps"]) for chain in lines(f"{kind}.jsonl"))
        return f"{steps:,} ratings"
    if kind == "people-all":
        return f"{sum(len(chain['steps']) for chain in lines('rated.jsonl')):,} ratings"
    if kind == "rollouts":
        return f"{tokens('rolled.json') / 1000:,.0f}k tokens"
    if kind == "bundled":
        return "-"
    return f"{tokens('chains.json') / 1000:,.0f}k tokens" + (" + 1,000 ratings" if kind == "self" else "")


def interval(figure, scale=1.0, digits=3):
    if figure is None:
        return "-"
    text = f"{figure['value'] * scale:.{digits}f}"
    low, high = figure["interval"] or (None, None)
    return text if low is None else f"{text} ({low * scale:.{digits}f} to {high * scale:.{digits}f})"


def steps(kind):
    path = work / f"eval-{kind}" / "results.json"
    if not path.exists():
        return "-", "-", []
    found = read(path.relative_to(work))["sets"][0]
    figures = found["model"]["figures"]
    probes = found.get("probes", {}).get("probes", [])
    failed = [probe["name"] for probe in probes if probe["verdict"]["grade"] == "failed"]
    if kind == "orm":  # it scores the end of a chain only, so its steps have no error to find
        return "-", "-", failed
    return interval(figures["auc"]), interval(figures["first_error_f1"]), failed


def searches(folder, key="strategy"):
    path = Path(folder) / "results.json"
    rows = read(path)["summary"] if (work / path).exists() else []
    return {row[key]: row for row in rows}


def accuracy(row):
    return "-" if row is None else f"{row['accuracy'] * 100:.1f}, {row['sound']['share'] * 100:.1f}"


def main():
    print("| labels by | cost | ROC area of steps | first-error F1 | best of 16: right, right and sound, % | beam of 16 | probes failed |")
    print("|---|---|---:|---:|---:|---:|---|")
    for kind, name in KINDS:
        area, f1, failed = steps(kind)
        found = searches(f"bench-{kind}")
        best, beam = (accuracy(found.get(key)) for key in ("best-of-n", "beam"))
        print(f"| {name} | {cost(kind)} | {area} | {f1} | {best} | {beam} | {len(failed)}: {', '.join(failed)} |")
    for folder, name in [("bench-plain", "no scorer"), ("bench-rl", "RLVR: a generator trained on right answers")]:
        for key, row in searches(folder, "name").items():
            print(f"| {name}, {key} | - | - | - | {accuracy(row)} | - | - |")


main()
