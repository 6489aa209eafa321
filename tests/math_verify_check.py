"""Holds the grader against the Python package math-verify, by hand.

    pip install math-verify
    cargo build --release -p beamgen-eval --example grade
    python tests/math_verify_check.py DATA [--json FILE]

DATA is a folder with math500_first250.jsonl, amc23.jsonl, gsm8k_model_solutions.jsonl, gsm8k_test.jsonl and
processbench_{gsm8k,math}.json. Prints a table of agreement
and every disagreement. Each pair is an answer and the reference it is graded against; `truth` is what the pair was built
to be, where that is known.
"""

import argparse
import itertools
import json
import logging
import re
import subprocess
from collections import Counter
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

from math_verify import parse, verify

logging.disable(logging.CRITICAL)
ROOT = Path(__file__).resolve().parent.parent
GRADE = ROOT / "target/release/examples/grade"


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


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
    for problem in lines(data / "gsm8k_model_solutions.jsonl"):
        truth = problem["ground_truth"].rsplit("A:", 1)[1].strip()
        for model in problem.values():
            if isinstance(model, dict):
                yield "GSM8K, model solutions", dict(
                    solution=model["solution"], expected=truth, truth=model["is_correct"]
                )


def ours(cases):
    fields = ("answer", "solution", "expected")
    text = "\n".join(json.dumps({key: case[key] for key in fields if key in case}) for case in cases)
    output = subprocess.run([GRADE], input=text, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


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
    options = parser.parse_args()
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
