"""Answers of run files next to those of a reference: the table of `beamgen monitor`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import beamgen
import pytest


def test_the_table_is_that_of_the_program(program: str, tmp_path: Path) -> None:
    problems = tmp_path / "problems.jsonl"
    made = subprocess.run([program, "problems", "--count", "40", "--seed", "3"], capture_output=True, check=True)
    problems.write_bytes(made.stdout)
    files = {"cool": tmp_path / "cool.jsonl", "hot": tmp_path / "hot.jsonl"}
    for (name, file), temperature in zip(files.items(), ("1", "2"), strict=True):
        flags = ["-n", "4", "-m", "4", "--temperature", temperature, "--quiet", "--out", str(file)]
        subprocess.run([program, "solve", str(problems), *flags], capture_output=True, check=True)
        assert name in str(file)
    same = beamgen.monitor(files["cool"], files["cool"])
    assert (same.drifted, same.searches, same.reference_searches) == ([], 40, 40)
    hot = beamgen.monitor(files["cool"], [files["hot"]])
    assert "score" in hot.drifted
    score = next(row for row in hot.rows if row.name == "score")
    assert score.before is not None and score.now is not None and score.now < score.before
    assert score.drift is not None and score.drift.psi > score.drift.psi_bound
    printed = subprocess.run(
        [program, "monitor", "--json", str(files["cool"]), str(files["hot"])], capture_output=True, text=True, check=False
    )
    assert printed.returncode == 1 and "score" in printed.stderr
    line = json.loads(printed.stdout)
    assert [row["now"] for row in line["rows"]] == [row.now for row in hot.rows]
    with pytest.raises(beamgen.InputError, match="missing.jsonl"):
        beamgen.monitor(tmp_path / "missing.jsonl", files["hot"])
