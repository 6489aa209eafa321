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
from beamgen._problem import Problems, as_lines
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
    """The number of chains of a problem."""
    m: int
    seeds: int
    problems: int
    searches: int
    """The number of searches: problems times seeds."""
    accuracy: float
    """The share of searches with a right answer, from 0 to 1."""
    accuracy_low: float
    """The bounds of the 95 % interval of the accuracy over problems."""
    accuracy_high: float
    any: dict[str, float] | None = optional(None)
    """The ``share`` of searches of which any finished chain is right, with ``low`` and ``high``: pass@N for samples."""
    sees_outcomes: bool = optional(False)
    """Whether the searches saw outcomes of an open verifier."""
    ledger: dict[str, Any]
    """The costs of all searches together, with the names of :class:`Ledger`'s fields."""
    excess: float | None = optional(None)
    """The operations that the models ran over the fewest that would do for each problem alone; ``None`` if they are unknown."""
    peak_kv_is_bound: bool
    """Whether ``peak_kv_bytes`` is an upper bound: the samples were shared with a strategy that has scores."""
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
    """The score of the chosen chain, from 0 to 1; ``None`` without a scorer."""
    finish: str
    """The reason why the chosen chain ended, as in :class:`Result`."""
    prompt_tokens: int
    generated_tokens: int
    scored_tokens: int
    reused_tokens: int
    forward_passes: int
    score_passes: int
    """The number of the scorer's forward passes."""
    peak_kv_bytes: int
    peak_kv_is_bound: bool
    generate_seconds: float
    score_seconds: float
    search_seconds: float
    """The seconds of the search itself, without the models."""
    generate_flops: int
    score_flops: int
    executed_flops: int
    """The operations that the models ran, shared among the problems of a pass by rows."""
    least_flops: int
    """The fewest operations that give the same chains and scores for the problem alone."""
    rounds: int
    """The number of steps after which a chain continued."""
    continued_chains: int
    """The number of different chains that continued, summed over ``rounds``."""
    continued_tokens: int
    """The tokens of these chains up to the step, summed over ``rounds``."""
    distinct_tokens: int
    """The different tokens among them: a token that chains share counts once."""
    sampled_by_depth: list[int]
    """The number of sampled tokens in first steps, in second steps, and so on."""
    kept_by_depth: list[int]
    """The number of these tokens that are in a finished chain."""
    scored_by_depth: list[int]
    """The number of these tokens that the scorer read; empty if it read none."""


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
        """Returns the lines of ``beamgen bench --json`` under ``cells``, and the rows under ``rows``, all of it JSON."""
        line: dict[str, Any] = to_line(self)
        return line


def bench(
    problems: Problems | None = None,
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

    ``problems`` have answers: a file, a data set, a data frame, or anything that gives problems; the bundled sample without it. ``strategies`` are
    single, majority, best-of-n and beam without it, ``scorers`` is prm, ``n`` is 16. Each cell is solved with ``seeds``
    seeds: ``seed=`` and those after it. ``limit`` takes the first problems only.

    ``out`` is a results folder, as ``beamgen bench --out`` writes it: rows as soon as they are there, tables and plots at
    the end. With ``resume=True`` the folder is continued; otherwise one that has rows is refused.
    ``on_progress`` hears how many problems are solved, and of how many. Ctrl-C ends it.

    Raises :class:`InputError` if a setting, the folder or a problem is at fault (one has no answer, for example), and
    :class:`RunError` if a model fails.

    >>> import beamgen
    >>> made = beamgen.bench(limit=2, strategies=["majority", "beam"], n=4)
    >>> [(cell.name, cell.accuracy) for cell in made.cells]
    [('majority@4', 1.0), ('beam@4', 1.0)]
    >>> made.rows[0].id, made.rows[0].answer
    ('world-2026-1', '7')
    """
    if resume and out is None:
        raise InputError("resume needs a results folder: give out")
    for name, names in (("strategies", strategies), ("scorers", scorers)):
        if isinstance(names, str):
            raise TypeError(f"{name}: give a list of names, not a string")
    lines = as_lines(problems)
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
    flops |= {f"{kind}_flops": sum(ledger.get(kind, {}).values()) for kind in ("executed", "least")}
    width = {name: ledger.get("width", {}).get(part, 0) for name, part in WIDTH.items()}
    depths = {f"{part}_by_depth": value for part, value in line["depths"].items()}
    return of_line(BenchRow, ledger | seconds | flops | width | depths | line, peak_kv_is_bound=line.get("without_scores", False))
