"""Rating of chains by a person, as in ``beamgen annotate``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beamgen import _beamgen


@dataclass(frozen=True, kw_only=True)
class RatedStep:
    """A step, with the person's rating and comment."""

    text: str
    rating: int | None
    """1 right, 0 neutral, -1 wrong."""
    comment: str | None


@dataclass(frozen=True, kw_only=True)
class AnnotationView:
    """The view of the person who rates: without scores and other people's ratings."""

    rater: str
    """The name of the person."""
    chain: int
    """The chain's place in the order, from 0."""
    chains: int
    """The number of chains."""
    done: int
    """The number of finished chains."""
    step: int
    """The index of the current step, from 0."""
    is_done: bool
    """Whether the chain is done."""
    stops: bool
    """Whether a chain is done at its first wrong step."""
    can_undo: bool
    """Whether this object has a rating or a comment to undo."""
    problem: str
    answer: str | None
    """The reference answer."""
    steps: list[RatedStep]


class Annotation:
    """Chains that a person rates, and the file that keeps the ratings: see :func:`annotate`.

    Every method returns the view after it. All raise :class:`InputError` if the file cannot be written.
    """

    def __init__(self, own: _beamgen.Annotation) -> None:
        self._own = own

    @property
    def view(self) -> AnnotationView:
        """The current view."""
        return self._act("look")

    def rate(self, rating: int) -> AnnotationView:
        """Rates the current step: 1 right, 0 neutral, -1 wrong. Then the next step is the current one.

        Raises :class:`InputError` if the rating is another number.
        """
        return self._act("rate", rating=rating)

    def comment(self, text: str) -> AnnotationView:
        """Adds a comment to the current step; an empty text removes it."""
        return self._act("comment", text=text)

    def undo(self) -> AnnotationView:
        """Undoes the last rating or comment of this object; without one, nothing changes."""
        return self._act("undo")

    def go(self, chain: int, step: int = 0) -> AnnotationView:
        """Goes to another step or chain, both from 0. Raises :class:`InputError` if there is no such step or chain."""
        return self._act("go", chain=chain, step=step)

    def __iter__(self) -> Iterator[AnnotationView]:
        """Yields the current step until all chains are done. Each step has to be rated before the next one is taken."""
        view = self.view
        while view.done < view.chains:
            yield view
            view = self.view

    def _act(self, what: str, **more: Any) -> AnnotationView:
        view = json.loads(self._own.act(json.dumps({"do": what, **more})))
        steps = [RatedStep(**step) for step in view.pop("steps")]
        return AnnotationView(steps=steps, **view)


def annotate(
    chains: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    rater: str,
    order: str = "given",
    seed: int = 0,
    through: bool = False,
) -> Annotation:
    r"""Lets a person rate the steps of the chains in a file, as ``beamgen annotate`` does, for example in a notebook.

    Every rating is appended to the file ``out`` at once; a later call continues where the file ends, and several people
    may share it. ``order`` is ``"given"``, ``"random"`` (by ``seed``), ``"unsure"``, ``"apart"`` or ``"convincing"``. A
    chain is done at its first wrong step, or with ``through`` at its last one. ::

        rating = beamgen.annotate("chains.jsonl", "rated.jsonl", rater="anna")
        for view in rating:
            print(view.problem, view.steps[view.step].text)
            rating.rate(int(input()))

    Raises :class:`InputError` if a file cannot be read or written, if a record is no chain, or if the order is unknown or
    needs scores that the chains lack.

    >>> import pathlib, tempfile, beamgen
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chains, out = pathlib.Path(folder, "chains.jsonl"), pathlib.Path(folder, "rated.jsonl")
    ...     _ = chains.write_text('{"problem": "3 times 4?", "steps": [{"text": "3 * 4 = 12."}]}\n')
    ...     beamgen.annotate(chains, out, rater="anna").rate(1).steps
    [RatedStep(text='3 * 4 = 12.', rating=1, comment=None)]
    """
    return Annotation(_beamgen.Annotation(os.fspath(chains), os.fspath(out), rater, order, seed, through))
