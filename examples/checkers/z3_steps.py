"""Checks equations and inequalities of steps against those of the steps before, with Z3 (`pip install z3-solver`).

    beamgen check chains.jsonl --checker-command 'python3 examples/checkers/z3_steps.py'

A step fails if what it claims cannot hold together with what the steps before claimed, and passes if it follows from
that. Only claims in plain letters and numbers are read (`2x + 3 = 11`, `x >= 4`). A step that supposes something
or distinguishes cases makes everything before it unknown.
"""

import ast
import re

import z3

from checker import serve

CLAIM = re.compile(r"(?<![\w.)])[-+(]*\d*[a-z(][-+*/^(). \da-z]*(?:==?|<=|>=|<|>)[-+*/^(). \da-z]+", re.ASCII)
SUPPOSES = re.compile(r"\b(if|let|suppose|assume|case|or|either|when|for|new|now|try|guess|instead|not)\b", re.I)
MAX_CLAIMS = 100
MILLISECONDS = 2000


def term(node, depth=0):
    """A Z3 term of a Python expression of numbers, letters and + - * / **; None if it is none."""
    if depth > 40:
        return None
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return z3.RealVal(str(node.value))
    if isinstance(node, ast.Name) and len(node.id) == 1:
        return z3.Real(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = term(node.operand, depth + 1)
        return inner if inner is None or isinstance(node.op, ast.UAdd) else -inner
    if isinstance(node, ast.BinOp):
        left, right = term(node.left, depth + 1), term(node.right, depth + 1)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant) and node.right.value:
            return left / right
        power = getattr(node.right, "value", None)
        if isinstance(node.op, ast.Pow) and type(power) is int and 1 <= power <= 4:
            product = left
            for _ in range(power - 1):
                product = product * left
            return product
    return None


def claim(text):
    """A Z3 formula of an equation or inequality; None if it is none."""
    text = re.sub(r"(?<![<>=])=(?!=)", "==", text).replace("^", "**").strip(" .")
    text = re.sub(r"(\d|\))\s*(?=[a-z(])", r"\1*", text)  # 2x, 2(x + 1)
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(node, ast.Compare):
        return None
    sides = [term(side) for side in (node.left, *node.comparators)]
    if any(side is None for side in sides):
        return None
    relations = {ast.Eq: "__eq__", ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__", ast.GtE: "__ge__"}
    links = []
    for left, relation, right in zip(sides, node.ops, sides[1:]):
        if type(relation) not in relations:
            return None
        links.append(getattr(left, relations[type(relation)])(right))
    return z3.And(*links)


def claims(step):
    plain = re.sub(r"\\[()\[\]]|[$*]{1,2}(?=\s|$)|\$", " ", step)
    parts = re.split(r"[,;:\n]|\.(?!\d)|\b(?:so|then|therefore|thus|hence|and|we|get|have|is|that|gives|the|which|means)\b", plain, flags=re.I)
    found = []
    for part in parts:
        match = CLAIM.fullmatch(part.strip())
        formula = claim(match.group()) if match else None
        if formula is not None:
            found.append((part.strip(), formula))
    return found[:MAX_CLAIMS]


def holds(formulas):
    solver = z3.Solver()
    solver.set("timeout", MILLISECONDS)
    solver.add(*formulas)
    return solver.check()


def check(_problem, steps):
    before = []
    for step in steps[:-1]:
        before = [] if SUPPOSES.search(step) else before + [formula for _, formula in claims(step)]
    now = claims(steps[-1])
    if SUPPOSES.search(steps[-1]) or not now or not before or len(before) > MAX_CLAIMS:
        return "abstain"
    if holds(before) != z3.sat:
        return "abstain"  # what went before is not to be trusted
    for text, formula in now:
        if holds([*before, formula]) == z3.unsat:
            return "fail", f"{text} contradicts the equations of the steps before"
    follows = holds([*before, z3.Not(z3.And(*(formula for _, formula in now)))]) == z3.unsat
    return "pass" if follows else "abstain"


if __name__ == "__main__":
    serve(check)
