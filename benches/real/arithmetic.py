"""What exact arithmetic alone would choose: the vote over chains without a wrong equation.

    head -150 data/test.jsonl > t.jsonl       # in the work folder of run.sh
    beamgen solve t.jsonl --generator sft --strategy majority -n 16 --scorer none --tree --out t.run --dtype int8 \\
        --kv-dtype f16 --in-flight 32 --temperature 0.7 --set generator.max_chain_tokens=300 \\
        --set generator.max_step_tokens=120
    python3 benches/real/arithmetic.py t.run t.jsonl

An equation is `a op b ... = c` of plain numbers; a chain with a false one is vetoed, any other is kept. A result may be
rounded to the digits that it shows. Intervals are bootstrapped over problems.
"""

import json
import random
import re
import sys
from collections import Counter
from fractions import Fraction

NUMBER = r"\$?\d[\d,]*(?:\.\d+)?"
EQUATION = re.compile(rf"({NUMBER}(?:\s*[-+*/x×÷]\s*{NUMBER})+)\s*=\s*({NUMBER})")
TOKEN = re.compile(rf"{NUMBER}|[-+*/x×÷]")


def number(text):
    return Fraction(text.replace("$", "").replace(",", "").rstrip("."))


def value(expression):
    """Products before sums, from left to right; None for a division by zero."""
    terms, sign, operator = [], 1, None
    for token in TOKEN.findall(expression):
        if token in "-+":
            sign, operator = (1 if token == "+" else -1), None
        elif token in "*/x×÷":
            operator = token
        elif operator is None:
            terms.append(sign * number(token))
        elif operator in "/÷":
            if number(token) == 0:
                return None
            terms[-1] /= number(token)
        else:
            terms[-1] *= number(token)
    return sum(terms)


def equations(text):
    for left, right in EQUATION.findall(text):
        found, said = value(left), number(right)
        digits = len(right.partition(".")[2])
        rounding = Fraction(1, 2 * 10**digits) if digits else 0
        yield found is not None and abs(found - said) <= rounding


def answer(text):
    found = re.findall(r"(?:The answer is|####):?\s*(-?\$?\d[\d,]*(?:\.\d+)?)", text)
    return number(found[-1].replace("-", "")) * (-1 if found[-1].startswith("-") else 1) if found else None


def vote(chains):
    counts = Counter(a for a, _ in chains if a is not None)
    return counts.most_common(1)[0][0] if counts else None


def main(run, problems):
    gold = {p["id"]: number(str(p["answer"])) for p in map(json.loads, open(problems))}
    rows, seen, false = [], 0, 0
    for record in map(json.loads, open(run)):
        if "tree" not in record:
            continue
        nodes, chains = record["tree"], []
        for node in nodes:
            if node["state"] not in ("finished", "duplicate"):
                continue
            text, at = "", node
            while at["parent"] is not None:
                text, at = at["text"] + text, nodes[at["parent"]]
            checks = list(equations(text))
            seen, false = seen + len(checks), false + checks.count(False)
            chains.append((answer(text), all(checks)))
        right = gold[record["id"]]
        clean = [c for c in chains if c[1]] or chains
        rows.append((
            vote(chains) == right, vote(clean) == right, any(a == right for a, _ in chains),
            sum(ok for _, ok in chains), sum(a == right for a, _ in chains),
            sum(a == right for a, ok in chains if ok), len(chains),
        ))
    shuffled = random.Random(0)
    means = [[sum(r[k] for r in draw) / len(rows) for k in range(3)] + [sum(r[1] - r[0] for r in draw) / len(rows)]
             for draw in ([shuffled.choice(rows) for _ in rows] for _ in range(2000))]
    for k, name in enumerate(["majority", "majority, false equations vetoed", "any right (pass)", "veto minus majority"]):
        mean = sum(r[k] for r in rows) / len(rows) if k < 3 else sum(r[1] - r[0] for r in rows) / len(rows)
        low, high = sorted(m[k] for m in means)[50], sorted(m[k] for m in means)[1950]
        print(f"{name:34} {100 * mean:5.1f} %  ({100 * low:.1f} to {100 * high:.1f})")
    chains, clean = sum(r[6] for r in rows), sum(r[3] for r in rows)
    print(f"{len(rows)} problems, {chains} chains; {seen} equations, {100 * false / max(seen, 1):.1f} % false; "
          f"{100 * clean / chains:.1f} % of the chains have none")
    print(f"right: {100 * sum(r[4] for r in rows) / chains:.1f} % of all chains, "
          f"{100 * sum(r[5] for r in rows) / max(clean, 1):.1f} % of those without a false equation")


if __name__ == "__main__":
    main(*sys.argv[1:])
