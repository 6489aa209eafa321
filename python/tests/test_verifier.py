"""Programs that judge whole chains."""

import json
import pathlib
import sys

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
    (problem,) = beamgen.read_problems(tmp_path / "p.jsonl")
    assert (problem.verifier, problem.tests, problem.steps, problem.context) == ("rules", ["t"], ("Mia has 34 pens: 34.",), ())
