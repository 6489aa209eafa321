"""How well a reward model finds wrong steps: the figures of `beamgen eval-prm`."""

from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path
from typing import Any

import beamgen
import pytest
from conftest import PENS, ROOT

RIGHT = ["Mia has 34 pens: 34.", "Leo has 8 more pens than Mia: 34 + 8 = 42."]
WRONG = ["Mia has 34 pens: 34.", "Leo has 8 more pens than Mia: 34 - 8 = 26."]
CHAINS = [{"problem": PENS, "steps": RIGHT, "label": -1}, {"problem": PENS, "steps": WRONG, "label": 1}]


@pytest.fixture(scope="module")
def world(program: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled chains of the bundled world."""
    file = tmp_path_factory.mktemp("world") / "world.jsonl"
    flags = ["--count", "30", "--seed", "31", "--steps"]
    file.write_bytes(subprocess.run([program, "problems", *flags], capture_output=True, check=True).stdout)
    return file


@pytest.mark.parametrize(
    ("flags", "keywords"),
    [
        ([], {}),
        (["--wrong-below", "0.9", "--limit", "12"], {"wrong_below": 0.9, "limit": 12}),
        (["--probes", "--aggregation", "mean", "--limit", "9"], {"probes": True, "aggregation": "mean", "limit": 9}),
        (
            ["--prm", f"{ROOT}/tests/fixtures/prm/qwen2.5-math-prm", "--first-error-only"],
            {"prm": ROOT / "tests/fixtures/prm/qwen2.5-math-prm", "first_error_only": True},
        ),
    ],
)
def test_figures_are_those_of_the_program(
    program: str, world: Path, tmp_path: Path, flags: list[str], keywords: dict[str, Any]
) -> None:
    command = [program, "eval-prm", "--data", str(world), "--json", "--report", str(tmp_path / "program"), *flags]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    evaluation = beamgen.evaluate_prm(world, report=tmp_path / "own", **keywords)
    assert evaluation.to_dict() == json.loads(printed)
    theirs, own = ((tmp_path / name / "results.json").read_text(encoding="utf-8") for name in ("program", "own"))
    assert json.loads(theirs)["sets"] == json.loads(own)["sets"] == [evaluation.details]
    for name in ("rows.jsonl", "plots"):
        assert (tmp_path / "program" / name).exists() == (tmp_path / "own" / name).exists()
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in ("program", "own")]
    assert names[0] == names[1] and "report.md" in names[0]
    assert "beamgen.evaluate_prm(data=" in json.loads(own)["about"]["command"]


def test_beginnings_of_steps_are_scored_as_the_program_does(program: str, world: Path) -> None:
    command = [program, "eval-prm", "--data", str(world), "--json", "--partial", "--limit", "8"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    partial = beamgen.evaluate_prm(world, partial=True, limit=8).partial
    assert partial == json.loads(printed)
    assert partial is not None and partial["after_words"][0]["steps"] > 20
    assert beamgen.evaluate_prm(world, limit=8).partial is None


def test_a_report_is_not_written_over(tmp_path: Path) -> None:
    beamgen.evaluate_prm(CHAINS, report=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(beamgen.InputError, match="rows.jsonl: exists already: choose another folder$"):
        beamgen.evaluate_prm(CHAINS, report=tmp_path)
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_chains_may_be_a_list_and_the_model_loaded_before(tmp_path: Path) -> None:
    file = tmp_path / "chains.jsonl"
    file.write_text("\n".join(map(json.dumps, CHAINS)), encoding="utf-8")
    of_file = beamgen.evaluate_prm(file)
    model = beamgen.RewardModel()
    for data in (CHAINS, iter(CHAINS)):
        of_list = beamgen.evaluate_prm(data, model=model)
        assert of_list.to_dict() | {"data": str(file)} == of_file.to_dict()
    assert (of_file.chains, of_file.refused, of_file.f1, of_file.auc) == (2, 0, 1.0, 1.0)
    assert of_file.accuracy_on_wrong == of_file.accuracy_on_right == 1.0
    scores = model.score(PENS, RIGHT) + model.score(PENS, WRONG)
    squares = [(score - label) ** 2 for score, label in zip(scores, [1, 1, 1, 0])]
    assert of_file.brier == pytest.approx(sum(squares) / 4)
    ends = (of_file.figures["ece_equal_mass"].low, of_file.figures["ece_equal_mass"].high)
    assert of_file.ece is not None and ends == (None, None)
    # Without a wrong step there is nothing to tell right ones from.
    right = beamgen.evaluate_prm(CHAINS[:1])
    assert (right.auc, right.f1, right.accuracy_on_right) == (None, None, 1.0) and "auc" not in right.figures
    assert beamgen.evaluate_prm(CHAINS, scorer="exact").f1 == 1.0


def test_what_is_left_out_or_foreign_is_warned_of() -> None:
    with pytest.warns(UserWarning, match='data: 1 of 3 records are left out, the first of them item 3: field "label"'):
        assert beamgen.evaluate_prm([*CHAINS, {"problem": PENS, "steps": ["a"]}]).chains == 2
    with pytest.warns(beamgen.ForeignProblemWarning) as caught:
        beamgen.evaluate_prm([{"problem": "What is 17 times 23?", "steps": ["17 * 23 = 391."], "label": -1}])
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        beamgen.evaluate_prm(CHAINS)


@pytest.mark.parametrize(
    ("data", "keywords", "words"),
    [
        ("no-such-file.jsonl", {}, "no-such-file.jsonl: "),
        ([], {}, "data: no chains in it"),
        ([{"text": "?"}], {}, "data: item 1: unknown format (fields: text)"),
        ([{"problem": PENS, "steps": ["a"]}], {}, 'data: item 1: field "label": missing'),
        ([{"problem": PENS, "steps": object()}], {}, "data: object is not a value"),
        (CHAINS, {"wrong_below": 2}, "wrong_below = 2: not a score"),
        (CHAINS, {"wrong_below": "low"}, "wrong_below: invalid type"),
        (CHAINS, {"limit": -1}, "limit: invalid value"),
        (CHAINS, {"limit": 0}, "data: no step has a label"),
        (CHAINS, {"neutral": "so"}, "neutral: unknown variant `so`, expected one of `positive`"),
        (CHAINS, {"agree": "so"}, "agree: unknown variant"),
        (CHAINS, {"rule": ["given", "so"]}, "rule: write rating"),
        (CHAINS, {"rule": "judge"}, "data: no step has a label"),
        (CHAINS, {"rollout_label": "most"}, "rollout_label: write hard, soft, threshold=X or ratio=X"),
        (CHAINS, {"calibration": "no-such.json"}, "no-such.json"),
        (CHAINS, {"prm": "no/such/model", "offline": True}, "no/such/model"),
        (CHAINS, {"report": Path(__file__)}, "test_evaluation.py"),
    ],
)
def test_what_cannot_be_measured(data: Any, keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(beamgen.InputError) as raised:
        beamgen.evaluate_prm(data, **keywords)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_keywords_and_data_that_are_none() -> None:
    with pytest.raises(TypeError, match="model and settings exclude each other"):
        beamgen.evaluate_prm(CHAINS, model=beamgen.RewardModel(), prm="bundled")
    with pytest.raises(TypeError, match="unknown keyword 'agregation': did you mean 'aggregation'"):
        beamgen.evaluate_prm(CHAINS, agregation="min")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="data: a dict gives the names of its columns"):
        beamgen.evaluate_prm(CHAINS[0])  # type: ignore[arg-type]


def test_progress_is_told_and_what_it_raises_ends_the_measurement() -> None:
    told: list[tuple[int, int]] = []
    beamgen.evaluate_prm(CHAINS * 50, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 100) for done in range(1, 101)]

    def stop(done: int, total: int) -> None:
        raise LookupError("enough")

    model = beamgen.RewardModel()
    with pytest.raises(LookupError, match="enough"):
        beamgen.evaluate_prm(CHAINS * 5000, model=model, on_progress=stop)
    # The model is free after the chains that it was reading.
    assert len(model.score(PENS, RIGHT)) == 2
