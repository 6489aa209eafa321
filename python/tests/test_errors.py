"""What is wrong is one line, of a type that says whose fault it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import beamgen
import pytest
from conftest import PENS

UNSCORED = {"scorer": "none", "strategy": "greedy"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strategy": "beem"}, ["unknown strategy", "beem", "dvts"]),
        ({"n": 2}, ["n = 2 is less than m = 4"]),
        ({"n": 0}, ["n"]),
        ({"strategy": 3}, ["settings: ", "expected a string"]),
        ({"choose": "bset"}, ["settings: ", "bset", "majority"]),
        ({"n": 1.5}, ["n: invalid type: floating point `1.5`, expected a whole number"]),
        ({"temperature": -1.0}, ["temperature", "-1"]),
        ({"temperature": float("nan")}, ["settings: ", "JSON"]),
        ({"scorer": "none"}, ["needs a scorer"]),
        ({"scorer": "pmr"}, ['scorer: unknown scorer "pmr" (known: prm, orm, exact, none)']),
        ({"settings": {"search.stategy": "dvts"}}, ["search.stategy: ", "the nearest is `search.strategy`"]),
        ({"settings": {"search": {"mcts": {"explore": 3}}}}, ["nearest is `search.mcts.exploration`"]),
        ({"settings": {"search.n": object()}}, ["settings: ", "object is not a value"]),
        ({"generator": "no/such/folder"}, ["the bundled reward model cannot score a generator", "name a prm"]),
        ({"generator": "no/such/folder", **UNSCORED}, ["no/such/folder"]),
        ({"config": "no-such.toml"}, ["no-such.toml"]),
        ({"pair": "qwen2.5-math-1.5B"}, ['the nearest is "qwen2.5-math-1.5b"']),
        ({"generator_url": "http://localhost:1", **UNSCORED}, ["http://localhost:1: cannot be reached"]),
    ],
)
def test_settings_that_cannot_be_run(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(beamgen.InputError) as raised:
        beamgen.Solver(offline=True, **settings)
    line = str(raised.value)
    assert "\n" not in line and all(word in line for word in words), line
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, beamgen.Error)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strategy": "beem"}, "unknown strategy"),
        ({"n": 2}, "n = 2 is less than m = 4"),
        ({"settings": {"engine.threads": 3}}, "engine.threads: there is no key `engine`"),
        ({"timeout": -1.0}, "timeout = -1"),
        ({"timeout": float("nan")}, "timeout = NaN"),
    ],
)
def test_settings_of_a_request(solver: beamgen.Solver, settings: dict[str, Any], words: str) -> None:
    calls: list[Callable[..., object]] = [
        solver.solve,
        solver.stream,
        lambda problem, **settings: list(solver.solve_all([problem], **settings)),
    ]
    for call in calls:
        with pytest.raises(beamgen.InputError) as raised:
            call(PENS, **settings)
        assert words in str(raised.value) and "\n" not in str(raised.value)


def test_keywords_that_are_none(solver: beamgen.Solver) -> None:
    with pytest.raises(TypeError, match="'stratgy': did you mean 'strategy'"):
        solver.solve(PENS, stratgy="beam")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'prm' is a setting of the solver"):
        solver.solve(PENS, prm="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown keyword 'exploration': any key .* settings="):
        beamgen.Solver(exploration=2)  # type: ignore[call-arg]


class Frame:
    """What is iterated like a data frame: by the names of its columns."""

    columns = ("id", "problem")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


def test_problems_that_are_none(solver: beamgen.Solver, tmp_path: Path) -> None:
    for problem, words in [
        ("", 'the problem: field "problem": empty'),
        ({"text": "?"}, 'field "problem": missing'),
        ({"problem": 3}, "found a number"),
        ({"problem": PENS, "answer": []}, 'field "answer": found a list'),
        ({"problem": PENS, "answer": object()}, "not JSON serializable"),
        ("x" * 300_000, "300000 bytes"),
        ("\ud800", "the problem: "),
    ]:
        with pytest.raises(beamgen.InputError) as raised:
            solver.solve(problem)  # type: ignore[arg-type]
        assert words in str(raised.value) and "\n" not in str(raised.value), raised.value
    with pytest.raises(TypeError, match="the problem: .* not int"):
        solver.solve(3)  # type: ignore[arg-type]
    with pytest.raises(beamgen.InputError, match='problem 2: field "problem": empty'):
        list(solver.solve_all([PENS, " "]))
    file = tmp_path / "problems.jsonl"
    file.write_text('{"problem": "?"}\n{"problem": 1}\n', encoding="utf-8")
    with pytest.raises(beamgen.InputError, match=r"problems.jsonl:2: field"):
        solver.solve_all(file)
    with pytest.raises(beamgen.InputError, match="no-such-file"):
        beamgen.load_problems("no-such-file")
    with pytest.raises(TypeError, match="problems: a Frame gives .*: give a list of mappings"):
        solver.solve_all(Frame())
    with pytest.raises(TypeError, match="problems: a dict gives"):
        solver.solve_all({"problem": PENS})


def test_a_problem_that_does_not_fit_is_refused_and_stops_nothing(solver: beamgen.Solver) -> None:
    long = "Mia has 34 pens. " * 2000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", beamgen.ForeignProblemWarning)
        with pytest.raises(beamgen.InputError, match="context"):
            solver.solve(long)
        results = {result.index: result for result in solver.solve_all([PENS, long])}
    assert results[0].answer == "21" and results[1].finish == "too-long" and "context" in (results[1].error or "")


def test_steps_that_are_none(solver: beamgen.Solver) -> None:
    with pytest.raises(beamgen.InputError, match="step 2 is blank"):
        solver.score(PENS, ["a", "\n"])
    for steps, words in [
        ("a step", "list of strings"),
        ({"step": "a"}, "steps: a dict gives the names of its columns"),
        (Frame(), "steps: a Frame gives .*: give a list of strings"),
        (["a", 2], "step 2 is a string, not int"),
    ]:
        for score in (solver.score, beamgen.score, beamgen.RewardModel().score):
            with pytest.raises(TypeError, match=words):
                score(PENS, steps)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a problem is a string .* not Frame"):
        solver.score(Frame(), ["a"])  # type: ignore[arg-type]
    assert solver.score(PENS, []) == []
    with beamgen.Solver(scorer="none", strategy="greedy") as unscored:
        with pytest.raises(beamgen.RunError, match="there is none"):
            unscored.score(PENS, ["a"])


def test_a_problem_that_the_bundled_models_do_not_know_is_warned_of(solver: beamgen.Solver) -> None:
    with pytest.warns(beamgen.ForeignProblemWarning, match="one kind of problem") as caught:
        solver.solve("What is 17 times 23?", n=4)
        solver.score("What is 17 times 23?", ["17 * 23 = 391."])
        next(iter(solver.stream("What is 17 times 23?", n=4)))
        beamgen.score("What is 17 times 23?", ["17 * 23 = 391."])
        list(solver.solve_all(["What is 17 times 23?"], n=4))
    assert [warning.filename for warning in caught] == [__file__] * 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solver.solve(PENS, n=4)


def test_a_closed_solver_says_so() -> None:
    with beamgen.Solver() as solver:
        stream = solver.stream(PENS, n=4096, m=2)
        next(stream)
    for call in (solver.solve, solver.stream):
        with pytest.raises(beamgen.RunError, match="^the solver is closed$"):
            call(PENS)
    with pytest.raises(beamgen.RunError, match="^the solver is closed$"):
        solver.score(PENS, ["a"])
    with pytest.raises(beamgen.RunError, match="the solver was closed"):
        list(stream)
    solver.close()


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"judge": "exact"}, "without judges and checkers"),
        ({"checker": "exact"}, "without judges and checkers"),
        ({"scorer": len}, "a callable is no value of a setting: give it as scorer="),
    ],
)
def test_a_reward_model_refuses_what_it_would_ignore(keywords: Any, words: str) -> None:
    with pytest.raises(beamgen.InputError, match=words):
        beamgen.RewardModel(**keywords)


@pytest.mark.parametrize("keywords", [{"rounds": -1}, {"below": 2}, {"below": float("nan")}])
def test_refine_names_the_argument_at_fault(keywords: Any) -> None:
    with pytest.raises(beamgen.InputError, match=f"^{next(iter(keywords))} = "):
        beamgen.Solver().refine([{"problem": "1 + 1?", "steps": ["2"]}], **keywords)


def test_a_fault_of_a_problem_names_the_problem() -> None:
    with pytest.raises(beamgen.InputError, match="^the problem: "):
        beamgen.Solver().solve(beamgen.Problem("1 + 1?", tests=len))
