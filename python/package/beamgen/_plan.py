"""The cost of a run before it, as ``beamgen solve --plan`` estimates it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beamgen import _beamgen, _launch
from beamgen._foreign import warn_foreign
from beamgen._problem import Problems, as_lines
from beamgen._settings import as_json, for_solver
from beamgen._settings_table import Settings

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import Unpack
    else:
        from typing_extensions import Unpack


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The cost of a run over many problems: what it takes at most, and what it will take."""

    problems: int
    most_tokens: int
    """The most tokens that all searches can sample."""
    most_steps: int
    """The most steps that all searches can sample and score."""
    sampled: float
    """The expected number of sampled tokens."""
    scored: float
    """The expected number of tokens that the scorer reads."""
    seconds: float
    """The expected seconds, without those to load the models."""
    memory: int
    """The most bytes that the models take, KV caches included."""
    measured: int
    """The number of problems that were solved to estimate these."""


def plan(
    problems: Problems | None = None,
    *,
    limit: int | None = None,
    scorer: str | list[str] | None = None,
    on_download: Callable[[str, str, int, int | None], object] | None = None,
    **settings: Unpack[Settings],
) -> Plan:
    """Estimates the cost of solving the problems with these settings, by a short pass over some of them.

    ``problems`` are as for :meth:`Solver.solve_all`; the bundled sample without it. ``limit`` takes the first only. The
    pass takes up to a minute with large models.

    Raises :class:`InputError` if a setting or a problem is at fault, :class:`RunError` if a model fails.

    >>> import beamgen
    >>> plan = beamgen.plan(limit=4, n=4, budget_tokens=500)
    >>> plan.problems, plan.most_tokens, plan.measured, plan.sampled <= plan.most_tokens
    (4, 2000, 4, True)
    """
    lines = as_lines(problems)
    keywords = {"problems": problems if lines is None else None, "limit": limit}
    made, is_foreign = _beamgen.plan(
        as_json(keywords, "plan"),
        lines,
        for_solver({"scorer": scorer, **settings}),
        _launch.command(_beamgen.__file__),
        on_download,
    )
    if is_foreign:
        warn_foreign(2)
    line = json.loads(made)
    most = line.pop("most")
    return Plan(most_tokens=most["tokens"], most_steps=most["steps"], **line)
