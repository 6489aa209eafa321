"""Events of a search. Nodes have numbers in the order of events; the result's tree has other numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from beamgen._record import of_line
from beamgen._result import Pruned


@dataclass(frozen=True)
class Started:
    """The search began."""


@dataclass(frozen=True)
class ChainExpanded:
    """New steps were begun after a node; they have no text yet."""

    node: int
    """The number of the step before the new ones; 0 is the problem."""
    children: list[int]
    """The numbers of the new steps."""
    round: int | None
    """The round of the search, from 1."""


@dataclass(frozen=True)
class StepPaused:
    """A step is paused before its end, to be scored so far (``early_rejection``)."""

    node: int
    text: str


@dataclass(frozen=True)
class StepPartlyScored:
    """A paused step got the score of its text so far."""

    node: int
    text: str
    """The text so far."""
    score: float
    """The probability that the step so far is right, from 0 to 1."""


@dataclass(frozen=True)
class StepClosed:
    """A step is finished, and has its text."""

    node: int
    parent: int | None
    """The number of the step before; 0 is the problem."""
    text: str


@dataclass(frozen=True)
class StepMerged:
    """A step has the same text as an earlier sibling, which represents both from now on."""

    node: int
    text: str
    twin: int
    """The number of the earlier sibling."""
    copies: int
    """The number of steps that the sibling represents, itself included."""


@dataclass(frozen=True)
class StepScored:
    """A step got its score."""

    node: int
    text: str
    score: float
    """The probability that the step is right, from 0 to 1."""


@dataclass(frozen=True)
class ChainPruned:
    """The chain that ends with this step was dropped, in favour of better ones or because the search is over."""

    node: int
    text: str
    pruned: Pruned | None
    """The reason, with the chain's rank and the cutoff."""


@dataclass(frozen=True)
class ChainFinished:
    """The chain that ends with this step is finished."""

    node: int
    text: str
    finish: str
    """``answer``, ``end-of-text``, ``stop``, or the limit that cut the chain."""


@dataclass(frozen=True)
class Restarted:
    """Memory ran out: the search begins again from the start."""


Event = (
    Started
    | ChainExpanded
    | StepPaused
    | StepPartlyScored
    | StepClosed
    | StepMerged
    | StepScored
    | ChainPruned
    | ChainFinished
    | Restarted
)
"""Any event of a search, as :meth:`Solver.stream` yields them."""

_KINDS: dict[str, type[Event]] = {
    "started": Started,
    "chain-expanded": ChainExpanded,
    "step-paused": StepPaused,
    "step-partly-scored": StepPartlyScored,
    "step-closed": StepClosed,
    "step-merged": StepMerged,
    "step-scored": StepScored,
    "chain-pruned": ChainPruned,
    "chain-finished": ChainFinished,
    "restarted": Restarted,
}


def reader() -> Callable[[str], Event]:
    """Parses lines of events. Only the first event of a step has its text, so the parser remembers it."""
    texts: dict[int, str] = {}

    def read(line: str) -> Event:
        event: dict[str, Any] = json.loads(line)
        kind = _KINDS[event.pop("event")]
        if kind is Restarted:
            texts.clear()
        if "text" in event:
            texts[event["node"]] = event["text"].strip()
        if "node" in event and kind is not ChainExpanded:
            event["text"] = texts.get(event["node"], "")
        if event.get("pruned") is not None:
            event["pruned"] = of_line(Pruned, event["pruned"])
        return kind(**event)

    return read
