"""A result as HTML for a notebook: its chosen chain, and at each step the others, folded. The words are those of the page of
``beamgen show`` (crates/view/assets). All text from elsewhere goes through ``_text``, so it is never markup."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beamgen._result import Node, Pruned, Result

SURE, DOUBTFUL = 0.9, 0.5
MANY = 8
"""More branches than this at one place are one line until they are opened."""
LONGEST = 10_000
"""The characters of a text that are shown."""
MOST = 300_000
"""The characters of HTML for the steps of one result: notebooks are saved with their output."""

# Notebooks put the output into their own page, so every rule is below the class. JupyterLab, VS Code and others say at an
# element above whether they are dark, whatever the browser prefers. The background is set too, for a page around may be
# white though the browser prefers dark.
STYLE = """
.beamgen-result { color-scheme: light dark; --bgn-dim: light-dark(#57606a, #a2acb7);
  --bgn-line: light-dark(#dde2e8, #3a424c); --bgn-accent: light-dark(#0b57b0, #79b4ff);
  color: var(--jp-content-font-color1, var(--vscode-editor-foreground, light-dark(#1b1f24, #e7eaee)));
  background: var(--jp-layout-color0, var(--vscode-editor-background, light-dark(#fff, #13171c)));
  padding: 4px 8px; line-height: 1.5; overflow-wrap: anywhere; }
:is([data-jp-theme-light=true], .vscode-light, [data-theme=light]) .beamgen-result { color-scheme: light; }
:is([data-jp-theme-light=false], .vscode-dark, [data-theme=dark], html[theme=dark]) .beamgen-result { color-scheme: dark; }
.beamgen-result.beamgen-result :is(ul, li, details) { margin: 0; padding: 0; list-style: none; }
.beamgen-result.beamgen-result li > :is(details, .bgn-step) { padding-left: 8px; }
.beamgen-result.beamgen-result p { margin: 0 0 6px; }
.beamgen-result.beamgen-result ul ul { margin-left: 7px; padding-left: 13px; border-left: 1px solid var(--bgn-line); }
.beamgen-result summary { display: flex; gap: 6px; align-items: baseline; padding: 1px 0; cursor: pointer; }
.beamgen-result summary::before { content: "\\25b8"; color: var(--bgn-dim); }
.beamgen-result details[open] > summary::before { content: "\\25be"; }
.bgn-step { display: flex; gap: 0 8px; align-items: baseline; padding: 2px 0; }
.beamgen-result.beamgen-result > ul { margin-bottom: 6px; }
.bgn-chosen { box-shadow: inset 3px 0 var(--bgn-accent); }
.bgn-step > :not(:last-child) { flex: none; }
.bgn-text { white-space: pre-wrap; }
.bgn-dim, .bgn-why { color: var(--bgn-dim); }
.bgn-why, .bgn-score { font-size: 0.9em; }
.bgn-mark { min-width: 1em; text-align: center; }
.bgn-chosen > .bgn-mark { color: var(--bgn-accent); }
.bgn-score { padding: 0 5px; border-radius: 4px; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""
# White on these colours can be read on light and dark pages, and in notebooks that are not trusted, which drop STYLE.
COLOURS = {"good": "#18733a", "unsure": "#8a5a00", "bad": "#b3261e"}
# Control characters, and marks that turn the direction of text round.
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")


@dataclass(eq=False)
class Row:
    """Steps with the same text at the same place, which are shown as one."""

    node: Node
    """The first of them."""
    is_chosen: bool = False
    copies: int = 0
    below: list[Row] = field(default_factory=list)
    is_alive: bool = True
    """Whether a chain went on or ended below."""
    answer: str | None = None
    line: str = ""
    """The HTML; empty if the step is not shown."""
    thought: str = ""


def result_html(result: Result) -> str:
    """Returns HTML of a result without scripts, at most about 500,000 characters.

    Without a tree, its steps are those of the chosen chain.
    """
    tree = result.tree or _chain(result)
    chosen = _chosen(result, tree) if result.tree else set(range(len(tree)))
    rows = _rows(tree, chosen, {answer.node: answer.answer for answer in result.answers} if result.tree else {})
    size = 0
    for row in sorted(rows[1:], key=lambda row: (not row.is_chosen, row.node.depth)):
        line, thought = _line(row), _thought(row.node.thinking)
        size += len(line) + len(thought)
        if size > MOST:
            break
        row.line, row.thought = line, thought
    hidden = sum(not row.line for row in rows[1:])
    more = (
        f'<p class="bgn-why">{hidden:,} of {len(rows) - 1:,} different steps are not shown. <code>beamgen solve FILE --tree '
        "--out RUN</code> and then <code>beamgen show RUN --html PAGE</code> make a page of all.</p>"
    )
    return (
        f'<div class="beamgen-result mathjax_ignore tex2jax_ignore"><style>{STYLE}</style>{_head(result)}'
        f"<ul>{_list(rows[0])}</ul>{more if hidden else ''}{_legend()}</div>"
    )


def _chain(result: Result) -> list[Node]:
    """Returns the chosen chain as a tree."""
    from beamgen._result import Node

    root = Node(parent=None, children=[], depth=0, stream=0, tokens=[], text="", logprob=0.0, score=None, state="expanded")
    tree = [root]
    for at, step in enumerate(result.steps):
        last = at + 1 == len(result.steps)
        thought = step.thought or ""
        tree.append(
            Node(
                parent=at,
                children=[],
                depth=at + 1,
                stream=0,
                tokens=[],
                text=thought + step.text,
                thought={"bytes": len(thought.encode())} if thought else None,
                logprob=0.0,
                score=step.score,
                value=step.value,
                state="finished" if last else "expanded",
                finish=result.finish if last else None,
            )
        )
    return tree


def _chosen(result: Result, tree: Sequence[Node]) -> set[int]:
    """Returns the nodes of the chosen chain, which is found by its text if no answer names its end."""
    at: int | None = result.answers[0].node if result.answers else None
    if at is None and result.steps:
        # The number of steps that the chain to a node has in common with the chosen one, if it has no others.
        same: dict[int | None, int] = {0: 0}
        for number, node in enumerate(tree[1:], 1):
            count = same.get(node.parent)
            text = node.spoken.strip()
            if count is None or (text and (count == len(result.steps) or text != result.steps[count].text.strip())):
                continue
            same[number] = count + bool(text)
        at = next((number for number, count in same.items() if count == len(result.steps)), None)
    chosen = set()
    while at is not None:
        chosen.add(at)
        at = tree[at].parent
    return chosen


def _rows(tree: Sequence[Node], chosen: set[int], ends: dict[int, str]) -> list[Row]:
    """Returns the rows, parents before their children. Of rollouts there is only the chosen chain, as on the page."""
    rows = [Row(tree[0])]
    of: dict[int | None, Row] = {0: rows[0]}
    found: dict[object, Row] = {}
    for at, node in enumerate(tree[1:], 1):
        above = of.get(node.parent)
        if above is None or node.state == "duplicate" or (node.is_rollout and at not in chosen):
            continue
        reason = node.pruned and node.pruned.reason
        row = of[at] = found.setdefault((above, node.text, node.score, node.state, node.finish, reason), Row(node))
        if row.copies == 0:
            above.below.append(row)
            rows.append(row)
        row.copies += node.copies
        row.is_chosen |= at in chosen
        row.answer = row.answer or ends.get(at)
    for row in reversed(rows):
        row.is_alive = row.node.state != "pruned" and (not row.below or any(below.is_alive for below in row.below))
    return rows


def _list(root: Row) -> str:
    """Returns the rows below the root as items of a list. A chain goes on at the same level until it forks."""
    parts = []
    # Not by recursion, for a chain may have any number of steps. A list has the steps at one place; a row is a branch.
    todo: list[str | Row | list[Row]] = [root.below]
    while todo:
        here = todo.pop()
        if isinstance(here, str):
            parts.append(here)
        elif isinstance(here, Row):
            if any(row.line for row in here.below):
                parts.append(f"<li><details><summary>{here.line}</summary>{here.thought}<ul>")
                todo += ["</ul></details></li>", here.below]
            else:
                parts.append(f"<li>{here.line}{here.thought}</li>")
        else:
            rows = [row for row in here if row.line]
            main = next((row for row in rows if row.is_chosen), rows[0] if len(rows) == 1 else None)
            others = [row for row in rows if row is not main]
            if main is not None:
                parts.append(f"<li>{main.line}{main.thought}</li>")
                todo.append(main.below)
            if others and (main is not None or len(others) > MANY):
                name = "step" if main is None else "other step here"
                parts.append(f'<li><details><summary class="bgn-why">{_sum(others, name)}</summary><ul>')
                todo.append("</ul></details></li>")
            todo += reversed(others)
    return "".join(parts)


def _head(result: Result) -> str:
    """Describes the outcome."""
    given = result.answer if result.withheld is None else result.withheld
    if result.error is not None:
        kind, mark = "bad", "! not tried"
    elif result.withheld is not None:
        kind, mark = "unsure", "– withheld"
    elif result.answer is None:
        kind, mark = "bad", "∅ no answer"
    elif result.correct is None:
        kind, mark = "", ""
    elif result.correct:
        kind, mark = ("good", "✓ right") if result.unsound is None else ("unsure", "± right, unsound")
    else:
        kind, mark = ("unsure", "? cannot tell") if result.cannot_tell else ("bad", "✗ wrong")
    notes = [f"({_text(result.finish)})" if given is None else f"answer <b>{_text(given)}</b>"]
    if result.guess:
        notes.append("(a guess: the last number of the text)")
    if result.reference is not None:
        notes.append(f"reference <b>{_text(result.reference)}</b>")
    if result.score is not None:
        notes.append(f"score {_score(result.score)}")
    if result.stopped is not None:
        notes.append(f"stopped: {_text(result.stopped)}")
    if result.unsound is not None:
        found = result.unsound
        notes.append(_text(f"unsound: step {found.step + 1}, {found.source}: {found.reason}"))
    if result.error is not None:
        notes.append(_text(result.error))
    votes = ", ".join(f"{_text(answer.answer, 100)} ({answer.votes})" for answer in result.answers[:10])
    more = len(result.answers) - 10
    answers = f'<p class="bgn-why">votes: {votes}{f", and {more} more answers" if more > 0 else ""}</p>'
    return (
        f'<p class="bgn-text">{_text(result.problem.strip())}</p><p>{_chip(kind, mark) if mark else ""} {", ".join(notes)}</p>'
        f"{answers if len(result.answers) > 1 else ''}"
    )


def _legend() -> str:
    """Returns what the shapes and colours mean."""
    shapes = "★ chosen &ensp; ● kept &ensp; ■ ended &ensp; ✕ pruned &ensp; ◌ pruned later &ensp; ×2 sampled twice"
    sure, doubtful = _chip("good", f"{SURE} or more"), _chip("unsure", f"{DOUBTFUL} or more")
    return f'<p class="bgn-why">{shapes} &ensp; score {sure} {doubtful} {_chip("bad", "less: probably wrong")}</p>'


def _line(row: Row) -> str:
    """Returns the mark of a step, its number in the chain, its score, its text and notes."""
    node = row.node
    shape, word = _fate(row)
    notes = [f"×{row.copies}"] if row.copies > 1 else []
    if node.value is not None:
        notes.append(f"value {node.value:.3f}")
    if node.pruned is not None:
        word = f"{word}: {_why(node.pruned)}"
    elif row.answer is not None:
        word = f"{word}: answer {row.answer}"
    elif node.finish not in (None, "answer"):
        word = f"{word}: {node.finish}"
    if word not in ("kept", "open"):
        notes.append(word)
    text = node.spoken.strip() or ("(no text)" if node.thinking is None else "")
    dim = "" if row.is_alive else " bgn-dim"
    said = f'<span class="bgn-text{dim}">{_text(text)}</span>'
    return (
        f'<span class="bgn-step{" bgn-chosen" if row.is_chosen else ""}"><span class="bgn-mark{dim}">'
        f'{"★" if row.is_chosen else shape}</span> <span class="bgn-dim">{node.depth}</span> {_score(_score_of(row))} '
        f'<span>{f"<b>{said}</b>" if row.is_chosen else said} '
        f'<span class="bgn-why">{_text(", ".join(notes))}</span></span></span>'
    )


def _fate(row: Row) -> tuple[str, str]:
    """Returns the shape and the word for the state of a step."""
    if row.node.state == "pruned":
        return "✕", "pruned"
    if row.node.state == "finished":
        return "■", "ended"
    if row.node.state != "expanded":
        return "○", "open"
    return ("●", "kept") if row.is_alive else ("◌", "pruned later")


def _why(pruned: Pruned, with_rank: bool = True) -> str:
    """Describes why a step was pruned."""
    parts = []
    if pruned.reason != "not-chosen":
        known = {"budget": "the token budget was used up", "search-over": "the search was over"}
        parts.append(known.get(pruned.reason, pruned.reason))
    if pruned.rank is not None and with_rank:
        parts.append(f"rank {pruned.rank}" + ("" if pruned.candidates is None else f" of {pruned.candidates}"))
    if pruned.cutoff is not None:
        parts.append(f"cut-off {pruned.cutoff:.3f}")
    if pruned.round is not None:
        parts.append(f"round {pruned.round}")
    return ", ".join(parts) or "not chosen"


def _sum(rows: Sequence[Row], name: str) -> str:
    """Describes the steps of one place in a line."""
    words = (
        _fate(row)[1] + (f" ({_why(row.node.pruned, with_rank=False)})" if row.node.pruned else "") for row in rows
    )
    counts = Counter(words).most_common()
    fates = ", ".join(f"{count} {word}" for word, count in counts[:3]) + (", …" if len(counts) > 3 else "")
    scores = sorted(f"{score:.3f}" for row in rows if (score := _score_of(row)) is not None)
    span = "" if not scores else f", score {scores[0]}" if scores[0] == scores[-1] else f", scores {scores[0]} to {scores[-1]}"
    return _text(f"{len(rows)} {name.replace('step', 'steps', len(rows) > 1)}: {fates}{span}")


def _thought(thought: str | None) -> str:
    """Returns a thought, folded."""
    if thought is None:
        return ""
    words = len(thought.split())
    summary = f'<summary class="bgn-why">thought: {words} {"word" if words == 1 else "words"}</summary>'
    return f'<details>{summary}<span class="bgn-text">{_text(thought.strip())}</span></details>'


def _score_of(row: Row) -> float | None:
    """Returns a step's score, or the one that it had in its middle."""
    return row.node.partial_score if row.node.score is None else row.node.score


def _score(score: float | None) -> str:
    """Returns a score as a number on the colour of its class."""
    if score is None:
        return _chip("", "–")
    return _chip("good" if score >= SURE else "unsure" if score >= DOUBTFUL else "bad", f"{score:.3f}")


def _chip(kind: str, text: str) -> str:
    style = f' style="background-color: {COLOURS[kind]}; color: #fff"' if kind else ""
    return f'<span class="bgn-score"{style}>{text}</span>'


def _text(text: str, most: int = LONGEST) -> str:
    """Escapes a text, makes characters visible that act instead of showing, and cuts it."""
    shown = ACTING.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text[:most].replace("\r\n", "\n"))
    return escape(shown) + (f"… ({len(text) - most:,} more characters)" if len(text) > most else "")
