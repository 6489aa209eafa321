"""Measures how well a reward model finds wrong steps, as ``beamgen eval-prm`` does."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from beamgen import _beamgen
from beamgen._foreign import warn_foreign
from beamgen._problem import refuse_table
from beamgen._record import beside, of_line, optional, to_line
from beamgen._reward_model import RewardModel
from beamgen._settings import as_json, called, for_solver
from beamgen._settings_table import Settings

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import Unpack
    else:
        from typing_extensions import Unpack


@dataclass(frozen=True)
class Figure:
    """A figure with the bounds of its 95 % interval over problems, or ``None`` for the bounds."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Figures of a reward model that looks for the first wrong step of chains. ``None``: not defined for these chains."""

    data: str
    """The name of the file, as the caller wrote it."""
    chains: int
    """The number of chains whose first wrong step is known."""
    refused: int
    """The number of these chains that the model could not score; each counts as a miss."""
    threshold: float
    """The threshold: a lower score flags a step."""
    accuracy_on_wrong: float | None
    """The share of wrong chains whose first flag is on the first wrong step, from 0 to 1."""
    accuracy_on_right: float | None
    """The share of right chains without a flag."""
    f1: float | None
    """The harmonic mean of ``on_wrong`` and ``on_right``, as in ProcessBench."""
    f1_low: float | None
    f1_high: float | None
    best_threshold: float | None
    """The threshold with the highest F1 on these chains."""
    best_f1: float | None
    """The F1 at ``best_threshold``: an upper bound, since the threshold is chosen on the same chains."""
    largest: int
    """The number of chains of the problem that has the most."""
    over_problems: dict[str, float | None]
    """Means over problems of ``on_wrong``, ``on_right`` and ``f1``."""
    probes: list[dict[str, Any]] | None = optional(None)
    """The results on chains that were changed on purpose, if ``probes`` was set."""
    shifts: list[dict[str, Any]] | None = optional(None)
    """The figures on other kinds of chains, if ``probes`` was set."""

    partial: dict[str, Any] | None = optional(None)
    """The scores of the beginnings of steps, if ``partial`` was set: the object of ``beamgen eval-prm --partial --json``."""

    details_json: str = beside("{}")
    """The text of ``details``."""

    @cached_property
    def details(self) -> dict[str, Any]:
        """The object of the file in ``results.json`` of a report: counts, figures, baselines, calibration, groups.

        It is parsed when it is first used: a ``ValueError`` then means a damaged ``details_json``.
        """
        details: dict[str, Any] = json.loads(self.details_json)
        return details

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """All figures that are defined for these chains, by their names in ``results.json``: ``brier``, ``prm_score``, ..."""
        figures = self.details["model"]["figures"].items()
        ends = (None, None)
        return {name: Figure(of["value"], *(of["interval"] or ends)) for name, of in figures if of is not None}

    @property
    def auc(self) -> float | None:
        """The area under the ROC curve of the scores of right and wrong steps, from 0 to 1.

        ``None`` if all steps are right, or all wrong.
        """
        return self._value("auc")

    @property
    def brier(self) -> float | None:
        """The mean squared difference between score and label (Brier score), from 0 to 1."""
        return self._value("brier")

    @property
    def ece(self) -> float | None:
        """The expected calibration error over bins with equal numbers of steps, from 0 to 1."""
        return self._value("ece_equal_mass")

    def _value(self, name: str) -> float | None:
        figure = self.figures.get(name)
        return None if figure is None else figure.value

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that ``beamgen eval-prm --json`` prints for the file, all of it JSON."""
        line: dict[str, Any] = to_line(self)
        return line


def labelled(data: str | os.PathLike[str] | Iterable[Mapping[str, Any]]) -> tuple[list[str | os.PathLike[str]], str | None]:
    """Returns the files of labelled chains, or their records as JSON."""
    refuse_table(data, "data", "a file, or a list of labelled chains")
    if isinstance(data, str | os.PathLike):
        return [data], None
    return [], as_json(list(data), "data")


def label_rule(
    rule: Sequence[str] | None, neutral: str | None, rollout_label: str | None, first_error_only: bool, agree: str | None
) -> dict[str, Any]:
    """Returns the keywords by which labels are derived, as Rust takes them."""
    return {
        "rule": None if rule is None else [rule] if isinstance(rule, str) else list(rule),
        "neutral": neutral,
        "rollout_label": rollout_label,
        "first_error_only": first_error_only,
        "agree": agree,
    }


def evaluate_prm(
    data: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    *,
    model: RewardModel | None = None,
    wrong_below: float = 0.5,
    limit: int | None = None,
    report: str | os.PathLike[str] | None = None,
    probes: bool = False,
    partial: bool = False,
    rule: Sequence[str] | None = None,
    neutral: str | None = None,
    rollout_label: str | None = None,
    first_error_only: bool = False,
    agree: str | None = None,
    scorer: str | None = None,
    on_progress: Callable[[int, int], object] | None = None,
    on_download: Callable[[str, str, int, int | None], object] | None = None,
    **settings: Unpack[Settings],
) -> Evaluation:
    """Scores labelled chains with a reward model and compares the scores with the labels.

    ``data`` is a file of labelled chains, or a list of its records, in any format of ``beamgen labels``. The reward
    model is ``model``, or the one that the settings name as for :class:`RewardModel`: ``prm=``, ``pair=``.
    ``report`` is a folder for the report that ``beamgen eval-prm --report`` writes; one that has a report is refused.
    ``on_progress`` hears how many chains are scored, and of how many. Ctrl-C ends it.

    The other keywords are flags of ``beamgen eval-prm``: a score below ``wrong_below`` flags a step; ``limit`` takes
    the first chains only; ``probes`` changes chains on purpose and scores them again; ``partial`` scores the
    beginnings of steps, too; ``rule`` (a list), ``neutral``,
    ``rollout_label``, ``first_error_only`` and ``agree`` say how labels are derived.

    Raises :class:`InputError` if a setting, the file, a chain or the folder is at fault, :class:`RunError` if the model
    fails or can read none of the chains, ``TypeError`` if there is both a ``model`` and a setting.

    >>> import beamgen
    >>> problem = beamgen.sample_problems()[0].text
    >>> right = ["Ana has 16 shells: 16.", "Kim has 1 more shells than Ana: 16 + 1 = 17."]
    >>> wrong = ["Ana has 16 shells: 16.", "Kim has 1 more shells than Ana: 16 - 1 = 15."]
    >>> chains = [{"problem": problem, "steps": right, "label": -1}, {"problem": problem, "steps": wrong, "label": 1}]
    >>> evaluation = beamgen.evaluate_prm(chains)
    >>> evaluation.chains, evaluation.accuracy_on_wrong, evaluation.accuracy_on_right, evaluation.f1
    (2, 1.0, 1.0, 1.0)
    """
    own = {"scorer": scorer, **settings}
    if model is not None and any(value is not None for value in own.values()):
        raise TypeError("model and settings exclude each other: give the settings to beamgen.RewardModel")
    files, chains = labelled(data)
    keywords: dict[str, Any] = {
        "data": files[0] if files else None,
        "wrong_below": wrong_below,
        "limit": limit,
        "report": report,
        "probes": probes,
        "partial": partial,
        **label_rule(rule, neutral, rollout_label, first_error_only, agree),
    }
    keywords["call"] = called("evaluate_prm", keywords | own)
    line, details, is_foreign = _beamgen.evaluate_prm(
        as_json(keywords, "evaluate_prm"),
        chains,
        None if model is None else model._model,
        for_solver(own),
        on_download,
        on_progress,
    )
    if is_foreign:
        warn_foreign(2)
    return of_line(Evaluation, json.loads(line), details_json=details)
