"""Results of ``refine`` and ``guard``: given answers, before and after rewriting."""

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
    """The aggregated score, from 0 to 1."""
    answer: str | None
    finished: bool
    """Whether the chain states an answer, or the generator ended it."""
    correct: bool | None = None
    """Whether the answer equals the problem's reference; ``None`` without a reference."""


@dataclass(frozen=True)
class Round:
    """A round in which an answer was rewritten."""

    step: int
    """The step from which the answer was rewritten, counted from 1."""
    score: float | None
    better: bool
    """Whether the new version replaced the one before."""


@dataclass(frozen=True)
class Refined:
    """An answer that was rewritten from its weakest step."""

    id: str
    problem: str
    changed: bool
    before: Version | None
    after: Version | None
    rounds: list[Round]
    difference: list[str]
    """The steps that were kept, removed (``-``) and added (``+``), with their scores."""
    cost: Cost
    reference: str | None = None
    error: str | None = None
    """The reason why the answer could not be rewritten; ``before`` or ``after`` is then ``None``."""

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Refined:
        """Parses a line of ``beamgen refine``. Raises ``KeyError`` or ``TypeError`` if it is another line."""
        rounds = [of_line(Round, each) for each in line["rounds"]]
        return of_line(cls, line, rounds=rounds, **_parts(line, "before", "after"))


@dataclass(frozen=True)
class Found:
    """A finding in an answer."""

    code: str
    """``unsure``, ``split-vote``, ``unsound``, ``unfinished`` or ``unlike-training``."""
    reason: str
    """The finding as a line for a reader."""
    step: int | None = None
    """The step at fault, counted from 1; ``None`` if the finding is about the whole answer."""


@dataclass(frozen=True)
class Guarded:
    """An answer that was accepted, rewritten or withheld."""

    id: str
    problem: str
    verdict: str | None
    """``accept``, ``mend`` or ``withhold``; ``None`` if the answer could not be checked."""
    answer: str | None
    """The answer to show; ``None`` if it is withheld."""
    reasons: list[Found]
    given: Version | None
    votes: list[tuple[str, int]]
    """The answers of the sampled chains, with their votes."""
    cost: Cost
    mended: Version | None = None
    """The version that was written in place of the answer, if there is one."""
    difference: list[str] | None = None
    """The steps of ``given`` and ``mended``, as in :class:`Refined`."""
    error: str | None = None
    """The reason why the answer could not be checked."""

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Guarded:
        """Parses a line of ``beamgen guard``. Raises ``KeyError`` or ``TypeError`` if it is another line."""
        reasons = [of_line(Found, each) for each in line["reasons"]]
        votes = [(answer, votes) for answer, votes in line["votes"]]
        return of_line(cls, line, reasons=reasons, votes=votes, **_parts(line, "given", "mended"))


def _parts(line: dict[str, Any], *names: str) -> dict[str, Any]:
    """Parses the versions and the cost in a line."""
    given = {name: line.get(name) for name in names}
    versions: dict[str, Any] = {name: one and of_line(Version, one) for name, one in given.items()}
    return {**versions, "cost": of_line(Cost, line["cost"])}
