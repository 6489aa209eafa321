"""Scorers in Python: what they are given, what they decide, and what becomes of what they raise."""

from __future__ import annotations

import time
from collections.abc import Callable

import beamgen
import pytest
from conftest import PENS

Scorer = Callable[[beamgen.Problem, list[str]], float]


def test_a_scorer_sees_the_chain_and_its_scores_are_those_of_the_result() -> None:
    seen: list[tuple[beamgen.Problem, list[str]]] = []

    def scorer(problem: beamgen.Problem, steps: list[str]) -> float:
        seen.append((problem, steps))
        return 1 / (1 + len(steps[-1]))

    with beamgen.Solver(scorer=scorer, n=8) as solver:
        result = solver.solve(beamgen.Problem(PENS, "pens", "21"))
    assert {problem for problem, _ in seen} == {beamgen.Problem(PENS, "pens", "21")}
    texts = [step.text for step in result.steps]
    assert texts in [steps for _, steps in seen] and texts[:1] in [steps for _, steps in seen]
    for step in result.steps:
        assert step.score == pytest.approx(1 / (1 + len(step.text)), abs=1e-6)


def test_a_scorer_decides_which_chain_is_chosen() -> None:
    def likes_wrong_sums(problem: beamgen.Problem, steps: list[str]) -> float:
        return 0.01 if "34 + 8 = 42" in steps[-1] else 0.99

    with beamgen.Solver(scorer=likes_wrong_sums, n=64, m=4, choose="best") as solver:
        result = solver.solve(PENS)
    with beamgen.Solver(n=64, m=4, choose="best") as solver:
        usual = solver.solve(PENS)
    assert any("34 + 8 = 42" in step.text for step in usual.steps)
    assert not any("34 + 8 = 42" in step.text for step in result.steps)


def test_what_was_raised_for_a_stream_that_was_left_is_nobody_elses_cause() -> None:
    raised = [LookupError("first"), LookupError("second")]

    def scorer(problem: beamgen.Problem, steps: list[str]) -> float:
        raise raised[0]

    with beamgen.Solver(scorer=scorer, n=4) as solver:
        left = solver.stream(PENS)
        while not isinstance(next(left), beamgen.StepClosed):
            pass
        time.sleep(0.2)
        del left
        raised.pop(0)
        with pytest.raises(beamgen.RunError, match="second") as told:
            solver.solve(PENS)
    assert told.value.__cause__ is raised[0]


def test_what_a_scorer_raises_ends_the_problem_and_is_the_cause() -> None:
    def scorer(problem: beamgen.Problem, steps: list[str]) -> float:
        if problem.id == "2":
            raise LookupError("no idea\nof this")
        return 0.5

    with beamgen.Solver(scorer=scorer, n=4) as solver:
        with pytest.raises(beamgen.RunError, match="the scorer failed: LookupError: no idea of this") as raised:
            solver.solve(beamgen.Problem(PENS, "2"))
        cause = raised.value.__cause__
        assert isinstance(cause, LookupError) and cause.args == ("no idea\nof this",)
        assert cause.__traceback__ is not None
        results = {result.id: result for result in solver.solve_all([PENS] * 3)}
        assert results["2"].error == "the scorer failed: LookupError: no idea of this"
        assert results["2"].finish == "refused" and "error" in repr(results["2"])
        assert results["1"].error is None and results["3"].answer is not None
        with pytest.raises(beamgen.RunError) as raised:
            *_, _ = solver.stream(beamgen.Problem(PENS, "2"))
        assert isinstance(raised.value.__cause__, LookupError)
        assert solver.solve(PENS).answer is not None


@pytest.mark.parametrize(
    ("scorer", "line"),
    [
        (lambda problem, steps: None, "the scorer returned None, which is not a number"),
        (lambda problem, steps: "0.5", "the scorer returned '0.5', which is not a number"),
        (lambda problem, steps: 1.5, "1.5 is not a probability"),
        (lambda problem, steps: float("nan"), "NaN is not a probability"),
        (lambda problem: 0.5, "takes 1 positional argument but 2 were given"),
    ],
)
def test_what_is_no_probability_ends_the_problem(scorer: Scorer, line: str) -> None:
    with beamgen.Solver(scorer=scorer, n=4) as solver:
        with pytest.raises(beamgen.Error) as raised:
            solver.solve(PENS)
        assert line in str(raised.value) and "\n" not in str(raised.value)


def test_given_steps_are_scored_by_it_too() -> None:
    def scorer(problem: beamgen.Problem, steps: list[str]) -> float:
        if len(steps) > 2:
            raise ValueError("too many")
        return len(steps) / 10

    with beamgen.Solver(scorer=scorer) as solver:
        assert solver.score(PENS, ["a", "b"]) == pytest.approx([0.1, 0.2])
        with pytest.raises(beamgen.RunError, match="too many") as raised:
            solver.score(PENS, ["a", "b", "c"])
        assert isinstance(raised.value.__cause__, ValueError)


def test_a_solver_may_be_used_by_another_solvers_scorer() -> None:
    with beamgen.Solver() as judge:
        with beamgen.Solver(scorer=lambda problem, steps: judge.score(problem, steps)[-1], n=8) as solver:
            assert solver.solve(PENS).answer == "21"
