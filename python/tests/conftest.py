"""What the tests share: one solver of the bundled pair, the program, and the README's first problem."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import beamgen
import pytest

ROOT = Path(__file__).resolve().parents[2]
PENS = (
    "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?"
)


@pytest.fixture(scope="session")
def solver() -> Iterator[beamgen.Solver]:
    with beamgen.Solver() as solver:
        yield solver


@pytest.fixture(scope="session")
def program() -> str:
    """The program `beamgen`: that of BEAMGEN_PROGRAM, of a build here, or on the path."""
    built = ROOT / "target" / "release" / "beamgen"
    program = os.environ.get("BEAMGEN_PROGRAM") or (str(built) if built.exists() else shutil.which("beamgen"))
    if program is None:
        pytest.skip("the program beamgen is not built: cargo build --release")
    return program


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Lets a skip fail where every tool must exist, else records it as the tests in Rust do (crates/test-support)."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if os.environ.get("BEAMGEN_TEST_STRICT") == "1":
            report.outcome, report.longrepr = "failed", f"BEAMGEN_TEST_STRICT asks for every tool: {reason}"
        elif skips := os.environ.get("BEAMGEN_TEST_SKIPS"):
            with open(skips, "a") as file:
                file.write(f"tool\tpython {report.nodeid}\t{reason}\n")
    return report
