"""Given steps and given answers: continued, refined and guarded."""

from __future__ import annotations

import beamgen
import pytest

SHELLS = (
    "Ana has 16 shells. Kim has 1 more shells than Ana. Ben has 10 fewer shells than Kim. "
    "How many shells does Ben have?"
)
WRONG = [
    "Ana has 16 shells: 16.",
    "Kim has 1 more shells than Ana: 16 + 1 = 17.",
    "Ben has 10 fewer shells than Kim: 17 + 10 = 27.",
    "The answer is 27.",
]


def test_a_search_goes_on_from_given_steps() -> None:
    with beamgen.Solver(n=16, m=4) as solver:
        given = solver.solve(beamgen.Problem(SHELLS, steps=WRONG[:2]))
        assert [step.text for step in given.steps[:2]] == WRONG[:2]
        assert given.answer == "7" and all(step.score is not None for step in given.steps)
        mapped = solver.solve({"problem": SHELLS, "id": "1", "steps": WRONG[:2]})
        assert mapped.steps == given.steps
        plain = solver.solve(SHELLS)
        assert given.ledger.prompt_tokens > plain.ledger.prompt_tokens
        for steps in ("x", [1], ["a", " "]):
            with pytest.raises(beamgen.InputError, match="steps"):
                solver.solve({"problem": SHELLS, "steps": steps})


def test_answers_are_refined_and_guarded() -> None:
    answers: list[beamgen.Problem | dict[str, object]] = [
        {"problem": SHELLS, "answer": 7, "response": "\n".join(WRONG)},
        beamgen.Problem(SHELLS, id="b", answer="7", steps=WRONG),
    ]
    with beamgen.Solver(n=8, m=4) as solver:
        cut, steps = solver.refine(answers, rounds=2)
        assert cut.before is not None and cut.after is not None and cut.before.steps == WRONG
        assert (cut.before.correct, cut.after.correct, cut.changed) == (False, True, True)
        assert cut.difference[0].startswith("  Ana") and any(line.startswith("+") for line in cut.difference)
        assert steps.before == cut.before and cut.rounds[0].step == 3
        assert solver.refine(answers, below=0.0)[0].changed is False
        guarded = solver.guard(answers, rounds=2)[1]
        assert (guarded.verdict, guarded.answer) == ("mend", "7")
        assert guarded.reasons[0].code == "unsound" and guarded.mended is not None
        withheld = solver.guard(answers, rounds=0, samples=0)[0]
        assert (withheld.verdict, withheld.answer) == ("withhold", None)
        with pytest.raises(beamgen.InputError, match="steps"):
            solver.refine([{"problem": SHELLS, "steps": 3}])


def test_the_context_of_a_problem_is_read_and_kept() -> None:
    problem = beamgen.Problem(SHELLS, context=["Shells are counted.", "Nobody loses any."])
    seen: list[beamgen.Problem] = []

    def write(problem: beamgen.Problem, steps: list[str], seed: int) -> str:
        seen.append(problem)
        return "" if steps else "The answer is 7.\n"

    with beamgen.Solver(n=2, m=2, step_generator=write, scorer=lambda problem, steps: 0.5) as solver:
        result = solver.solve(problem)
    assert result.context == list(problem.context) and result.to_dict()["context"] == result.context
    assert seen and all(one.text == SHELLS and list(one.context) == result.context for one in seen)
    with beamgen.Solver(n=2, m=2) as solver:
        assert "context" not in solver.solve(SHELLS).to_dict()
        with pytest.raises(beamgen.InputError, match="context"):
            solver.solve({"problem": SHELLS, "context": {"title": "x"}})
