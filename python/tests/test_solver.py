"""Solving: one problem, many, with events, from many threads, with other settings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import beamgen
import pytest
from conftest import PENS


def essence(result: beamgen.Result) -> tuple[object, ...]:
    """A result without what it cost in seconds and memory."""
    return result.id, result.answer, result.steps, result.score, result.finish, result.answers, result.tree_json


def test_the_first_problem_of_the_readme_in_four_lines() -> None:
    import beamgen

    solver = beamgen.Solver()
    result = solver.solve(PENS)
    assert (result.answer, result.finish) == ("21", "answer")

    assert len(result.steps) > 2 and all(step.score is not None and step.score > 0.8 for step in result.steps)
    assert result.answers[0].answer == "21" and result.answers[0].votes > 0
    assert result.ledger.generated_tokens > 0 and result.ledger.seconds > 0


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        ([], {}),
        (["-n", "8", "-m", "2", "--seed", "7", "--temperature", "0.8"], {"n": 8, "m": 2, "seed": 7, "temperature": 0.8}),
        (["--strategy", "majority", "-n", "5"], {"strategy": "majority", "n": 5}),
        (["--strategy", "single"], {"strategy": "single"}),
        (["--scorer", "orm", "--strategy", "best-of-n", "-n", "4"], {"scorer": "orm", "strategy": "best-of-n", "n": 4}),
        (["--scorer", "exact", "-n", "4"], {"scorer": "exact", "n": 4}),
        (
            ["--strategy", "mcts", "-n", "8", "--set", "search.mcts.exploration=2"],
            {"strategy": "mcts", "n": 8, "settings": {"search.mcts.exploration": 2}},
        ),
    ],
)
def test_results_are_those_of_the_program(
    program: str, tmp_path: Path, flags: list[str], settings: beamgen.Settings
) -> None:
    problems = beamgen.sample_problems()[:4]
    file = tmp_path / "problems.jsonl"
    lines = (json.dumps({"id": p.id, "problem": p.text, "answer": p.answer}) for p in problems)
    file.write_text("\n".join(lines), encoding="utf-8")
    printed = subprocess.run([program, "solve", file, "--json", *flags], capture_output=True, text=True, check=True)
    expected = [json.loads(line) for line in printed.stdout.splitlines()][:-1]

    with beamgen.Solver(**settings) as solver:
        results = list(solver.solve_all(file))
        own = [solver.solve(problem) for problem in problems]
    for given in (results, own):
        assert [timeless(result.to_dict()) for result in given] == [timeless(line) for line in expected]


def timeless(line: dict[str, object]) -> dict[str, object]:
    """A line without what depends on the clock or on who was in flight beside it."""
    ledger = line["ledger"]
    assert isinstance(ledger, dict)
    counts = ("prompt_tokens", "generated_tokens", "scored_tokens")
    assert set(counts) < set(ledger) and ledger["seconds"] > 0
    return line | {"ledger": {name: ledger[name] for name in counts}}


def test_a_request_has_settings_of_its_own_and_the_solvers_elsewhere() -> None:
    with beamgen.Solver(strategy="single", seed=3) as solver:
        assert len([node for node in solver.solve(PENS).tree or [] if node.state == "finished"]) == 1
        beam = solver.solve(PENS, strategy="beam", n=8)
        assert (beam.tree or [])[0].children != [] and len(beam.answers[0].answer) > 0
        with beamgen.Solver(n=8, seed=3) as other:
            assert essence(beam) == essence(other.solve(PENS))
        assert essence(solver.solve(PENS, seed=4)) != essence(solver.solve(PENS))


def test_eight_threads_at_once_get_what_they_get_alone(solver: beamgen.Solver) -> None:
    problems = beamgen.sample_problems()[:16]
    alone = [essence(solver.solve(problem, n=8)) for problem in problems]
    with ThreadPoolExecutor(8) as pool:
        at_once = list(pool.map(lambda problem: essence(solver.solve(problem, n=8)), problems))
    assert at_once == alone


def test_many_problems_come_as_they_are_done_and_are_taken_as_there_is_room(solver: beamgen.Solver) -> None:
    sample = beamgen.sample_problems()
    taken = 0

    def problems() -> Iterator[beamgen.Problem]:
        nonlocal taken
        for number in range(10_000):
            taken += 1
            yield sample[number % len(sample)]

    results = solver.solve_all(problems(), n=4, m=2, tree=False, as_completed=True)
    first = [next(results) for _ in range(20)]
    assert len({result.index for result in first}) == 20
    assert taken < 100
    assert all(result.tree is None and result.correct is not None for result in first)
    results.close()
    assert solver.solve(PENS).answer == "21"


def test_many_results_come_in_the_order_of_their_problems(solver: beamgen.Solver) -> None:
    sample = beamgen.sample_problems()
    # The first takes longest by far: the others are done before it.
    long = beamgen.Problem(max((problem.text for problem in sample), key=len), "long")
    given = [long, *sample[:20]]
    results = solver.solve_all(given, n=64)
    assert len(results) == 21
    assert [result.id for result in results] == [problem.id for problem in given]
    done = list(solver.solve_all(given, n=64, as_completed=True))
    assert sorted(result.index for result in done) == list(range(21))
    assert [result.index for result in done] != list(range(21))
    with pytest.raises(TypeError, match="no length"):
        len(solver.solve_all(iter(given)))


def test_problems_may_be_strings_problems_or_mappings(solver: beamgen.Solver) -> None:
    given: list[str | beamgen.Problem | dict[str, str]] = [PENS, beamgen.Problem(PENS, "1"), {"question": PENS, "answer": "... #### 21", "id": "1"}]
    results = list(solver.solve_all(iter(given)))
    assert [result.correct for result in results] == [None, None, True]
    assert essence(results[0]) == essence(results[1])
    assert results[2].reference == "21" and results[2].steps == results[0].steps
    # Its place is the id of a string, and the id takes part in the random numbers.
    assert [result.id for result in solver.solve_all([PENS, PENS])] == ["1", "2"]


def test_a_stream_has_every_step_with_its_score_and_ends_with_the_result(solver: beamgen.Solver) -> None:
    *events, result = solver.stream(PENS)
    assert isinstance(result, beamgen.Result) and essence(result) == essence(solver.solve(PENS))
    assert events[0] == beamgen.Started()
    closed = {event.node: event.text for event in events if isinstance(event, beamgen.StepClosed)}
    scored = [event for event in events if isinstance(event, beamgen.StepScored)]
    tree = result.tree
    assert tree is not None and len(scored) > 5
    in_tree = sorted((n.text.strip(), n.score) for n in tree[1:] if n.score is not None and n.duplicate_of is None)
    assert sorted((event.text, event.score) for event in scored) == in_tree
    assert all(closed[event.node] == event.text for event in scored)
    begun = {child for event in events if isinstance(event, beamgen.ChainExpanded) for child in event.children}
    assert len(begun) == len(tree) - 1 and set(closed) <= begun
    pruned = [event for event in events if isinstance(event, beamgen.ChainPruned)]
    assert pruned and all(event.text == closed.get(event.node, "") for event in pruned)
    reasons = sorted(event.pruned.reason for event in pruned if event.pruned is not None)
    assert reasons == sorted(node.pruned.reason for node in tree if node.pruned is not None)
    merged = [event for event in events if isinstance(event, beamgen.StepMerged)]
    assert merged and all(closed[event.node] == closed[event.twin] for event in merged)
    assert any(isinstance(event, beamgen.ChainFinished) and event.finish == "answer" for event in events)


def test_a_step_that_is_held_up_is_told_with_its_score_so_far(solver: beamgen.Solver) -> None:
    events = list(solver.stream(PENS, early_rejection=4))
    paused = {event.node: event.text for event in events if isinstance(event, beamgen.StepPaused)}
    partly = [event for event in events if isinstance(event, beamgen.StepPartlyScored)]
    assert partly and all(paused[event.node] == event.text and 0 <= event.score <= 1 for event in partly)


def test_values_by_rollouts_are_in_steps_and_nodes(solver: beamgen.Solver) -> None:
    result = solver.solve(PENS, n=4, m=2, rollouts=3)
    valued = [node for node in result.tree or [] if node.value is not None]
    assert valued and all(node.rating == node.value for node in valued)
    completed = [node for node in valued if node.rollouts]
    assert completed and all(len(node.rollouts or []) == 3 for node in completed)
    assert any(node.is_rollout for node in result.tree or [])
    # A vote needs no reward model.
    assert result.ledger.scored_tokens == 0


def test_no_event_comes_too_late_for_its_stream(solver: beamgen.Solver) -> None:
    for seed in range(100):
        *events, result = solver.stream(PENS, n=4, m=2, seed=seed)
        assert isinstance(result, beamgen.Result) and result.tree is not None
        scored = [event for event in events if isinstance(event, beamgen.StepScored)]
        in_tree = [node for node in result.tree if node.score is not None and node.duplicate_of is None]
        assert len(scored) == len(in_tree) > 0


def test_a_stream_that_is_left_is_cancelled_and_nothing_stays_behind(solver: beamgen.Solver) -> None:
    for event in solver.stream(PENS, n=4096, m=2):
        if isinstance(event, beamgen.StepClosed):
            break
    assert solver.solve(PENS).answer == "21"


def test_a_search_ends_with_what_it_has_when_its_time_is_over(solver: beamgen.Solver) -> None:
    result = solver.solve(PENS, timeout=0)
    assert (result.stopped, result.answer, result.steps) == ("deadline", None, [])
    assert "stopped='deadline'" in repr(result) and "stopped" not in result.to_dict()


def test_given_steps_get_the_scores_that_the_search_gave_them(solver: beamgen.Solver) -> None:
    result = solver.solve(PENS)
    steps = [step.text for step in result.steps]
    assert solver.score(PENS, steps) == pytest.approx([step.score for step in result.steps], abs=1e-5)
    assert beamgen.score(PENS, steps) == solver.score(PENS, steps) == beamgen.RewardModel().score(PENS, steps)
    wrong = solver.score(PENS, [steps[0], "Leo has 8 more pens than Mia: 34 - 8 = 26."])
    assert wrong[0] > 0.8 and wrong[1] < 0.2
    assert beamgen.score(PENS, steps, scorer="exact") == [1.0] * len(steps)


def test_settings_are_shown_as_they_act(solver: beamgen.Solver) -> None:
    assert solver.settings["search"]["n"] == 16 and solver.notes == []
    assert repr(solver) == "<beamgen.Solver generator='bundled', prm='bundled', strategy='beam', n=16, m=4>"
    nested = {"search": {"n": 8, "mcts": {"exploration": 2}}, "engine.threads": 1}
    with beamgen.Solver(settings=nested, m=2) as other:
        settings = other.settings
    assert (settings["search"]["n"], settings["search"]["m"], settings["engine"]["threads"]) == (8, 2, 1)
    assert settings["search"]["mcts"]["exploration"] == 2
