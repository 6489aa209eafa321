"""Scores of given steps without a search."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from beamgen import _beamgen
from beamgen._errors import InputError
from beamgen._foreign import warn_foreign
from beamgen._problem import Problem, refuse_table, with_context
from beamgen._settings import for_solver
from beamgen._settings_table import Settings

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import Unpack
    else:
        from typing_extensions import Unpack


def checked(problem: str | Problem, steps: Sequence[str]) -> tuple[str, list[str]]:
    """Checks a problem's text and its steps, none of which may be blank."""
    text = with_context(problem) if isinstance(problem, Problem) else problem
    if not isinstance(text, str):
        raise TypeError(f"a problem is a string or a beamgen.Problem, not {type(problem).__name__}")
    if isinstance(steps, str):
        raise TypeError("steps are a list of strings, one a step")
    refuse_table(steps, "steps", "a list of strings")
    given = list(steps)
    for number, step in enumerate(given, 1):
        if not isinstance(step, str):
            raise TypeError(f"step {number} is a string, not {type(step).__name__}")
        if not step.strip():
            raise InputError(f"step {number} is blank")
    return text, given


class RewardModel:
    """A reward model without a generator, for given steps. Any number of threads may use it."""

    def __init__(
        self,
        *,
        scorer: str | None = None,
        on_download: Callable[[str, str, int, int | None], object] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Loads the model that the settings name: ``prm=``, or the reward model of ``pair=``; otherwise the bundled model.

        ``scorer="orm"`` is the bundled outcome reward model, ``"exact"`` the checker of the bundled problems.
        ``on_download`` hears of downloads: model, file, bytes so far, bytes of all or ``None``.

        Raises :class:`InputError` if a setting is at fault or if the model cannot be found, downloaded or loaded.
        """
        self._model = _beamgen.RewardModel(for_solver({"scorer": scorer, **settings}), on_download)

    def score(self, problem: str | Problem, steps: Sequence[str]) -> list[float]:
        """Returns the probability that each step is right, given the steps before it: a number from 0 to 1 a step.

        Raises :class:`InputError` if a step is blank or if the model cannot read the chain (it is too long, for example),
        :class:`RunError` if the model fails.

        >>> import beamgen
        >>> model, problem = beamgen.RewardModel(), beamgen.sample_problems()[0]
        >>> steps = ["Ana has 16 shells: 16.", "Kim has 1 more shells than Ana: 16 - 1 = 15."]
        >>> [round(score, 2) for score in model.score(problem, steps)]
        [1.0, 0.0]
        """
        text, given = checked(problem, steps)
        if self._model.is_foreign(text):
            warn_foreign(2)
        return self._model.score(text, given)


_last: dict[str, _beamgen.RewardModel] = {}


def score(
    problem: str | Problem, steps: Sequence[str], *, scorer: str | None = None, **settings: Unpack[Settings]
) -> list[float]:
    """Returns the probability that each step is right, by the model that :class:`RewardModel` would load.

    The model stays loaded until another is asked for. Raises as :class:`RewardModel` and its method ``score`` do.

    >>> import beamgen
    >>> steps = ["Ana has 16 shells: 16.", "Kim has 1 more shells than Ana: 16 + 1 = 17."]
    >>> [round(score, 2) for score in beamgen.score(beamgen.sample_problems()[0], steps)]
    [1.0, 0.99]
    """
    text, given = checked(problem, steps)
    wanted = for_solver({"scorer": scorer, **settings})
    model = _last.get(wanted)
    if model is None:
        _last.clear()
        model = _last[wanted] = _beamgen.RewardModel(wanted, None)
    if model.is_foreign(text):
        warn_foreign(2)
    return model.score(text, given)
