"""Strategies on the same problems: the rows and the table of `beamgen bench`."""

from __future__ import annotations

import json
import subprocess
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import beamgen
import pytest
from conftest import PENS

TIMES = ("generate_seconds", "score_seconds", "search_seconds", "forward_passes", "score_passes", "peak_kv_bytes")


def timeless(line: dict[str, Any]) -> dict[str, Any]:
    """A row or a cell without what depends on the clock, or on who shared a pass."""
    line = {name: value for name, value in line.items() if name not in TIMES and name != "reused_tokens"}
    return line | ({"ledger": line["ledger"]["generated_tokens"]} if "ledger" in line else {})


@pytest.mark.parametrize(
    ("flags", "keywords"),
    [
        (
            ["--strategies", "beam,majority", "--n", "4,6", "--seeds", "2", "--seed", "5", "-m", "2"],
            {"strategies": ["beam", "majority"], "n": [4, 6], "seeds": 2, "seed": 5, "m": 2},
        ),
        (["--scorers", "prm,orm", "--strategies", "best-of-n", "--n", "4"], {"scorers": ["prm", "orm"], "strategies": ["best-of-n"], "n": 4}),
        ([], {}),
    ],
)
def test_rows_and_table_are_those_of_the_program(
    program: str, tmp_path: Path, flags: list[str], keywords: dict[str, Any]
) -> None:
    command = [program, "bench", "--limit", "4", "--json", "--out", str(tmp_path / "program"), *flags]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    bench = beamgen.bench(limit=4, out=tmp_path / "own", **keywords)
    cells = [json.loads(line) for line in printed.splitlines()]
    assert [timeless(line) for line in bench.to_dict()["cells"]] == [timeless(line) for line in cells]
    results = json.loads((tmp_path / "program/results.json").read_text(encoding="utf-8"))
    theirs = [(row["aggregation"], row["best"]["share"]) for row in results.get("aggregated", [])]
    assert [(row.aggregation, row.best.value) for row in bench.aggregations] == theirs
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in ("program", "own")]
    assert names[0] == names[1] and "README.md" in names[0]
    assert len(bench.rows) == sum(cell.searches for cell in bench.cells)
    in_memory = beamgen.bench(limit=4, **keywords)
    key = ["set", "run", "n", "seed", "id"]

    def essence(rows: list[beamgen.BenchRow]) -> list[dict[str, Any]]:
        return sorted((timeless(asdict(row)) for row in rows), key=lambda row: [str(row[name]) for name in key])

    assert essence(in_memory.rows) == essence(bench.rows)


def test_rows_are_a_data_frame_with_the_columns_of_the_file(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    bench = beamgen.bench(limit=3, strategies=["beam"], n=4, out=tmp_path)
    frame, file = pandas.DataFrame(bench.rows), pandas.read_csv(tmp_path / "results.csv", dtype={"id": str, "answer": str})
    assert list(frame.columns) == list(file.columns)
    for column in ("id", "correct", "generated_tokens", "peak_kv_bytes", "search_seconds", "peak_kv_is_bound"):
        assert list(frame.sort_values("id")[column]) == list(file.sort_values("id")[column]), column
    assert frame["correct"].mean() == bench.cells[0].accuracy


def test_problems_may_be_given_and_a_folder_is_continued_or_refused(tmp_path: Path) -> None:
    problems = beamgen.sample_problems()[:2]
    flags: dict[str, Any] = {"strategies": ["beam"], "n": 4, "out": tmp_path}
    first = beamgen.bench(problems, **flags)
    assert [row.id for row in first.rows] == [problem.id for problem in problems]
    assert {row.set for row in first.rows} == {"problems"}
    with pytest.raises(beamgen.InputError, match="rows.jsonl.*: use resume=True, or choose another folder$"):
        beamgen.bench(problems, **flags)
    told: list[tuple[int, int]] = []
    more = beamgen.bench(
        problems, **flags | {"n": [4, 8]}, resume=True, on_progress=lambda done, total: told.append((done, total))
    )
    assert [cell.name for cell in more.cells] == ["beam@4", "beam@8"] and more.cells[0] == first.cells[0]
    assert told == [(1, 2), (2, 2)]
    with pytest.raises(beamgen.InputError, match="the rows have"):
        beamgen.bench(problems, **flags, resume=True, settings={"generator.sampling.temperature": 0.5})


@pytest.mark.parametrize(
    ("problems", "keywords", "words"),
    [
        ("no-such-file.jsonl", {}, "no-such-file.jsonl"),
        ([PENS], {}, "problems:1: "),
        ([{"problem": 3, "answer": "1"}], {}, 'problems:1: field "problem"'),
        ([{"problem": "Mia has 34 pens. " * 2000, "answer": "1"}], {}, "problems:1: "),
        (None, {"strategies": ["beem"]}, "unknown strategy"),
        (None, {"scorers": ["pmr"]}, "scorers: "),
        (None, {"strategies": ["beam"], "scorers": ["none"]}, 'run "beam" at n = 16: '),
        (None, {"n": 0}, "n = 0"),
        (None, {"n": 1.5}, "n: invalid type"),
        (None, {"seeds": 0}, "seeds = 0 leaves nothing"),
        (None, {"limit": 0}, "limit = 0 leaves nothing"),
        (None, {"resume": True}, "resume needs a results folder"),
        (None, {"temperature": -1.0}, "temperature"),
        (None, {"generator": "no/such/folder"}, "cannot score a generator"),
    ],
)
def test_what_cannot_be_measured(problems: Any, keywords: dict[str, Any], words: str) -> None:
    with warnings.catch_warnings(), pytest.raises(beamgen.InputError) as raised:
        beamgen.bench(problems, **keywords)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_keywords_that_are_none() -> None:
    with pytest.raises(TypeError, match="unknown keyword 'strategy': did you mean 'strategies'"):
        beamgen.bench(strategy="beam")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="strategies: give a list of names"):
        beamgen.bench(strategies="beam")


def test_a_foreign_problem_is_warned_of_and_what_progress_raises_ends_the_bench() -> None:
    with pytest.warns(beamgen.ForeignProblemWarning):
        beamgen.bench([{"problem": "What is 17 times 23?", "answer": "391"}], strategies=["single"])

    def stop(done: int, total: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        beamgen.bench(strategies=["single"], seeds=10_000, on_progress=stop)
