"""Comparison of strategies on the same problems, as in ``beamgen bench``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beamgen import _beamgen, _launch
from beamgen._errors import InputError
from beamgen._evaluation import Figure
from beamgen._foreign import warn_foreign
from beamgen._problem import Problem, as_line, refuse_table
from beamgen._record import beside, of_line, optional, to_line
from beamgen._settings import as_json, called, for_bench
from beamgen._settings_table import BenchSettings

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import Unpack
    else:
        from typing_extensions import Unpack


@dataclass(frozen=True, kw_only=True)
class BenchCell:
    """The figures of a strategy with a number of chains on a set of problems: a row of the table."""

    set: str
    name: str
    """The run and its number of chains, such as ``beam@16``."""
    run: str
    strategy: str
    scorer: str
    n: int
    m: int
    seeds: int
    problems: int
    searches: int
    """The number of searches: problems times seeds."""
    accuracy: float
    accuracy_low: float
    """The bounds of the 95 % interval of the accuracy over problems."""
    accuracy_high: float
    any: dict[str, float] | None = optional(None)
    """The ``share`` of searches of which any finished chain is right, with ``low`` and ``high``: pass@N for samples."""
    sees_outcomes: bool = optional(False)
    """Whether the searches saw outcomes of an open verifier."""
    ledger: dict[str, Any]
    """The costs of all searches together."""
    peak_kv_is_bound: bool
    sound: dict[str, Any] | None = optional(None)
    """The ``share`` of problems with a right answer by a sound chain, with ``low`` and ``high``; ``right`` searches, and of these the \
``unsound`` ones: by a checker, by a label, by the scorer. ``None`` if ``audit`` is ``none``."""
    twins: dict[str, Any] | None = optional(None)
    """For a set with twins (ids ``X`` and ``X-twin``): the ``share`` of ``pairs`` that are right on both, with ``low`` and ``high``."""


@dataclass(frozen=True, kw_only=True)
class BenchRow:
    """A search of a problem in a cell with a seed: the columns of ``results.csv``."""

    set: str
    run: str
    n: int
    m: int
    scorer: str
    seed: int
    id: str
    correct: bool
    any_right: bool | None = optional(None)
    """Whether any finished chain is right, chosen or not."""
    answer: str | None
    score: float | None
    finish: str
    prompt_tokens: int
    generated_tokens: int
    scored_tokens: int
    reused_tokens: int
    forward_passes: int
    score_passes: int
    peak_kv_bytes: int
    peak_kv_is_bound: bool
    generate_seconds: float
    score_seconds: float
    search_seconds: float
    generate_flops: int
    score_flops: int
    rounds: int
    continued_chains: int
    continued_tokens: int
    distinct_tokens: int
    sampled_by_depth: list[int]
    kept_by_depth: list[int]
    scored_by_depth: list[int]


@dataclass(frozen=True, kw_only=True)
class BenchAggregation:
    """The choices of one aggregation of step scores among the scored samples of a cell."""

    set: str
    name: str
    """The cell of the samples, such as ``best-of-n@16``."""
    aggregation: str
    best: Figure
    """The accuracy of the answer of the best chain."""
    weighted: Figure
    """The accuracy of the answer with the largest sum of scores."""


@dataclass(frozen=True)
class Bench:
    """The results of a bench. ``pandas.DataFrame(bench.rows)`` is the table of all rows."""

    cells: list[BenchCell]
    rows: list[BenchRow]
    aggregations: Sequence[BenchAggregation] = beside(())
    """The choices of each aggregation among the same samples, which cost nothing more."""

    def to_dict(self) -> dict[str, Any]:
        """The lines of ``beamgen bench --json`` under ``cells``, and the rows."""
        line: dict[str, Any] = to_line(self)
        return line


def bench(
    problems: str | os.PathLike[str] | Iterable[str | Problem | Mapping[str, Any]] | None = None,
    *,
    strategies: Sequence[str] = (),
    scorers: Sequence[str] = (),
    n: int | Sequence[int] = (),
    seeds: int = 1,
    limit: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
    on_download: Callable[[str, str, int, int | None], object] | None = None,
    **settings: Unpack[BenchSettings],
) -> Bench:
    """Solves problems under every strategy with every scorer at every number of chains ``n``, with equal settings.

    ``problems`` have answers: a file, or anything that gives problems; the bundled sample without it. ``strategies`` are
    single, majority, best-of-n and beam without it, ``scorers`` is prm, ``n`` is 16. Each cell is solved with ``seeds``
    seeds: ``seed=`` and those after it. ``limit`` takes the first problems only.

    ``out`` is a results folder, as ``beamgen bench --out`` writes it: rows as soon as they are there, tables and plots at
    the end. With ``resume=True`` the folder is continued; otherwise one that has rows is refused.
    ``on_progress`` hears how many problems are solved, and of how many. Ctrl-C ends it.
    """
    if resume and out is None:
        raise InputError("resume needs a results folder: give out")
    for name, names in (("strategies", strategies), ("scorers", scorers)):
        if isinstance(names, str):
            raise TypeError(f"{name}: give a list of names, not a string")
    lines = None
    if problems is not None and not isinstance(problems, str | os.PathLike):
        refuse_table(problems, "problems", 'a list of mappings, such as df.to_dict("records")')
        given = enumerate(problems, 1)
        lines = "\n".join(as_line(problem, str(number), f"problem {number}") for number, problem in given)
    keywords: dict[str, Any] = {
        "problems": problems if lines is None else None,
        "strategies": list(strategies),
        "scorers": list(scorers),
        "n": list(n) if isinstance(n, Iterable) else [n],
        "seeds": seeds,
        "limit": limit,
        "out": out,
        "resume": resume,
    }
    keywords["call"] = called("bench", {**keywords, **settings})
    cells, rows, aggregated, is_foreign = _beamgen.bench(
        as_json(keywords, "bench"),
        lines,
        for_bench(settings),
        _launch.command(_beamgen.__file__),
        on_download,
        on_progress,
    )
    if is_foreign:
        warn_foreign(2)
    return Bench(
        [of_line(BenchCell, cell) for cell in json.loads(cells)],
        [_row(row) for row in json.loads(rows)],
        [_aggregation(row) for row in json.loads(aggregated)],
    )


def _aggregation(line: dict[str, Any]) -> BenchAggregation:
    best, weighted = (Figure(of["share"], of["low"], of["high"]) for of in (line["best"], line["weighted"]))
    return BenchAggregation(
        set=line["set"], name=line["name"], aggregation=line["aggregation"], best=best, weighted=weighted
    )


WIDTH = {
    "rounds": "rounds",
    "continued_chains": "chains",
    "continued_tokens": "tokens",
    "distinct_tokens": "distinct_tokens",
}
"""The columns of the effective width, and their names in a ledger."""


def _row(line: dict[str, Any]) -> BenchRow:
    ledger = line["ledger"]
    seconds = {f"{part}_seconds": value for part, value in ledger["seconds"].items()}
    flops = {f"{part}_flops": ledger.get("flops", {}).get(part, 0) for part in ("generate", "score")}
    width = {name: ledger.get("width", {}).get(part, 0) for name, part in WIDTH.items()}
    depths = {f"{part}_by_depth": value for part, value in line["depths"].items()}
    return of_line(BenchRow, ledger | seconds | flops | width | depths | line, peak_kv_is_bound=line.get("without_scores", False))
