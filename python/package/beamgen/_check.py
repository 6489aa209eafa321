"""Verdicts of checkers on labelled chains, as ``beamgen check`` counts them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beamgen import _beamgen, _launch
from beamgen._evaluation import label_rule, labelled
from beamgen._record import of_line
from beamgen._settings import as_json, for_solver
from beamgen._settings_table import Settings

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import Unpack
    else:
        from typing_extensions import Unpack


@dataclass(frozen=True, kw_only=True)
class CheckRow:
    """The figures of a checker; those of all of them together under the name ``all``."""

    checker: str
    steps: int
    coverage: float | None
    """The share of steps on which the checker gave a verdict, from 0 to 1."""
    true_fails: int
    """The number of fails on steps that are labelled wrong."""
    unlabelled_fails: int
    precision: float | None
    """The share of ``true_fails`` among the fails on labelled steps, from 0 to 1."""
    precision_interval: tuple[float, float] | None
    """The bounds of the 95 % interval over problems."""
    wrong_chains: int
    """The number of chains with a step that is labelled wrong."""
    first_mistakes: int
    """The number of them whose first fail is on their first wrong step."""
    recall: float | None
    """The share of ``first_mistakes`` among ``wrong_chains``, from 0 to 1."""
    recall_interval: tuple[float, float] | None
    false_fails: list[dict[str, Any]]
    """The fails on steps that are labelled right: ``chain``, ``step`` from 0, ``reason``, ``text``."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The verdicts of checkers, and their figures."""

    rows: list[CheckRow]
    verdicts: list[dict[str, Any]]
    """For each chain its ``id`` and under ``steps`` the verdicts on each step, one a checker."""


def check(
    data: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    *,
    limit: int | None = None,
    rule: Sequence[str] | None = None,
    neutral: str | None = None,
    rollout_label: str | None = None,
    first_error_only: bool = False,
    agree: str | None = None,
    on_progress: Callable[[int, int], object] | None = None,
    **settings: Unpack[Settings],
) -> Checked:
    """Runs checkers on labelled chains and compares their verdicts with the labels.

    ``data`` is a file of labelled chains, or a list of its records, in any format of ``beamgen labels``. The checkers are
    those of ``checker=`` and ``checker_command=``; all that are built in without them. ``limit`` takes the first chains
    only. ``rule`` and the keywords after it say how labels are derived, as for :func:`evaluate_prm`.

    Raises :class:`InputError` if a setting or the data are at fault.

    >>> import beamgen
    >>> chain = {"problem": "3 + 4 pens, twice?", "steps": ["3 + 4 = 8", "8 * 2 = 16"], "label": 0}
    >>> checked = beamgen.check([chain], checker="arithmetic")
    >>> checked.rows[0].true_fails, checked.rows[0].recall
    (1, 1.0)
    """
    files, chains = labelled(data)
    keywords: dict[str, Any] = {
        "data": files,
        "limit": limit,
        **label_rule(rule, neutral, rollout_label, first_error_only, agree),
    }
    launcher = _launch.command(_beamgen.__file__)
    made = json.loads(_beamgen.check(as_json(keywords, "check"), chains, for_solver(settings), launcher, on_progress))
    return Checked(rows=[of_line(CheckRow, _row(row)) for row in made["rows"]], verdicts=made["verdicts"])


def _row(row: dict[str, Any]) -> dict[str, Any]:
    intervals = {name: row[name] and tuple(row[name]) for name in ("precision_interval", "recall_interval")}
    return {**row, **intervals}
