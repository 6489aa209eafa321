"""Holds the grader against labels, against the Python package math-verify and against an earlier build, by hand.

    pip install math-verify
    cargo build --release -p beamgen-eval --example grade
    python benches/grading/check.py DATA [--json FILE]
    python benches/grading/check.py DATA --before GRADE [--times 10]

DATA is a folder with {gsm8k,math}_train.jsonl, gsm8k_test.jsonl, math500_first250.jsonl, amc23.jsonl, mawps.jsonl,
prm800k_holdout.jsonl, gsm8k_model_solutions.jsonl, qwen_rm_maj_100.jsonl and processbench_{gsm8k,math}.json. The first form prints
a table of agreement with math-verify and every disagreement. Each pair is an answer and the reference it is graded against; `truth`
is what the pair was built to be, where that is known. The second form takes the example `grade` of an earlier build and prints what
has changed: the verdicts of the same pairs and of all answers of MATH in other spellings, every two references of one data set
that count as the same, and the time.
"""

import argparse
import itertools
import json
import logging
import os
import random
import re
import resource
import subprocess
from collections import Counter, defaultdict
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

from math_verify import parse, verify

logging.disable(logging.CRITICAL)
ROOT = Path(__file__).resolve().parent.parent.parent
GRADE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/examples/grade"
SAMPLE = 300_000


def lines(path):
    # A line of MAWPS may hold two objects.
    text = re.sub(r"\}\s*\{\"input\"", '}\n{"input"', path.read_text(encoding="utf-8"))
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def forms(answer):
    """Other ways to write an answer, by name."""
    yield "in dollars", f"${answer}$"
    yield "no blanks", re.sub(r"(?<![a-z\\]) | (?![a-z])", "", answer)
    yield "more blanks", re.sub(r"([-+=,])", r" \1 ", answer) if r"\!" not in answer else answer
    yield "dfrac", re.sub(r"\\[dt]?frac", r"\\dfrac", answer)
    yield "tfrac", re.sub(r"\\[dt]?frac", r"\\tfrac", answer)
    yield "slash", re.sub(r"\\d?frac\{(-?\d+)\}\{(\d+)\}", r"\1/\2", answer)
    yield "left right", re.sub(r"\\(left|right)\s*", "", answer)
    yield "no text", re.sub(r"\\text\{([^}]*)\}", r"\1", answer)
    yield "bmatrix", answer.replace("pmatrix", "bmatrix")
    if re.fullmatch(r"[-\d.]+", answer):
        number = Fraction(answer)
        yield "named", f"x = {answer}"
        yield "unit", rf"{answer} \text{{ cm}}"
        yield "word", rf"{answer}\text{{ apples}}"
        yield "dollars", rf"\${answer}"
        yield "fraction", rf"\frac{{{number.numerator * 3}}}{{{number.denominator * 3}}}"
        yield "sum", rf"{answer} + 1 - 1"
        if number.denominator == 1:
            yield "decimals", f"{answer}.00"
            if abs(number) >= 1000:
                yield "separators", f"{int(number):,}"
                yield "tight separators", f"{int(number):,}".replace(",", r",\!")
                yield "power of ten", rf"{float(number) / 1000} \times 10^{{3}}"
    fraction = re.fullmatch(r"(-?)\\d?frac\{(\d+)\}\{(\d+)\}", answer)
    if fraction:
        sign, top, bottom = fraction.groups()
        yield "minus inside", rf"\frac{{{sign}{top}}}{{{bottom}}}"
        yield "not reduced", rf"{sign}\frac{{{int(top) * 2}}}{{{int(bottom) * 2}}}"
        value = Fraction(int(sign + top), int(bottom))
        decimals = f"{float(value):.12f}".rstrip("0")
        if Fraction(decimals) == value:
            yield "decimal form", decimals
    if re.fullmatch(r"-?\w+(, ?-?\w+)+", answer):
        yield "reordered", ", ".join(reversed(re.split(", ?", answer)))
        yield "and", r" \text{ and } ".join(re.split(", ?", answer))
        yield "in braces", rf"\{{{answer}\}}"
    if r"\pm" in answer:
        yield "both signs", answer.replace(r"\pm", "+") + ", " + answer.replace(r"\pm", "-")
    if r"^\circ" in answer:
        yield "no degrees", answer.replace(r"^\circ", "")
        yield "degree word", answer.replace(r"^\circ", r"\text{ degrees}")
    if "_" in answer:
        yield "subscript braces", re.sub(r"_\{?(\d)\}?", r"_{\1}", answer)


def pairs(data):
    math = lines(data / "math500_first250.jsonl")
    for problem in math:
        yield "MATH-500, own solution", dict(solution=problem["solution"], expected=problem["answer"], truth=True)
    answers = sorted({problem["answer"] for problem in math})
    for answer in answers:
        for form, name in {form: name for name, form in forms(answer)}.items():
            if form != answer:
                yield "MATH-500, equal forms", dict(answer=form, expected=answer, truth=True, form=name)
    for one, other in itertools.combinations(answers, 2):
        yield "MATH-500, other problems", dict(answer=one, expected=other, truth=None)
    amc = sorted({problem["solution"] for problem in lines(data / "amc23.jsonl")})
    for number in amc:
        for form in dict.fromkeys([str(number), f"{number:g}", *(form for _, form in forms(f"{number:g}"))]):
            yield "AMC23, equal forms", dict(answer=form, expected=str(number), truth=True)
    for one, other in itertools.combinations(amc, 2):
        yield "AMC23, other problems", dict(answer=f"{one:g}", expected=str(other), truth=False)
    gsm8k = {p["question"].strip(): p["answer"].rsplit("####", 1)[1].strip() for p in lines(data / "gsm8k_test.jsonl")}
    references = gsm8k | {problem["problem"].strip(): problem["answer"] for problem in math}
    for name in ("gsm8k", "math"):
        for sample in json.loads((data / f"processbench_{name}.json").read_text(encoding="utf-8")):
            expected = references.get(sample["problem"].strip())
            if expected is not None:
                yield f"ProcessBench {name}, model solutions", dict(
                    solution="\n\n".join(sample["steps"]), expected=expected, truth=sample["final_answer_correct"]
                )
    for pair in lines(ROOT / "crates/eval/tests/hard_pairs.jsonl"):
        yield "hard pairs", dict(answer=pair["answer"], expected=pair["expected"], truth=pair["same"])
    for problem in lines(data / "qwen_rm_maj_100.jsonl"):
        for answer, truth in zip(problem["pred"], problem["score"]):
            yield "Qwen2.5-Math, model answers", dict(answer=answer, expected=problem["answer"], truth=truth)
    for problem in lines(data / "gsm8k_model_solutions.jsonl"):
        truth = problem["ground_truth"].rsplit("A:", 1)[1].strip()
        for model in problem.values():
            if isinstance(model, dict):
                yield "GSM8K, model solutions", dict(
                    solution=model["solution"], expected=truth, truth=model["is_correct"]
                )


def more_pairs(data):
    """Pairs for two builds of the grader, too many for math-verify."""
    yield from pairs(data)
    problems = lines(data / "math_train.jsonl")
    for problem in problems:
        yield "MATH train, own solution", dict(solution=problem["solution"], expected=problem["answer"], truth=True)
    for answer in sorted({problem["answer"] for problem in problems}):
        for form in dict.fromkeys(form for _, form in forms(answer)):
            yield "MATH train, equal forms", dict(answer=form, expected=answer, truth=True)


def references(data):
    """The distinct references of each data set."""
    final = lambda text, mark: text.rsplit(mark, 1)[1].strip()
    for name in ("gsm8k_train", "gsm8k_test"):
        yield name, {final(problem["answer"], "####") for problem in lines(data / f"{name}.jsonl")}
    for name in ("math_train", "math500_first250"):
        yield name, {problem["answer"] for problem in lines(data / f"{name}.jsonl")}
    yield "mawps", {str(problem["target"]) for problem in lines(data / "mawps.jsonl")}
    yield "amc23", {str(problem["solution"]) for problem in lines(data / "amc23.jsonl")}
    chains = lines(data / "prm800k_holdout.jsonl")
    yield "prm800k_holdout", {final(c["steps"][-1], "# Answer") for c in chains if "# Answer" in c["steps"][-1]}
    responses = lines(data / "qwen_rm_maj_100.jsonl")
    yield "qwen_rm_maj_100", {answer for problem in responses for answer in [problem["answer"], *problem["pred"]]}


def ours(cases, grade=GRADE):
    fields = ("answer", "solution", "expected")
    text = "\n".join(json.dumps({key: case[key] for key in fields if key in case}) for case in cases)
    output = subprocess.run([grade], input=text, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def crosses(golds, grades):
    """All pairs of different references; of many, those whose canonical forms are equal in a build and SAMPLE others."""
    golds = sorted(golds)
    if len(golds) < 1000:
        return list(itertools.combinations(golds, 2))
    chance = random.Random(0)
    some = {tuple(sorted(chance.sample(golds, 2))) for _ in range(SAMPLE)}
    for grade in grades:
        alike = defaultdict(list)
        for gold, out in zip(golds, ours([dict(answer=gold, expected=gold) for gold in golds], grade)):
            alike[out["expected"]].append(gold)
        some.update(pair for group in alike.values() for pair in itertools.combinations(group, 2))
    return sorted(some)


def same(crosses, grade):
    """The pairs that count as the same."""
    outs = ours([dict(answer=one, expected=other) for one, other in crosses], grade)
    return {pair for pair, out in zip(crosses, outs) if out["verdict"] == "same"}


def seconds(cases, grade):
    """The time that a build takes for pairs, on the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    ours(cases, grade)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def is_same(pair):
    return verify(*(parse(f"${answer.strip('$')}$") for answer in pair))


def compare(data, before, times):
    families, cases = zip(*more_pairs(data))
    old, new = ours(cases, before), ours(cases)
    print("| pairs | count | same before | same now | no longer | true to label before | now |\n|---|" + "---:|" * 6)
    rows = [
        (family, case, one["verdict"], other["verdict"]) for family, case, one, other in zip(families, cases, old, new)
    ]
    for family in dict.fromkeys(families):
        some = [row for row in rows if row[0] == family]
        counts = [sum(row[place] == "same" for row in some) for place in (2, 3)]
        labelled = [row for row in some if row[1]["truth"] is not None]
        right = [sum((row[place] == "same") == row[1]["truth"] for row in labelled) for place in (2, 3)]
        lost = sum(row[2] == "same" != row[3] for row in some)
        print("|", " | ".join(map(str, [family, len(some), *counts, lost, *(right if labelled else "--")])), "|")
    print("\nVerdicts that have changed (truth, before, now: answer against reference)\n")
    for family, case, one, other in rows:
        if one != other:
            answer = case.get("answer") or "..." + case["solution"][-60:]
            print(f"- {family} {case['truth']}, {one}, {other}: {answer!r} against {case['expected']!r}")
    print("\n| references of | distinct | pairs | same before | same now | of these by math-verify |\n|---|" + "---:|" * 5)
    told = []
    for name, golds in references(data):
        some = crosses(golds, [before, GRADE])
        old, new = same(some, before), sorted(same(some, GRADE))
        theirs = {pair for pair in new if is_same(pair)}
        print(f"| {name} | {len(golds)} | {len(some)} | {len(old)} | {len(new)} | {len(theirs)} |", flush=True)
        told += [f"- {name}, math-verify {'same' if pair in theirs else 'different'}, "
                 f"before {'same' if pair in old else 'not'}: {pair[0]!r} and {pair[1]!r}" for pair in new]
        told += [f"- {name}, no longer the same: {pair[0]!r} and {pair[1]!r}" for pair in sorted(old - set(new))]
    print("\nReferences that count as the same\n")
    print("\n".join(told))
    if times:
        spent = [(seconds(cases, before), seconds(cases, GRADE)) for _ in range(times)]
        ratios = sorted(new / old for old, new in spent)
        old, new = (min(each) / len(cases) * 1e6 for each in zip(*spent))
        print(f"\n{len(cases)} pairs, {times} runs of each build in turn: at best {old:.2f} and {new:.2f} microseconds a pair, "
              f"median ratio {ratios[times // 2]:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")


def theirs(cases):
    known = {}

    def read(text):
        if text not in known:
            known[text] = parse(text)
        return known[text]

    for case in cases:
        answer = case["solution"] if "solution" in case else f"${case['answer'].strip('$')}$"
        yield verify(read(f"${case['expected']}$"), read(answer))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--json", type=Path, help="every pair with both verdicts, a line each")
    parser.add_argument("--before", type=Path, help="the example of an earlier build, to be compared with")
    parser.add_argument("--times", type=int, default=0, help="how often to measure the time of both builds")
    options = parser.parse_args()
    if options.before:
        return compare(options.data, options.before, options.times)
    families, cases = zip(*pairs(options.data))
    rows = []
    for family, case, our, their in zip(families, cases, ours(cases), theirs(cases)):
        rows.append(dict(case, family=family, ours=our["verdict"], theirs=their, classes=[our["answer"], our["expected"]]))
    if options.json:
        options.json.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"math-verify {version('math-verify')}, latex2sympy2_extended {version('latex2sympy2_extended')}, "
          f"sympy {version('sympy')}\n")
    print("| pairs | count | both same | both different | only ours same | only theirs same | cannot tell, theirs same "
          "| cannot tell, theirs different | agree | ours true to label | theirs true to label |")
    print("|---|" + "---:|" * 10)
    for family in dict.fromkeys(families):
        some = [row for row in rows if row["family"] == family]
        count = Counter((row["ours"], row["theirs"]) for row in some)
        cells = [count[key] for key in [("same", True), ("different", False), ("same", False), ("different", True),
                                        ("cannot-tell", True), ("cannot-tell", False)]]
        labelled = [row for row in some if row["truth"] is not None]
        share = lambda number, of: f"{100 * number / of:.2f} %" if of else "-"
        right = share(sum((row["ours"] == "same") == row["truth"] for row in labelled), len(labelled))
        their_right = share(sum(row["theirs"] == row["truth"] for row in labelled), len(labelled))
        print("|", " | ".join(map(str, [family, len(some), *cells, share(cells[0] + cells[1], len(some)), right,
                                        their_right])), "|")
    print("\nDisagreements (truth, ours, theirs: answer against reference)\n")
    for row in rows:
        if (row["ours"] == "same") != row["theirs"] or row["ours"] == "cannot-tell":
            answer = row.get("answer") or "..." + row["solution"][-60:]
            print(f"- {row['family']} ({row.get('form', '')}) {row['truth']}, {row['ours']}, {row['theirs']}: "
                  f"{answer!r} against {row['expected']!r}")
        elif row["truth"] not in (None, row["theirs"]):
            answer = row.get("answer") or "..." + row["solution"][-60:]
            print(f"- (both against the label) {row['family']} {row['truth']}, {row['ours']}: "
                  f"{answer!r} against {row['expected']!r}")


main()
