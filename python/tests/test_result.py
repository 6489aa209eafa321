"""Results as objects: as the program writes them, in a notebook, copied and read again."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import beamgen
import pytest
from conftest import PENS


class Seen(HTMLParser):
    """The tags of a page, its text, and the text outside of what is folded."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.unfolded = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
            if "details" not in self.open:
                self.unfolded += data


def score(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


@pytest.fixture(scope="module")
def result(solver: beamgen.Solver) -> beamgen.Result:
    return solver.solve(beamgen.Problem(PENS, "pens", "21"))


def test_the_object_of_a_line_is_the_line_again(program: str, tmp_path: Path, result: beamgen.Result) -> None:
    file = tmp_path / "problems.txt"
    file.write_text("\n".join(problem.text for problem in beamgen.sample_problems()[:3]), encoding="utf-8")
    run = tmp_path / "run.jsonl"
    flags = ["--json", "--out", str(run), "--tree", "--threshold", "0.999", "--early-rejection", "13"]
    printed = subprocess.run([program, "solve", file, *flags], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in printed.stdout.splitlines()[:-1]]
    assert len(lines) == 3 and any("withheld" in line for line in lines)
    for line in lines:
        assert beamgen.Result.from_dict(line).to_dict() == line
    for line in map(json.loads, run.read_text(encoding="utf-8").splitlines()[1:]):
        read = beamgen.Result.from_dict(line)
        assert read.to_dict(tree=True) == line
        assert read.tree is not None and len(read.tree) == len(line["tree"])
    assert beamgen.Result.from_dict(result.to_dict()) == result


def test_a_right_answer_by_a_wrong_step_says_so() -> None:
    with beamgen.Solver(strategy="single", scorer="none", seed=4) as solver:
        results = list(solver.solve_all(beamgen.sample_problems()))
    unsound = [result for result in results if result.unsound is not None]
    assert unsound and all(result.unsound is None or result.unsound.by == "checker" for result in results)
    for result in unsound:
        found = result.unsound
        assert found is not None and found.source == "exact" and found.reason
        assert 0 <= found.step < len(result.steps) and f"unsound={found.step}" in repr(result)
        assert beamgen.Result.from_dict(result.to_dict()) == result
    with beamgen.Solver(strategy="single", scorer="none", seed=4, require_sound=True) as solver:
        strict = {result.id: result for result in solver.solve_all(beamgen.sample_problems())}
    for result in results:
        given = strict[result.id]
        kept = result.unsound is None
        assert (given.answer, given.withheld) == ((result.answer, None) if kept else (None, result.answer))


def test_the_tree_has_every_node_and_why_it_was_pruned(result: beamgen.Result) -> None:
    tree = result.tree
    assert tree is not None and tree is result.tree
    assert tree[0].parent is None and all(n.parent is not None and i in tree[n.parent].children for i, n in
                                          enumerate(tree) if i > 0)
    pruned = [node.pruned for node in tree if node.pruned is not None]
    assert any(p.reason == "not-chosen" and p.rank is not None and p.cutoff is not None for p in pruned)
    path, at = [], result.answers[0].node
    while at:
        path.append(tree[at].text.strip())
        at = tree[at].parent or 0
    assert [text for text in reversed(path) if text] == [step.text for step in result.steps]


def test_a_result_is_short_in_print_and_survives_copies(result: beamgen.Result) -> None:
    start = f"Result(id='pens', answer='21', score={result.score!r}, steps={len(result.steps)}, correct=True"
    assert repr(result) == f"{start}, finish='answer')"
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert other == result and other.tree == result.tree


def test_a_notebook_shows_the_tree(result: beamgen.Result) -> None:
    html = result._repr_html_()
    seen = Seen(html)
    tree = result.tree
    assert tree is not None
    assert seen.open == [] and set(seen.tags) <= {"div", "style", "p", "b", "ul", "li", "span", "details", "summary"}
    assert "http" not in html and "url(" not in html and "@import" not in html
    for node in tree[1:]:
        if node.state != "duplicate":
            assert f"{node.depth} {score(node.score)} {node.text.strip()} " in seen.text
            assert node.copies == 1 or f"{node.text.strip()} ×{node.copies}" in seen.text
        if node.pruned is not None:
            why = node.pruned
            assert why.cutoff is not None
            words = f"rank {why.rank} of {why.candidates}, cut-off {why.cutoff:.3f}, round {why.round}"
            assert f"pruned: {words}" in seen.text
    texts = {(node.parent, node.text) for node in tree[1:]}
    assert html.count('class="bgn-step') == len(texts) < len(tree) - 1
    assert "answer 21" in seen.text and "ended: answer 21" in seen.text and "right" in seen.text
    # The number stands on the colour.
    assert f'style="background-color: #18733a; color: #fff">{score(result.score)}<' in html
    assert re.search("style=.background-color: #b3261e; color: #fff.>0.000<", html)


def test_a_notebook_unfolds_the_chosen_chain_alone(result: beamgen.Result) -> None:
    html = result._repr_html_()
    unfolded = Seen(re.sub("<summary.*?</summary>", "", html)).unfolded
    for number, step in enumerate(result.steps, 1):
        assert f"★ {number} {score(step.score)} {step.text}" in unfolded
    assert html.count("bgn-chosen") == len(result.steps) + html.count(".bgn-chosen")
    tree = result.tree
    assert tree is not None and all(node.text.strip() not in unfolded for node in tree if node.pruned)
    assert re.search(r"2 other steps here: 2 pruned \(cut-off 0\.\d+, round 3\)", html)


def test_a_notebook_shows_the_chosen_chain_without_an_answer_and_without_a_tree(result: beamgen.Result) -> None:
    whole = result._repr_html_()
    none = replace(result, answer=None, answers=[])._repr_html_()
    assert none.count("★") == whole.count("★") and "∅ no answer" in none
    alone = replace(result, tree_json=None)._repr_html_()
    assert alone.count("★") == whole.count("★") and alone.count("<li>") == len(result.steps) and "other step" not in alone


def test_a_notebook_folds_chains_that_repeat(solver: beamgen.Solver) -> None:
    result = solver.solve(beamgen.Problem(PENS, "pens", "22"), strategy="best-of-n", n=16)
    html = result._repr_html_()
    tree = result.tree
    assert tree is not None and all(node.copies == 1 for node in tree)
    assert html.count("Mia has 34 pens: 34.") == 1 and ">×16</span>" in html
    votes = result.answers[0].votes
    assert f"×{votes}, ended: answer 21" in html and f"votes: 21 ({votes})" in html
    assert "✗ wrong" in html and "<details open" not in html


@pytest.mark.parametrize(
    ("pruned", "words"),
    [
        ({"reason": "not-chosen"}, "pruned: not chosen"),
        ({"reason": "budget", "round": 2}, "pruned: the token budget was used up, round 2"),
        ({"reason": "search-over"}, "pruned: the search was over"),
        ({"reason": "later-version", "rank": 3}, "pruned: later-version, rank 3"),
    ],
)
def test_a_notebook_says_why_a_branch_was_pruned(result: beamgen.Result, pruned: dict[str, object], words: str) -> None:
    tree = result.to_dict(tree=True)["tree"]
    next(node for node in tree if "pruned" in node)["pruned"] = pruned
    assert f"{words}</span>" in replace(result, tree_json=json.dumps(tree))._repr_html_()


def test_a_notebook_is_light_or_dark_as_its_page(result: beamgen.Result) -> None:
    html = result._repr_html_()
    style = html[html.index("<style>") + 7 : html.index("</style>")]
    for theme in ("data-jp-theme-light=true", "data-jp-theme-light=false", ".vscode-dark", "--jp-layout-color0", "light-dark("):
        assert theme in style
    # No rule reaches beyond the result.
    for selector in re.findall(r"^([^\s{}][^{}]*) \{", style, re.MULTILINE):
        assert all("beamgen-result" in part or part.startswith(".bgn-") for part in re.split(r", (?![^(]*\))", selector))


def test_what_models_wrote_is_text_and_never_markup(result: beamgen.Result) -> None:
    evil = '<script>alert(1)</script><img src=x onerror="alert(2)">&amp;</details>'
    tree = result.to_dict(tree=True)["tree"]
    for node in tree[1:]:
        node["text"] = evil
        node["pruned"] = {"reason": evil}
        if "finish" in node:
            node["finish"] = evil
    steps = [replace(step, text=evil) for step in result.steps]
    spoilt = replace(result, problem=evil, answer=evil, steps=steps, tree_json=json.dumps(tree))
    for shown in (spoilt, replace(spoilt, tree_json=None)):
        seen = Seen(shown._repr_html_())
        assert "script" not in seen.tags and "img" not in seen.tags and seen.open == []
        assert seen.text.count(evil) > len(steps)


def test_a_notebook_makes_visible_what_acts_on_text(result: beamgen.Result) -> None:
    html = replace(result, problem="a\u202eb\x00c\r\nd")._repr_html_()
    assert "a\\u{202e}b\\u{0}c\nd" in html


def test_a_chain_of_any_length_can_be_shown(result: beamgen.Result) -> None:
    node = result.to_dict(tree=True)["tree"][0]
    length = 20_000
    chain = [
        node | {"parent": at - 1 if at else None, "children": [at + 1] if at < length else [], "depth": at, "text": f"<{at}>"}
        for at in range(length + 1)
    ]
    long = replace(result, tree_json=json.dumps(chain), answers=[replace(result.answers[0], node=length)])
    html = long._repr_html_()
    shown = html.count("bgn-step bgn-chosen")
    assert len(html) < 350_000 and 500 < shown < length and "<details" not in html
    assert f"{length - shown:,} of {length:,} different steps are not shown" in html and "beamgen show RUN --html PAGE" in html


def test_of_a_large_tree_and_of_long_texts_a_part_is_shown(result: beamgen.Result) -> None:
    tree = result.to_dict(tree=True)["tree"]
    pruned = next(node for node in tree if "pruned" in node)
    many = [pruned | {"parent": 1, "text": f"step {number}\n"} for number in range(30_000)]
    html = replace(result, tree_json=json.dumps(tree + many))._repr_html_()
    assert len(html) < 400_000 and html.count("bgn-step bgn-chosen") == len(result.steps) and "are not shown" in html
    steps = [replace(step, text="&" * 10**6, thought="<" * 10**6) for step in result.steps]
    html = replace(result, problem="<" * 10**6, steps=steps, tree_json=None)._repr_html_()
    assert len(html) < 450_000 and "… (990,000 more characters)" in html and Seen(html).open == []
