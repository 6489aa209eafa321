"""A scorer of one's own: any function of the problem and the steps so far."""

import re

import beamgen


def sums_are_right(problem: beamgen.Problem, steps: list[str]) -> float:
    """The probability that the last step is right: this one believes a step whose sum is right."""
    sum_and_result = re.search(r"(\d+) (\S) (\d+) = (\d+)", steps[-1])
    if sum_and_result is None:
        return 0.5
    a, operation, b, result = sum_and_result.groups()
    right = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b), "/": int(a) // max(int(b), 1)}
    return 0.9 if right.get(operation) == int(result) else 0.1


with beamgen.Solver(scorer=sums_are_right, n=16) as solver:
    results = list(solver.solve_all(beamgen.sample_problems()[:10]))
print(sum(bool(result.correct) for result in results), "of", len(results), "right")
