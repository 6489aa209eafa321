"""Problems from files, data sets and data frames, and searches in event loops."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import beamgen

DATA = pathlib.Path(__file__).parents[2] / "tests/fixtures/data"
FAST: Any = {"n": 4, "tree": False}


@pytest.fixture(scope="module")
def solver() -> Iterator[beamgen.Solver]:
    with beamgen.Solver() as solver:
        yield solver


@pytest.mark.parametrize("name", ["p.json", "p.csv", "p.tsv", "p.jsonl.gz", "p.parquet", "p-zstd.parquet", "p.jsonl.xz", "p.jsonl.zst"])
def test_every_format_has_the_same_problems(name: str) -> None:
    assert beamgen.load_problems(DATA / name) == beamgen.load_problems(DATA / "p.jsonl")


def test_keys_and_names(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(json.dumps({"text": "What?", "key": 7}))
    with pytest.raises(beamgen.InputError, match="missing"):
        beamgen.load_problems(file)
    (problem,) = beamgen.load_problems(file, problem_key="text", answer_key="key")
    assert (problem.text, problem.answer) == ("What?", "7")
    with pytest.raises(beamgen.InputError, match="no subsets and splits"):
        beamgen.load_problems(file, split="train")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(beamgen.InputError, match="offline, and the split is not in the cache"):
        beamgen.load_problems("org/problems", split="test")


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_a_data_frame_is_solved_by_its_columns(solver: beamgen.Solver, package: str) -> None:
    library = pytest.importorskip(package)
    rows = [json.loads(line) for line in (DATA / "p.jsonl").read_text().splitlines()[:4]]
    rows[1]["answer"] = None
    table = {name: [row[name] for row in rows] for name in rows[0]}
    frame = library.table(table) if package == "pyarrow" else library.DataFrame(table)
    results = solver.solve_all(frame, **FAST)
    assert len(results) == 4
    solved = list(results)
    assert [result.id for result in solved] == [row["id"] for row in rows]
    assert [result.correct is None for result in solved] == [False, True, False, False]
    if package == "pandas":
        answers = library.DataFrame(solved)
        assert list(answers["id"]) == list(frame["id"])


def test_a_file_and_a_bar(solver: beamgen.Solver, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    assert len(list(solver.solve_all(DATA / "p.csv", progress=True, **FAST))) == 20
    assert "20/20" in capsys.readouterr().err


def test_many_searches_in_an_event_loop_are_those_outside(solver: beamgen.Solver) -> None:
    problems = beamgen.load_problems(DATA / "p.jsonl")
    outside = [result.answer for result in solver.solve_all(problems, **FAST)]

    async def inside() -> list[beamgen.Result]:
        return await asyncio.gather(*(solver.asolve(problem, **FAST) for problem in problems))

    async def each() -> list[str | None]:
        return [result.answer async for result in solver.asolve_all(problems, **FAST)]

    assert [result.answer for result in asyncio.run(inside())] == outside
    assert asyncio.run(each()) == outside


def test_a_cancelled_task_cancels_its_search(solver: beamgen.Solver) -> None:
    problem = beamgen.load_problems(DATA / "p.jsonl")[0]

    async def cancelled() -> None:
        task = asyncio.create_task(solver.asolve(problem, n=512, m=1, tree=False))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(solver.asolve(problem, n=512, m=1, tree=False), 0.01)

    async def left() -> None:
        many = solver.asolve_all([problem] * 50, n=64, tree=False)
        async with contextlib.aclosing(many):
            async for _ in many:
                break

    asyncio.run(cancelled())
    asyncio.run(left())
    # The engine is free again.
    assert solver.solve(problem, **FAST).answer


def test_an_error_of_the_problem_is_raised_in_the_task(solver: beamgen.Solver) -> None:
    with pytest.raises(beamgen.InputError):
        asyncio.run(solver.asolve("", **FAST))


@pytest.mark.parametrize("name", ["frame.py", "event_loop.py"])
def test_the_examples_of_the_book_run(name: str) -> None:
    example = pathlib.Path(__file__).parents[1] / "examples" / name
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "68" in done.stdout, done.stderr
