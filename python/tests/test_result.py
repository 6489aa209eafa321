"""Results as objects: as the program writes them, in a notebook, copied and read again."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import beamgen
import pytest
from conftest import PENS


class Seen(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


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
    seen = Seen(result._repr_html_())
    tree = result.tree
    assert tree is not None
    assert seen.open == [] and set(seen.tags) <= {"div", "p", "b", "small", "i", "details", "summary"}
    assert seen.tags.count("details") == len([node for node in tree[1:] if node.children])
    for node in tree[1:]:
        assert node.text.strip() in seen.text
    assert "answer 21" in seen.text and "pruned: not-chosen, rank" in seen.text
    shown = Seen(replace(result, tree_json=None)._repr_html_())
    assert shown.tags.count("li") == len(result.steps)


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


def test_a_chain_of_any_length_can_be_shown(result: beamgen.Result) -> None:
    node = result.to_dict(tree=True)["tree"][0]
    length = 20_000
    chain = [
        node | {"parent": at - 1 if at else None, "children": [at + 1] if at < length else [], "depth": at}
        for at in range(length + 1)
    ]
    long = replace(result, tree_json=json.dumps(chain), answers=[replace(result.answers[0], node=length)])
    assert long._repr_html_().count("<details open") == length - 1
