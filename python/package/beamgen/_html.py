"""A result as HTML for a notebook: its tree as a folding list. Texts of models are escaped, so they are never markup."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beamgen._result import Node, Result


def result_html(result: Result) -> str:
    """Returns self-contained HTML of a result. The chosen chain is unfolded; without a tree, only that chain is shown."""
    answer = "no answer" if result.answer is None else f"answer {escape(result.answer)}"
    parts = [f"<p>{escape(result.problem)}</p><p><b>{answer}</b>{_score(result.score)}</p>"]
    tree = result.tree
    if tree is None:
        steps = "".join(f"<li>{_thought(step.thought)}{escape(step.text)}{_score(step.score)}</li>" for step in result.steps)
        return f"<div>{parts[0]}<ol>{steps}</ol></div>"
    chosen = set()
    at: int | None = result.answers[0].node if result.answers else None
    while at is not None:
        chosen.add(at)
        at = tree[at].parent
    # Not by recursion, for a chain may have any number of steps.
    todo: list[int | str] = list(reversed(tree[0].children))
    while todo:
        here = todo.pop()
        if isinstance(here, str):
            parts.append(here)
            continue
        node = tree[here]
        label = f"{_thought(node.thinking)}{escape(node.spoken.strip())}{_score(node.score)}{_end(node)}"
        if node.children:
            opened = " open" if here in chosen else ""
            parts.append(f'<details{opened} style="margin-left:1em"><summary>{label}</summary>')
            todo.append("</details>")
            todo.extend(reversed(node.children))
        else:
            parts.append(f'<div style="margin-left:2em">{label}</div>')
    return f"<div>{''.join(parts)}</div>"


def _thought(thought: str | None) -> str:
    """Returns a thought, folded."""
    if thought is None:
        return ""
    words = len(thought.split())
    return f"<details><summary><i>a thought of {words} words</i></summary>{escape(thought.strip())}</details>"


def _score(score: float | None) -> str:
    return "" if score is None else f" <small>{score:.3f}</small>"


def _end(node: Node) -> str:
    """Describes how a chain ended, if it ended at this node."""
    if node.pruned is not None:
        rank = "" if node.pruned.rank is None else f", rank {node.pruned.rank} of {node.pruned.candidates}"
        return f" <i>pruned: {escape(node.pruned.reason)}{rank}</i>"
    if node.duplicate_of is not None:
        return f" <i>same as node {node.duplicate_of}</i>"
    return "" if node.finish is None else f" <i>{escape(node.finish)}</i>"
