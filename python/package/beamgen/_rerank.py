"""Chooses among existing solutions, as ``beamgen bench --pool`` does."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beamgen import _beamgen, _launch
from beamgen._foreign import warn_foreign
from beamgen._problem import refuse_table
from beamgen._record import of_line, to_line
from beamgen._settings import as_json, called, for_solver
from beamgen._settings_table import Settings

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import Unpack
    else:
        from typing_extensions import Unpack


@dataclass(frozen=True, kw_only=True)
class Selector:
    """A rule that chooses among all solutions of each problem: a row of the table."""

    set: str
    selector: str
    """The selector's name, such as ``prm min, best``, ``majority`` or ``pass@k``."""
    problems: int
    solutions: int
    accuracy: float
    """The share of problems whose chosen answer is right, from 0 to 1."""
    accuracy_low: float
    """The bounds of the 95 % interval of the accuracy over problems."""
    accuracy_high: float
    over_majority: float | None
    """The accuracy minus that of the majority vote, paired by problem; ``None`` for the vote itself."""
    over_majority_low: float | None
    """The bounds of the 95 % interval of ``over_majority``."""
    over_majority_high: float | None
    sound: float | None
    """The share of problems with a right answer from a solution without a wrong step; ``None`` if no labels and no
    checkers say which steps are wrong."""
    sound_low: float | None
    sound_high: float | None


@dataclass(frozen=True)
class Reranking:
    """The choices of each selector. ``pandas.DataFrame(reranking.selectors)`` is the table."""

    selectors: list[Selector]

    def to_dict(self) -> dict[str, Any]:
        """Returns the lines of ``beamgen bench --pool --json`` under ``selectors``, all of it JSON."""
        line: dict[str, Any] = to_line(self)
        return line


def rerank(
    pool: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    *,
    scorers: Sequence[str] = (),
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int], object] | None = None,
    on_download: Callable[[str, str, int, int | None], object] | None = None,
    **settings: Unpack[Settings],
) -> Reranking:
    r"""Chooses among existing solutions, by every selector and every aggregation of step scores.

    ``pool`` is a file of solutions, or a list of its records, in any layout of docs/measuring/pools.md. Each solution is scored
    once by each of ``scorers`` (prm without it; ``["none"]`` takes the scores of the file alone), by every ``judge=``,
    and looked at by every ``checker=``. ``limit`` takes the first problems only. ``out`` is a results folder, as
    ``beamgen bench --pool --out`` writes it; one that has rows is refused.

    ``on_progress`` hears how many solutions are scored, and of how many. Ctrl-C ends it.

    Raises :class:`InputError` if a setting, the file, a record or the folder is at fault, :class:`RunError` if a model
    fails.

    >>> import beamgen
    >>> problem = beamgen.sample_problems()[0]
    >>> right = "\n".join(step.text for step in beamgen.Solver().solve(problem).steps)
    >>> wrong = right.replace("- 10 = 7", "+ 10 = 27").replace("is 7", "is 27")
    >>> pool = [{"problem": problem.text, "answer": problem.answer, "solutions": [wrong, wrong, right]}]
    >>> found = {row.selector: row.accuracy for row in beamgen.rerank(pool).selectors}
    >>> found["majority"], found["prm min, best"]
    (0.0, 1.0)
    """
    if isinstance(scorers, str):
        raise TypeError("scorers: give a list of names, not a string")
    refuse_table(pool, "pool", "a file, or a list of records")
    lines = None if isinstance(pool, str | os.PathLike) else as_json(list(pool), "pool")
    keywords: dict[str, Any] = {
        "pool": pool if lines is None else None,
        "scorers": list(scorers),
        "limit": limit,
        "out": out,
    }
    keywords["call"] = called("rerank", {**keywords, **settings})
    table, is_foreign = _beamgen.rerank(
        as_json(keywords, "rerank"),
        lines,
        for_solver(settings),
        _launch.command(_beamgen.__file__),
        on_download,
        on_progress,
    )
    if is_foreign:
        warn_foreign(2)
    return Reranking([of_line(Selector, line) for line in json.loads(table)])
