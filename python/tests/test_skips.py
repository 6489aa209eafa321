"""A skipped test is counted, and fails where every tool must exist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
SKIPPING = "import pytest\n\n\ndef test_it() -> None:\n    pytest.skip('no such program')\n"


@pytest.mark.parametrize(("strict", "code"), [("0", 0), ("1", 1)])
def test_a_skip_is_recorded_or_fails(strict: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_it.py").write_text(SKIPPING)
    skips = tmp_path / "skips"
    environment = os.environ | {"BEAMGEN_TEST_STRICT": strict, "BEAMGEN_TEST_SKIPS": str(skips)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == code, done.stdout
    assert ("1 failed" if strict == "1" else "1 skipped") in done.stdout
    assert "no such program" in done.stdout or strict == "0"
    recorded = skips.read_text() if skips.exists() else ""
    assert recorded == ("" if strict == "1" else "tool\tpython test_it.py::test_it\tSkipped: no such program\n")
