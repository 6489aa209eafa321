"""``label``, ``check``, ``calibrate`` and ``plan``; judges and checkers that are callables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import beamgen
import pandas
import pytest

PROBLEMS = beamgen.sample_problems()[:6]
# Checked by hand: the first step is wrong in the first chain.
CHAINS: list[dict[str, Any]] = [
    {"problem": "3 + 4 pens, twice?", "steps": ["3 + 4 = 8", "8 * 2 = 16"], "label": 0},
    {"problem": "5 pens less 2?", "steps": ["5 - 2 = 3"], "label": -1},
]


def test_label_gives_chains_with_rollouts(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    labels = beamgen.label(PROBLEMS, chains=3, rollouts=2, on_progress=lambda done, of: told.append((done, of)))
    assert labels.counts["chains"] == 18 and labels.errors == []
    assert told[-1] == (6, 6)
    with_rollouts = [step["rollouts"] for chain in labels.chains for step in chain["steps"] if "rollouts" in step]
    assert with_rollouts and all(of["n"] <= 2 and of["k"] <= of["n"] for of in with_rollouts)
    # The same seed gives the same labels, whatever the problems come as.
    frame = pandas.DataFrame([{"id": each.id, "question": each.text, "answer": each.answer} for each in PROBLEMS])
    assert beamgen.label(frame, chains=3, rollouts=2).chains == labels.chains
    file = tmp_path / "labels.jsonl"
    labels.save(file)
    assert [json.loads(line) for line in file.read_text().splitlines()] == labels.chains
    with pytest.raises(FileExistsError):
        labels.save(file)
    evaluated = beamgen.evaluate_prm(file)
    assert evaluated.chains > 0


def test_label_without_rollouts_gives_outcomes_only() -> None:
    labels = beamgen.label(PROBLEMS[:2], chains=2, rollouts=0)
    assert labels.counts["rollouts"] == 0
    assert {chain["outcome"] for chain in labels.chains} <= {True, False}


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"n": 4}, "n changes nothing here, chains is the number of chains"),
        ({"strategy": "beam"}, "strategy changes nothing here, mode chooses the search"),
        ({"mode": "some"}, "mode = \"some\": use one of all, early, binary, adaptive"),
        ({"chains": 0}, "chains"),
        ({"chains": -1}, "chains"),
        ({"problems": [{"problem": "1 + 1?"}]}, "reference answer"),
    ],
)
def test_label_refuses_what_changes_nothing(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(beamgen.InputError, match=words):
        beamgen.label(**{"problems": PROBLEMS[:1], **keywords})


def test_check_counts_the_fails_of_checkers() -> None:
    checked = beamgen.check(CHAINS, checker="arithmetic")
    (row,) = checked.rows
    assert (row.checker, row.steps, row.true_fails, row.wrong_chains, row.recall) == ("arithmetic", 3, 1, 1, 1.0)
    assert row.false_fails == [] and row.precision == 1.0
    assert [[step[0]["verdict"] for step in chain["steps"]] for chain in checked.verdicts] == [["fail", "pass"], ["pass"]]
    assert [row.checker for row in beamgen.check(CHAINS).rows][-1] == "all"
    assert beamgen.check(CHAINS, checker="arithmetic", limit=1).rows[0].steps == 2
    wrong = [{**CHAINS[0], "label": -1}]
    (fail,) = beamgen.check(wrong, checker="arithmetic").rows[0].false_fails
    assert (fail["step"], fail["text"]) == (0, "3 + 4 = 8")
    with pytest.raises(beamgen.InputError, match="rule: write rating"):
        beamgen.check(CHAINS, rule="so")
    with pytest.raises(beamgen.InputError, match="nobody"):
        beamgen.check(CHAINS, checker="nobody")


def test_calibrate_fits_and_writes_what_a_solver_reads(tmp_path: Path) -> None:
    labels = beamgen.label(beamgen.sample_problems()[:12], chains=4, rollouts=2)
    out = tmp_path / "calibration.json"
    fitted = beamgen.calibrate(labels.chains, out=out, method="platt")
    assert json.loads(out.read_text()) == fitted.content
    assert fitted.figures["platt"]["brier"].value <= fitted.figures["lowest scores so far"]["brier"].value + 0.05
    result = beamgen.Solver(calibration=out, score_as="calibrated").solve(PROBLEMS[0])
    assert result.answer == "7"
    for keywords, words in (
        ({"method": "splines"}, "use one of isotonic, platt, temperature"),
        ({"held_out": 1.0}, "held_out = 1"),
        ({"aggregation": "product"}, "fitted to min or last"),
        ({"policy": "another"}, "no chain of such a policy"),
    ):
        with pytest.raises(beamgen.InputError, match=words):
            beamgen.calibrate(labels.chains, **keywords)


def test_a_plan_bounds_the_run() -> None:
    plan = beamgen.plan(PROBLEMS, n=4)
    results = list(beamgen.Solver(n=4).solve_all(PROBLEMS))
    sampled = sum(result.ledger.generated_tokens for result in results)
    assert plan.problems == plan.measured == 6
    assert plan.sampled == sampled <= plan.most_tokens
    assert plan.seconds > 0 and plan.memory > 0
    assert beamgen.plan(PROBLEMS, budget_tokens=50).most_tokens == 300


def test_callables_judge_and_check() -> None:
    def likes_short(problem: beamgen.Problem, steps: list[str]) -> float | None:
        return None if "answer" in steps[-1] else 0.5

    def no_sums(problem: beamgen.Problem, steps: list[str]) -> bool | str | None:
        return "a sum" if "+ 10" in steps[-1] else None

    solver = beamgen.Solver(scorer=["exact", likes_short], step_checker=no_sums, n=4, m=2)
    result = solver.solve(PROBLEMS[0])
    nodes = [node for node in result.tree or [] if node.text]
    judged = [(node.score, node.judges) for node in nodes if node.judges]
    assert judged and all(set(judges) == {"exact", "likes_short", "no_sums"} for _, judges in judged)
    assert any(judges["no_sums"] == 0.0 and score == 0.0 for score, judges in judged)
    assert any(judges["likes_short"] is None for _, judges in judged)
    first = beamgen.Solver(scorer=[lambda problem, steps: 0.25, "exact"], n=2, m=1).solve(PROBLEMS[0])
    assert all(step.score in (0.0, 0.25) for step in first.steps)
    says: Any = lambda problem, steps: "good"  # noqa: E731
    broken = beamgen.Solver(scorer=["exact", says], n=2, m=1)
    with pytest.raises(beamgen.RunError, match="the judge returned 'good', which is not a number"):
        broken.solve(PROBLEMS[0])
