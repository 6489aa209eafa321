"""Given answers, before and after they were mended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from beamgen._record import of_line


@dataclass(frozen=True)
class Cost:
    """The tokens of all searches for an answer."""

    prompt_tokens: int
    generated_tokens: int
    scored_tokens: int


@dataclass(frozen=True)
class Version:
    """A chain with its scores."""

    steps: list[str]
    scores: list[float | None]
    """A score for each step; ``None`` where the scorer abstained."""
    score: float | None
    """The aggregated score."""
    answer: str | None
    finished: bool
    """Whether it states an answer, or a model ended it."""
    correct: bool | None = None
    """Whether the answer is that of the problem, if that is known."""


@dataclass(frozen=True)
class Round:
    """A time that an answer was written again."""

    step: int
    """From which step, counted from 1."""
    score: float | None
    better: bool
    """Whether it took the place of the one before."""


@dataclass(frozen=True)
class Refined:
    """An answer that was written again from its weakest step."""

    id: str
    problem: str
    changed: bool
    before: Version | None
    after: Version | None
    rounds: list[Round]
    difference: list[str]
    """Steps that were kept, that went (``-``) and that came (``+``), with their scores."""
    cost: Cost
    reference: str | None = None
    error: str | None = None

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Refined:
        """The refined answer that a line of ``beamgen refine`` is."""
        rounds = [of_line(Round, each) for each in line["rounds"]]
        return of_line(cls, line, rounds=rounds, **_parts(line, "before", "after"))


@dataclass(frozen=True)
class Found:
    """Something that was found in an answer."""

    code: str
    """``unsure``, ``split-vote``, ``unsound``, ``unfinished`` or ``unlike-training``."""
    reason: str
    step: int | None = None
    """The step at fault, counted from 1, if it is one."""


@dataclass(frozen=True)
class Guarded:
    """An answer that was accepted, mended or withheld."""

    id: str
    problem: str
    verdict: str | None
    """``accept``, ``mend`` or ``withhold``; ``None`` if it could not be looked at."""
    answer: str | None
    """The answer to be shown; ``None`` if it is withheld."""
    reasons: list[Found]
    given: Version | None
    votes: list[tuple[str, int]]
    """The answers of the chains that were sampled, and their votes."""
    cost: Cost
    mended: Version | None = None
    difference: list[str] | None = None
    error: str | None = None

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Guarded:
        """The guarded answer that a line of ``beamgen guard`` is."""
        reasons = [of_line(Found, each) for each in line["reasons"]]
        votes = [(answer, votes) for answer, votes in line["votes"]]
        return of_line(cls, line, reasons=reasons, votes=votes, **_parts(line, "given", "mended"))


def _parts(line: dict[str, Any], *names: str) -> dict[str, Any]:
    """The versions and the cost of a line."""
    given = {name: line.get(name) for name in names}
    versions: dict[str, Any] = {name: one and of_line(Version, one) for name, one in given.items()}
    return {**versions, "cost": of_line(Cost, line["cost"])}
