"""A person rates the steps of chains."""

import json
from pathlib import Path

import pytest

import beamgen


def chains(folder: Path) -> Path:
    path = folder / "chains.jsonl"
    lines = [
        {"problem": "3 times 4?", "answer": "12", "steps": [{"text": "3 * 4 = 12."}, {"text": "So 12."}]},
        {"problem": "6 and 6?", "steps": [{"text": "6 + 6 = 11."}, {"text": "So 11."}]},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_steps_are_rated_one_after_the_other(tmp_path: Path) -> None:
    out = tmp_path / "rated.jsonl"
    rating = beamgen.annotate(chains(tmp_path), out, rater="anna")
    seen = []
    for view in rating:
        seen.append(view.steps[view.step].text)
        rating.rate(-1 if "11" in seen[-1] else 1)
    assert seen == ["3 * 4 = 12.", "So 12.", "6 + 6 = 11."]
    view = rating.go(0)
    assert (view.problem, view.answer, view.is_done) == ("3 times 4?", "12", True)
    assert [step.rating for step in view.steps] == [1, 1]
    assert rating.comment("sure").steps[0].comment == "sure"
    assert rating.undo().steps[0].comment is None
    events = [json.loads(line) for line in out.read_text().splitlines()]
    assert [event["rating"] for event in events if "rater" in event] == [1, 1, -1, 1, 1]
    again = beamgen.annotate(chains(tmp_path), out, rater="anna")
    assert again.view.done == 2
    assert beamgen.annotate(chains(tmp_path), out, rater="anna", through=True).view.done == 1
    assert beamgen.annotate(chains(tmp_path), out, rater="ben").view.done == 0


def test_what_cannot_be_rated_is_refused(tmp_path: Path) -> None:
    path, out = chains(tmp_path), tmp_path / "rated.jsonl"
    for order, told in [("best", "convincing"), ("unsure", "no chain has")]:
        with pytest.raises(beamgen.InputError, match=told):
            beamgen.annotate(path, out, rater="anna", order=order)
    rating = beamgen.annotate(path, out, rater="anna")
    with pytest.raises(beamgen.InputError, match="invalid rating 2"):
        rating.rate(2)
    with pytest.raises(beamgen.InputError, match="chain 5"):
        rating.go(5)
    with pytest.raises(beamgen.InputError, match="none.jsonl"):
        beamgen.annotate(tmp_path / "none.jsonl", out, rater="anna")
