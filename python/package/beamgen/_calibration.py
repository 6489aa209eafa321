"""Probabilities from scores, as ``beamgen calibrate`` fits them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beamgen import _beamgen
from beamgen._evaluation import Figure, label_rule, labelled
from beamgen._foreign import warn_foreign
from beamgen._settings import as_json, for_solver
from beamgen._settings_table import Settings

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import Unpack
    else:
        from typing_extensions import Unpack


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A fitted calibration, with its quality on held-out problems."""

    figures: dict[str, dict[str, Figure]]
    """The figures of the scores before (``lowest scores so far``, for example) and after, by name: ``brier``, ``ece_equal_mass``, ..."""
    content: dict[str, Any]
    """The content of the calibration file."""


def calibrate(
    data: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    *,
    out: str | os.PathLike[str] | None = None,
    policy: str | None = None,
    method: str = "isotonic",
    held_out: float = 0.25,
    runs: Sequence[str | os.PathLike[str]] = (),
    rule: Sequence[str] | None = None,
    neutral: str | None = None,
    rollout_label: str | None = None,
    first_error_only: bool = False,
    agree: str | None = None,
    scorer: str | None = None,
    on_progress: Callable[[int, int], object] | None = None,
    on_download: Callable[[str, str, int, int | None], object] | None = None,
    **settings: Unpack[Settings],
) -> Calibration:
    """Fits the probability that a step is right to the scores of the reward model that the settings name.

    ``data`` is a file of labelled chains, or a list of its records, such as those of :func:`label`; all of one policy,
    or ``policy`` names it. ``method`` is ``"isotonic"``, ``"platt"`` or ``"temperature"``; ``aggregation=`` is ``"min"``
    or ``"last"``. The share ``held_out`` of the problems measures the fit. ``runs`` are run files of
    ``beamgen solve`` with this calibration: they add how often answers are wrong, which ``max_error=`` needs.
    ``rule`` and the keywords after it say how labels are derived, as for :func:`evaluate_prm`.

    ``out`` is the file to write, for ``Solver(calibration=out)``.

    Raises :class:`InputError` if a setting, the data or the file is at fault, :class:`RunError` if the model fails.

    >>> import beamgen
    >>> labels = beamgen.label(beamgen.sample_problems()[:8], chains=4, rollouts=2)
    >>> fitted = beamgen.calibrate(labels.chains, method="platt")
    >>> sorted(fitted.figures), fitted.content["method"], 0 <= fitted.figures["platt"]["brier"].value <= 1
    (['lowest scores so far', 'median', 'platt'], 'platt', True)
    """
    files, chains = labelled(data)
    keywords: dict[str, Any] = {
        "data": files,
        "out": out,
        "policy": policy,
        "method": method,
        "held_out": held_out,
        "runs": list(runs),
        **label_rule(rule, neutral, rollout_label, first_error_only, agree),
    }
    own = {"scorer": scorer, **settings}
    made, is_foreign = _beamgen.calibrate(
        as_json(keywords, "calibrate"), chains, for_solver(own), on_download, on_progress
    )
    if is_foreign:
        warn_foreign(2)
    fitted = json.loads(made)
    figures = {name: _figures(of) for name, of in fitted["figures"].items()}
    return Calibration(figures=figures, content=fitted["calibration"])


def _figures(line: dict[str, Any]) -> dict[str, Figure]:
    present = {name: of for name, of in line.items() if of is not None}
    return {name: Figure(of["value"], *(of["interval"] or (None, None))) for name, of in present.items()}
