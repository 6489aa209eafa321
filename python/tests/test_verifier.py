"""Programs that judge whole chains."""

import json
import pathlib
import sys

import pytest

import beamgen

SHELLS = "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?"
TESTED = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    right = asked.get("tests") == {"wanted": asked["answer"]}
    verdict = {"verdict": "right"} if right else {"verdict": "wrong", "reason": "no", "passed": 1, "total": 2}
    print(json.dumps({"id": asked["id"], **verdict}), flush=True)
"""


def test_a_program_judges_by_the_tests_of_a_problem(tmp_path: pathlib.Path) -> None:
    (tmp_path / "verifier.py").write_text(TESTED)
    command = f"{sys.executable} {tmp_path / 'verifier.py'}"
    solver = beamgen.Solver(verifier=command)
    wrong = solver.solve(SHELLS)
    assert wrong.verifier == command and wrong.correct is False and wrong.reference is None
    assert wrong.outcome == beamgen.Outcome("wrong", "no", [1, 2])
    assert [answer.outcome for answer in wrong.answers][:1] == ["wrong"]
    assert beamgen.Result.from_dict(wrong.to_dict()) == wrong

    right = solver.solve(beamgen.Problem(SHELLS, tests={"wanted": wrong.answer}))
    assert right.correct is True and right.outcome == beamgen.Outcome("right")
    math = solver.solve(beamgen.Problem(SHELLS, answer="21", verifier="math"))
    assert math.verifier is None and math.outcome is None and math.correct is (math.answer == "21")


def test_files_of_problems_have_verifiers_and_tests(tmp_path: pathlib.Path) -> None:
    line = {"id": "a", "problem": SHELLS, "verifier": "rules", "tests": ["t"], "steps": ["Mia has 34 pens: 34."]}
    (tmp_path / "p.jsonl").write_text(json.dumps(line))
    (problem,) = beamgen.load_problems(tmp_path / "p.jsonl")
    assert (problem.verifier, problem.tests, problem.steps, problem.context) == ("rules", ["t"], ("Mia has 34 pens: 34.",), ())


def test_a_callable_judges_chains_and_guides_a_search() -> None:
    seen: list[tuple[beamgen.Problem, list[str], str | None]] = []

    def even(problem: beamgen.Problem, steps: list[str], answer: str | None) -> bool | str | beamgen.Outcome | None:
        seen.append((problem, steps, answer))
        if answer is None or not answer.isdigit():
            return None
        if answer == "3":
            return beamgen.Outcome("wrong", "three", [0, 1])
        return True if int(answer) % 2 == 0 else "it is odd"

    told = beamgen.Problem(SHELLS, "shells", answer="21", tests=["t"])
    closed = beamgen.Solver(chain_verifier=even, strategy="best-of-n", n=4)
    wrong = closed.solve(told)
    assert wrong.verifier == "a callable" and wrong.answer == "21" and wrong.correct is False
    assert wrong.outcome == beamgen.Outcome("wrong", "it is odd")
    assert {problem for problem, _, _ in seen} == {told}
    assert all(steps and not steps[-1].endswith("\n") for _, steps, _ in seen)
    with pytest.raises(beamgen.InputError, match="open verifier"):
        closed.solve(SHELLS, outcome_scores=True)

    seen.clear()
    solver = beamgen.Solver(
        chain_verifier=even, verifier_open=True, stop_when_verified=True, strategy="best-of-n", n=8, temperature=2.0
    )
    right = solver.solve(told)
    assert right.correct is True and right.score == 1.0 and right.spared_chains is not None
    assert all(problem.answer is None and problem.tests is None for problem, _, _ in seen)


def test_a_verifier_that_raises_loses_its_outcomes() -> None:
    def broken(problem: beamgen.Problem, steps: list[str], answer: str | None) -> bool:
        raise ValueError("no rules")

    lost = beamgen.Solver(chain_verifier=broken, n=2, m=1).solve(SHELLS)
    assert lost.outcome is not None and (lost.outcome.kind, lost.correct) == ("lost", False)
    assert "no rules" in lost.outcome.reason and lost.lost_verdicts > 0
    with pytest.raises(TypeError, match="exclude each other"):
        beamgen.Solver(chain_verifier=broken, verifier="cat")
