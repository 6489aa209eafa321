"""Generators in Python: what they are given, and what becomes of what they raise."""

from __future__ import annotations

from collections.abc import Callable

import beamgen
import pytest
from conftest import PENS


def even(problem: beamgen.Problem, steps: list[str]) -> float:
    return 0.5


def test_a_generator_writes_the_chain_from_seeds_that_repeat() -> None:
    seen: list[tuple[beamgen.Problem, list[str]]] = []

    def write(problem: beamgen.Problem, steps: list[str], seed: int) -> str:
        seen.append((problem, steps))
        return "The answer is 7." if len(steps) == 2 else str(seed)

    def chain(seed: int) -> list[str]:
        with beamgen.Solver(step_generator=write, scorer=even, n=4, seed=seed) as solver:
            result = solver.solve(beamgen.Problem(PENS, "pens", "21"))
        assert (result.answer, result.correct, len(result.steps)) == ("7", False, 3)
        return [step.text for step in result.steps]

    first = chain(1)
    assert first == chain(1) and first != chain(2)
    assert {problem for problem, _ in seen} == {beamgen.Problem(PENS, "pens", "21")}
    assert [] in [steps for _, steps in seen] and first[:2] in [steps for _, steps in seen]


def test_an_empty_step_ends_a_chain() -> None:
    with beamgen.Solver(step_generator=lambda problem, steps, seed: "" if steps else "so", scorer=even, n=4) as solver:
        result = solver.solve(PENS)
    assert [step.text for step in result.steps if step.text] == ["so"] and result.answer is None


def test_a_vote_needs_no_scorer() -> None:
    def write(problem: beamgen.Problem, steps: list[str], seed: int) -> str:
        return f"The answer is {4 if seed % 4 else 5}."

    with beamgen.Solver(step_generator=write, strategy="majority", n=32) as solver:
        assert solver.solve("2 + 2 = ?").answer == "4"


@pytest.mark.parametrize(
    ("generator", "line"),
    [
        (lambda problem, steps, seed: 5, "the generator returned 5, which is not a string"),
        (lambda problem, steps, seed: [][0], "the generator failed: IndexError: list index out of range"),
        (lambda problem, steps: "", "takes 2 positional arguments but 3 were given"),
    ],
)
def test_what_is_no_step_ends_the_problem(generator: Callable[..., str], line: str) -> None:
    with beamgen.Solver(step_generator=generator, scorer=even, n=4) as solver:
        with pytest.raises(beamgen.RunError) as raised:
            solver.solve(PENS)
    assert line in str(raised.value) and "\n" not in str(raised.value)
    assert raised.value.__cause__ is not None


def test_a_model_and_a_callable_exclude_each_other() -> None:
    with pytest.raises(TypeError, match="generator and step_generator exclude each other"):
        beamgen.Solver(step_generator=lambda problem, steps, seed: "", generator="bundled")
