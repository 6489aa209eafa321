"""Compares the answers of run files with those of a reference, as ``beamgen monitor`` does."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from beamgen import _beamgen
from beamgen._record import of_line


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The distance between the distributions of a row in the reference and in the runs."""

    name: str
    psi: float
    """The population stability index, 0 for equal distributions."""
    psi_bound: float
    """The bound above which the row has drifted."""
    ks: float
    """The Kolmogorov-Smirnov statistic: the largest difference between cumulative shares, from 0 to 1."""
    ks_bound: float


@dataclass(frozen=True, kw_only=True)
class MonitorRow:
    """A quantity of the answers, such as ``score``, or a property that some have, such as ``guess``."""

    name: str
    help: str
    """The meaning of the name, for a reader."""
    is_flag: bool
    """Whether the means are shares of the searches with a property."""
    before: float | None
    """The mean in the reference."""
    now: float | None
    """The mean in the runs."""
    drift: Drift | None
    """``None`` if there are too few values to compare."""


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """The answers of some searches next to those of a reference."""

    reference_searches: int
    searches: int
    rows: list[MonitorRow]
    drifted: list[str]
    """The names of the rows that are above a bound."""


def monitor(
    reference: str | os.PathLike[str],
    runs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> Monitoring:
    """Compares the answers of run files with those of a reference, without texts and without reference answers.

    ``reference`` is a calibration that ``beamgen calibrate --runs`` made, or a run file.

    Raises :class:`InputError` if a file cannot be read, or is of another kind.

    Run files come from ``beamgen solve --out``. This one is made by hand:

    >>> import json, pathlib, tempfile, beamgen
    >>> lines = [{"beamgen_run": 1, "problems": "", "settings": {}}]
    >>> lines += [result.to_dict() for result in beamgen.Solver(n=4).solve_all(beamgen.sample_problems()[:4])]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = pathlib.Path(folder, "run.jsonl")
    ...     _ = run.write_text("".join(json.dumps(line) + "\\n" for line in lines))
    ...     compared = beamgen.monitor(run, run)
    >>> compared.searches, compared.rows[0].name, compared.drifted
    (4, 'score', [])
    """
    files = [runs] if isinstance(runs, str | os.PathLike) else list(runs)
    line, drifted = _beamgen.monitor(reference, files)
    report = json.loads(line)
    rows = [
        of_line(MonitorRow, row, drift=of_line(Drift, row["drift"]) if row["drift"] else None) for row in report["rows"]
    ]
    return Monitoring(
        reference_searches=report["reference_searches"],
        searches=report["searches"],
        rows=rows,
        drifted=drifted,
    )
