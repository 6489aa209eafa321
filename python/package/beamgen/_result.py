"""Results of a search, with the fields of the JSON lines of ``beamgen solve``; docs/reference/run-file.md explains them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from beamgen._html import result_html
from beamgen._record import beside, of_line, optional, to_line


@dataclass(frozen=True)
class Step:
    """A step of the chosen chain."""

    text: str
    score: float | None
    """The scorer's probability that the step is right."""
    thought: str | None = optional(None)
    """The text of the step's thought, without its tags; ``text`` is what follows it."""
    judges: dict[str, float | None] | None = optional(None)
    """The score of each judge by name, if there are several; ``None`` if the judge abstained."""
    quantiles: list[float] | None = optional(None)
    """The 10, 50 and 90 % quantiles of the step's probability of success, if the calibration has quantiles."""
    value: float | None = optional(None)
    """V, the mean worth of the step's rollouts, if the search has them."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer that took part in the choice."""

    answer: str
    votes: int
    """The number of complete chains with this answer."""
    weight: float
    """The sum of these chains' scores."""
    score: float | None
    """The score of the best chain with this answer."""
    node: int
    """The last node of the best chain with this answer, in the tree."""
    outcome: str | None = optional(None)
    """The ``kind`` of the verifier's finding about the best chain with this answer."""


@dataclass(frozen=True)
class Unsound:
    """The step that makes a chain unsound, whatever its answer."""

    step: int
    """The step's index in ``Result.steps``, from 0."""
    by: str
    """``checker``: a checker proves the step wrong; ``label``: a label says so; ``scorer``: its score is below ``sound_above``."""
    source: str
    """The name of the checker, the labels or the scorer."""
    reason: str


@dataclass(frozen=True)
class Outcome:
    """A verifier's finding about a chain."""

    kind: str
    """``right``, ``wrong``, ``unknown``, or ``lost`` if the verifier failed."""
    reason: str = optional("")
    parts: list[int] | None = optional(None)
    """The parts of the task that the chain solves, and all its parts."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The costs of a problem."""

    prompt_tokens: int
    generated_tokens: int
    """The number of sampled tokens, discarded ones included."""
    thought_tokens: int = optional(0)
    """The number of sampled tokens that belong to thoughts."""
    scored_tokens: int
    reused_tokens: int
    forward_passes: int
    peak_kv_bytes: int
    retries: int = optional(0)
    seconds: float
    generate_seconds: float = 0.0
    score_seconds: float = 0.0
    generate_flops: int = optional(0)
    """The floating-point operations of the generator; 0 if they are unknown, as for a server."""
    score_flops: int = optional(0)
    """The floating-point operations of the scorer; 0 if they are unknown."""
    width: dict[str, int] | None = optional(None)
    """The different chains that continued after a step: ``rounds``, ``chains``, ``tokens``, ``distinct_tokens``."""
    judges: dict[str, dict[str, int]] | None = optional(None)
    """The costs of each judge by name: ``calls``, ``steps``, ``abstained``, ``failed``, ``scored_tokens``, ``reused_tokens``."""


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The reason why a node was pruned, with its rank and the cutoff."""

    reason: str
    """``not-chosen``, ``budget`` or ``search-over``."""
    round: int | None = optional(None)
    rank: int | None = optional(None)
    candidates: int | None = optional(None)
    cutoff: float | None = optional(None)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A step in the tree of a search; its number is its index in the tree. Node 0 is the problem itself."""

    parent: int | None
    children: list[int]
    rollouts: list[int] | None = optional(None)
    """The first steps of the rollouts that give the step its value; they are not among ``children``."""
    is_rollout: bool | None = optional(None)
    """Whether the step belongs to a rollout."""
    depth: int
    stream: int
    tokens: list[int]
    text: str
    thought: dict[str, int] | None = optional(None)
    """The thought at the beginning of ``text``: ``bytes``, ``open`` and ``close`` (those of its tags), ``tokens``, and
    ``forced``, the number of the last of these tokens, which closed the thought at its limit."""
    logprob: float
    score: float | None
    partial_score: float | None = optional(None)
    value: float | None = optional(None)
    """V, the mean worth of the step's rollouts."""
    rating: float | None = optional(None)
    """The score of the chain up to this step: V, or V mixed with the scores of the steps."""
    judges: dict[str, float | None] | None = optional(None)
    quantiles: list[float] | None = optional(None)
    copies: int = 1
    round: int | None = optional(None)
    pruned: Pruned | None = optional(None)
    duplicate_of: int | None = optional(None)
    state: str
    """``expanded``, ``finished``, ``pruned`` or ``duplicate``."""
    finish: str | None = optional(None)

    @property
    def thinking(self) -> str | None:
        """The text of the step's thought without its tags; ``None`` if the step has none.

        A thought that was cut within a character ends with U+FFFD. Here 7 bytes are the opening tag and 8 the closing one:

        >>> text = "<think>Half of 42.</think>21 pens."
        >>> node = Node(parent=0, children=[], depth=1, stream=0, tokens=[], text=text, logprob=-0.5, score=0.9,
        ...             state="expanded", thought={"bytes": 26, "open": 7, "close": 8, "tokens": 9})
        >>> node.thinking, node.spoken
        ('Half of 42.', '21 pens.')
        """
        if self.thought is None:
            return None
        end = self.thought["bytes"] - self.thought.get("close", 0)
        return self.text.encode()[self.thought.get("open", 0) : end].decode(errors="replace")

    @property
    def spoken(self) -> str:
        """The text of the step after its thought, with its boundary; all of ``text`` without a thought."""
        begin = 0 if self.thought is None else self.thought["bytes"]
        return self.text.encode()[begin:].decode(errors="replace")


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The result of a problem.

    In a notebook it shows its tree, with the chosen chain unfolded.

    >>> import beamgen
    >>> result = beamgen.Solver().solve(beamgen.sample_problems()[0])
    >>> result.answer, result.correct, result.finish, round(result.score, 2)
    ('7', True, 'answer', 0.99)
    >>> for step in result.steps:
    ...     print(step.text)
    Ana has 16 shells: 16.
    Kim has 1 more shells than Ana: 16 + 1 = 17.
    Ben has 10 fewer shells than Kim: 17 - 10 = 7.
    The answer is 7.
    """

    id: str
    problem: str
    context: list[str] | None = optional(None)
    """The problem's documents."""
    reference: str | None
    answer: str | None
    """The chosen answer; ``None`` if no complete chain has an answer, or if it is withheld."""
    guess: bool = optional(False)
    withheld: str | None = optional(None)
    correct: bool | None
    """Whether the answer is proved equal to the reference; ``None`` without a reference."""
    verifier: str | None = optional(None)
    """The verifier that judged the chains; ``None`` if answers are compared with the reference."""
    outcome: Outcome | None = optional(None)
    """The verifier's finding about the chosen chain."""
    cannot_tell: bool = optional(False)
    unsound: Unsound | None = optional(None)
    """The step that makes the chosen chain unsound; also set if the answer is withheld for that reason."""
    steps: list[Step]
    """The chosen chain."""
    given: int = optional(0)
    """The number of its first steps that the problem gave."""
    score: float | None
    finish: str
    error: str | None = optional(None)
    """The reason why the problem could not be solved. ``Solver.solve`` raises an exception instead."""
    lost_to_memory: int = optional(0)
    lost_verdicts: int = optional(0)
    spared_chains: int | None = optional(None)
    """The chains that a stop at a verified chain (``stop_when_verified``) left unfinished; ``None`` without a stop."""
    answers: list[Answer]
    """The chosen answer, and then the other answers by falling votes."""
    ledger: Ledger

    index: int = beside(0)
    """The problem's index in the argument of ``Solver.solve_all``, from 0."""
    stopped: str | None = beside(None)
    """``deadline`` if the time was over: then the result is partial."""
    tree_json: str | None = beside(None)
    """The tree as JSON, which the property ``tree`` parses when it is first used."""

    @cached_property
    def tree(self) -> list[Node] | None:
        """Every node of the search, parents before their children; ``None`` if the call had ``tree=False``, or if the line
        of ``from_dict`` has no tree.

        A node's number is its index; ``parent``, ``children``, ``duplicate_of`` and ``Answer.node`` are such numbers. The
        tree is parsed when it is first used: a ``TypeError`` or ``ValueError`` then means a damaged ``tree_json``.

        >>> import beamgen
        >>> result = beamgen.Solver().solve(beamgen.sample_problems()[0])
        >>> tree, at = result.tree, result.answers[0].node
        >>> while at:
        ...     print(tree[at].depth, tree[at].text.strip())
        ...     at = tree[at].parent
        4 The answer is 7.
        3 Ben has 10 fewer shells than Kim: 17 - 10 = 7.
        2 Kim has 1 more shells than Ana: 16 + 1 = 17.
        1 Ana has 16 shells: 16.
        >>> {node.pruned.reason for node in tree if node.pruned}
        {'not-chosen'}
        """
        if self.tree_json is None:
            return None
        nodes = []
        for line in json.loads(self.tree_json):
            pruned = line.get("pruned")
            nodes.append(of_line(Node, line, pruned=pruned and of_line(Pruned, pruned)))
        return nodes

    def to_dict(self, tree: bool = False) -> dict[str, Any]:
        """Returns the object that ``beamgen solve --json`` prints for the problem; with ``tree``, also the key ``tree`` of run
        files if the result has one.

        All of it is JSON: ``json.dumps`` takes it. ``index`` and ``stopped`` are not in it. Fields that may be missing
        (docs/reference/run-file.md) are left out if they have their default.

        >>> import beamgen
        >>> result = beamgen.Solver().solve(beamgen.sample_problems()[0])
        >>> line = result.to_dict()
        >>> line["answer"], "guess" in line, "tree" in line, "tree" in result.to_dict(tree=True)
        ('7', False, False, True)
        """
        line: dict[str, Any] = to_line(self)
        if tree and self.tree_json is not None:
            line["tree"] = json.loads(self.tree_json)
        return line

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Result:
        """Returns the result of a line of ``beamgen solve --json`` or of a run file, parsed by ``json.loads``.

        Keys that are not known, such as those of a later version, are ignored. Raises ``KeyError`` or ``TypeError`` if the
        line is none of a problem, such as a run file's header and the summary of ``--json``.

        >>> import beamgen
        >>> result = beamgen.Solver().solve(beamgen.sample_problems()[0])
        >>> beamgen.Result.from_dict(result.to_dict()) == result
        True
        """
        tree, unsound, outcome = line.get("tree"), line.get("unsound"), line.get("outcome")
        return of_line(
            cls,
            line,
            steps=[of_line(Step, step) for step in line["steps"]],
            answers=[of_line(Answer, answer) for answer in line.get("answers", [])],
            ledger=of_line(Ledger, line["ledger"]),
            unsound=None if unsound is None else of_line(Unsound, unsound),
            outcome=None if outcome is None else Outcome(**outcome),
            tree_json=None if tree is None else json.dumps(tree),
        )

    def __repr__(self) -> str:
        shown = {"id": self.id, "answer": self.answer, "score": self.score, "steps": len(self.steps)}
        if self.correct is not None:
            shown["correct"] = self.correct
        if self.unsound is not None:
            shown["unsound"] = self.unsound.step
        shown["finish"] = self.finish
        if self.stopped is not None:
            shown["stopped"] = self.stopped
        if self.error is not None:
            shown["error"] = self.error
        return f"Result({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def _repr_html_(self) -> str:
        """Returns the view for notebooks: HTML without scripts, of bounded size, for light and dark pages."""
        return result_html(self)
