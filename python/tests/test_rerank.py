"""Solutions that exist already under every selector: the table of `beamgen bench --pool`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import beamgen
import pytest
from conftest import PENS

RIGHT = "Mia has 34 pens: 34.\nLeo has 8 more pens than Mia: 34 + 8 = 42.\nKim has half as many pens as Leo: 42 / 2 = 21.\nThe answer is 21."
WRONG = "Mia has 34 pens: 34.\nLeo has 8 more pens than Mia: 34 - 8 = 26.\nKim has half as many pens as Leo: 26 / 2 = 13.\nThe answer is 13."
POOL: list[dict[str, Any]] = [{"id": "pens", "problem": PENS, "answer": "21", "solutions": [WRONG, WRONG, RIGHT]}]


def test_the_table_is_that_of_the_program(program: str, tmp_path: Path) -> None:
    file = tmp_path / "pool.jsonl"
    file.write_text(json.dumps(POOL[0]) + "\n", encoding="utf-8")
    flags = ["--pool", str(file), "--scorers", "prm,orm", "--checker", "arithmetic", "--json", "--out", str(tmp_path / "program")]
    printed = subprocess.run([program, "bench", *flags], capture_output=True, text=True, check=True).stdout
    keywords: dict[str, Any] = {"scorers": ["prm", "orm"], "checker": "arithmetic"}
    own = beamgen.rerank(file, out=tmp_path / "own", **keywords)
    assert own.to_dict()["selectors"] == [json.loads(line) for line in printed.splitlines()]
    rows = [(tmp_path / name / "rows.jsonl").read_text(encoding="utf-8") for name in ("program", "own")]
    assert rows[0] == rows[1]
    told: list[tuple[int, int]] = []
    in_memory = beamgen.rerank(POOL, on_progress=lambda done, total: told.append((done, total)), **keywords)
    assert in_memory.selectors == own.selectors
    assert (2, 2) in told  # equal solutions are scored once
    by_name = {row.selector: row for row in own.selectors}
    assert by_name["majority"].accuracy == 0.0 and by_name["majority"].over_majority is None
    assert by_name["prm min, best"].accuracy == by_name["pass@k"].accuracy == 1.0
    assert by_name["prm min, best"].over_majority == 1.0
    with pytest.raises(beamgen.InputError, match="rows.jsonl"):
        beamgen.rerank(file, out=tmp_path / "own", scorers=["none"])


@pytest.mark.parametrize(
    ("pool", "keywords", "words"),
    [
        ("no-such-file.jsonl", {}, "no-such-file.jsonl"),
        ([{"problem": PENS}], {}, "pool: item 1: unknown layout of solutions"),
        ([{"problem": PENS, "solutions": ["1"]}], {}, 'field "answer": missing'),
        (POOL, {"scorers": ["pmr"]}, "scorers: "),
        (POOL, {"limit": 0}, "limit = 0 leaves nothing"),
        (POOL, {"aggregation": "likely-min"}, "likely-min"),
        (POOL, {"checker": "arithmetics"}, "arithmetics"),
    ],
)
def test_what_cannot_be_reranked(pool: Any, keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(beamgen.InputError) as raised:
        beamgen.rerank(pool, **keywords)
    assert words in str(raised.value) and "\n" not in str(raised.value)
