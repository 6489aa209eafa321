"""A generator of one's own: any function of the problem, the steps so far and a seed."""

import beamgen

SECRET = "417"


def guess(problem: beamgen.Problem, steps: list[str], seed: int) -> str:
    """One digit more than the last step has, and at last the answer: the search has to find the right ones."""
    digits = steps[-1] if steps else ""
    return f"The answer is {digits}." if len(digits) == len(SECRET) else f"{digits}{seed % 10}"


def share_right(problem: beamgen.Problem, steps: list[str]) -> float:
    """The share of the digits that are right."""
    written = steps[-1].removeprefix("The answer is ")
    return (sum(a == b for a, b in zip(written, SECRET)) + 0.5) / (len(SECRET) + 1)


with beamgen.Solver(step_generator=guess, scorer=share_right, n=64, m=16) as solver:
    print("found", solver.solve("Which number am I thinking of?").answer)
