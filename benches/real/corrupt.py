"""Writes labelled chains from GSM8K's solutions, some with one false step.

    python3 benches/real/corrupt.py gsm8k_train.jsonl --chains 4000 > corrupted.jsonl

A chain has the sentences of a solution, in steps of one to three sentences. In three of four chains one equation is
changed; the chain ends with its step, which is labelled 0, and the steps before it are labelled 1. Each equation of a
solution is changed with the same chance, so a long step is wrong as often as its equations say. The kinds of changes:

- operation: another operation, with the right result of that operation;
- number: another number of the problem or of an earlier result in place of an operand, computed rightly;
- result: a wrong digit in the result;
- skipped: the sentence before it is left out, if the equation uses its result.

Every step keeps its words, so a false step is as long as the right one.
"""

import argparse
import json
import random
import re
from fractions import Fraction

EQUATION = re.compile(r"<<([^<>=]+)=([^<>=]+)>>")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
OPERATION = re.compile(r"(?<=[\d)])\s*([-+*/])\s*(?=[\d(])")


def value(expression):
    """Returns the value of a sum or product of numbers, or None."""
    if not re.fullmatch(r"[\d.+\-*/() ]+", expression):
        return None
    exact = NUMBER.sub(lambda m: f"Fraction('{m[0]}')", expression)
    try:
        return eval(exact, {"Fraction": Fraction})  # only digits, operations and brackets
    except (SyntaxError, ZeroDivisionError, TypeError):
        return None


def written(number):
    """Returns a number as GSM8K writes it, or None if that needs more than two decimals."""
    if number is None or number < 0:
        return None
    if number.denominator == 1:
        return str(number.numerator)
    text = f"{float(number):.2f}".rstrip("0")
    return text if Fraction(text) == number else None


def other_operation(rng, expression, _):
    places = list(OPERATION.finditer(expression))
    if not places:
        return None
    place = rng.choice(places)
    new = rng.choice([o for o in "+-*/" if o != place[1]])
    return expression[: place.start(1)] + new + expression[place.end(1) :]


def other_number(rng, expression, known):
    places = list(NUMBER.finditer(expression))
    place = rng.choice(places)
    others = [n for n in known if n not in expression]
    if not others:
        return None
    return expression[: place.start()] + rng.choice(others) + expression[place.end() :]


def other_digit(rng, result):
    places = [i for i, c in enumerate(result) if c.isdigit()]
    place = rng.choice(places)
    digits = [d for d in "0123456789" if d != result[place] and not (d == "0" and place == 0)]
    return result[:place] + rng.choice(digits) + result[place + 1 :]


def shown(sentence):
    return EQUATION.sub("", sentence).strip()


def replaced(sentence, equation, expression, result):
    """Returns the sentence with another equation, or None if its words do not show the old one."""
    old, old_result = equation[1], equation[2]
    begin = sentence[: equation.start()]
    rest = sentence[equation.end() :]
    loose = r"\s*".join(re.escape(c) for c in old.replace(" ", "").replace("*", "\0"))
    loose = loose.replace(re.escape("\0"), r"[*x×]").replace("\0", r"[*x×]")
    found = list(re.finditer(loose.replace(r"\s*", r"[\s$]*"), begin))
    if not found or not rest.startswith(old_result):
        return None
    if expression == old:
        words = begin
    else:
        last = found[-1]
        spaced = " " if " " in last[0] else ""
        text = OPERATION.sub(lambda m: f"{spaced}{m[1]}{spaced}", expression)
        words = begin[: last.start()] + text + begin[last.end() :]
    return words + result + rest[len(old_result) :]


def changed(rng, sentences, at, equation, problem):
    """Returns the sentences up to `at` with a false equation there, and the kind; or None."""
    kind = rng.choices(["operation", "number", "result", "skipped"], [35, 35, 20, 10])[0]
    expression, result = equation[1], equation[2]
    if kind == "skipped":
        before = at and EQUATION.findall(sentences[at - 1])
        if not before or before[-1][1] not in NUMBER.findall(expression):
            return None
        return sentences[: at - 1] + [sentences[at]], kind
    if kind == "result":
        new, new_result = expression, other_digit(rng, result)
    else:
        known = NUMBER.findall(problem)
        known += [m[2] for s in sentences[:at] for m in EQUATION.finditer(s)]
        change = other_operation if kind == "operation" else other_number
        new = change(rng, expression, known)
        new_result = new and written(value(new))
        if not new_result or new_result == result:
            return None
    sentence = replaced(sentences[at], equation, new, new_result)
    return sentence and (sentences[:at] + [sentence], kind)


def chain(rng, problem, answer):
    """Returns a labelled chain, or None if the solution has nothing to change."""
    sentences = answer.split("\n####")[0].split("\n")
    places = [(i, m) for i, s in enumerate(sentences) for m in EQUATION.finditer(s)]
    if not places or any(not s.strip() for s in sentences):
        return None
    kind = "right"
    if rng.random() < 0.75:
        at, equation = rng.choice(places)
        result = changed(rng, sentences, at, equation, problem)
        if result is None:
            return None
        sentences, kind = result
    steps, left = [], [shown(s) for s in sentences]
    while left:
        size = rng.choice([1, 1, 1, 2, 2, 3])
        steps.append(" ".join(left[:size]))
        left = left[size:]
    labels = [1] * len(steps)
    if kind != "right":
        labels[-1] = 0
    return {"problem": problem, "steps": steps, "labels": labels, "kind": kind}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems")
    parser.add_argument("--chains", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    lines = [json.loads(line) for line in open(args.problems, encoding="utf-8")]
    rng = random.Random(args.seed)
    made = 0
    while made < args.chains:
        rng.shuffle(lines)
        before = made
        for line in lines:
            result = chain(rng, line["question"], line["answer"])
            if result and made < args.chains:
                print(json.dumps(result, ensure_ascii=False))
                made += 1
        if made == before:
            raise SystemExit(f"{args.problems}: no solution has an equation in <<...>>")


main()
