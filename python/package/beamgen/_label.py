"""Labels of steps by rollouts, as ``beamgen label`` makes them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beamgen import _beamgen, _launch
from beamgen._errors import RunError
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
class Labels:
    """Labelled chains. ``evaluate_prm(labels.chains)`` and ``calibrate(labels.chains)`` take them."""

    chains: list[dict[str, Any]]
    """The lines of ``beamgen label --out``, in the order of the problems: ``problem``, ``steps``, ``outcome``, ``policy``, ..."""
    counts: dict[str, int]
    """The numbers of ``chains``, of ``right`` ones, of ``rollouts``, of ``labels``, ..."""
    errors: list[dict[str, str]]
    """The ``id`` of each problem that could not be tried, with the ``error``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the chains as JSON lines. Raises ``FileExistsError`` if there is such a file."""
        with open(path, "x", encoding="utf-8") as file:
            file.writelines(json.dumps(chain, ensure_ascii=False) + "\n" for chain in self.chains)


def label(
    problems: Problems | None = None,
    *,
    chains: int = 4,
    mode: str = "all",
    searches: int = 0,
    mine: int | None = None,
    mixed: bool = False,
    limit: int | None = None,
    on_progress: Callable[[int, int], object] | None = None,
    on_download: Callable[[str, str, int, int | None], object] | None = None,
    **settings: Unpack[Settings],
) -> Labels:
    """Samples ``chains`` chains of each problem, and labels each step by the share of ``rollouts=`` (8) completions that are right.

    ``problems`` have answers, or a verifier judges them: a file, a data set, a data frame, or anything that gives problems;
    the bundled sample without it. ``limit`` takes the first only.

    ``mode`` says which steps get rollouts: ``"all"``, ``"early"`` (until one is right), ``"binary"`` (a search for the
    first wrong step of wrong chains, and of ``searches`` wrong rollouts) or ``"adaptive"`` (more for hard problems).
    ``mine`` labels so many wrong chains with the highest scores and right ones with the lowest. ``mixed`` skips problems
    whose chains are all right or all wrong. Strategy and ``n`` are set by these.

    ``on_progress`` hears how many problems are labelled, and of how many. Ctrl-C ends it; what is done is then lost, and
    ``beamgen label --out`` is the way to keep it.

    Raises :class:`InputError` if a setting or a problem is at fault, :class:`RunError` if a model fails or no problem can
    be tried.

    >>> import beamgen
    >>> labels = beamgen.label(beamgen.sample_problems()[:2], chains=2, rollouts=2)
    >>> labels.counts["chains"], sorted({chain["outcome"] for chain in labels.chains}), labels.errors
    (4, [False, True], [])
    """
    lines, rollouts = as_lines(problems), settings.pop("rollouts", None)
    keywords: dict[str, Any] = {
        "problems": problems if lines is None else None,
        "chains": chains,
        "rollouts": 8 if rollouts is None else rollouts,
        "mode": mode,
        "searches": searches,
        "mine": mine,
        "mixed": mixed,
        "limit": limit,
    }
    launcher = _launch.command(_beamgen.__file__)
    made, is_foreign = _beamgen.label(
        as_json(keywords, "label"), lines, for_solver(settings), launcher, on_download, on_progress
    )
    if is_foreign:
        warn_foreign(2)
    labels = Labels(**json.loads(made))
    if labels.errors and not labels.chains:
        raise RunError(f"problem {labels.errors[0]['id']}: {labels.errors[0]['error']}")
    return labels
