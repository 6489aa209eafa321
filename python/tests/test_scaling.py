"""Reward models for other libraries' searches, in examples/scaling."""

from __future__ import annotations

import asyncio
import math
import runpy
import sys
from types import ModuleType
from typing import Any

import beamgen
import pytest
from conftest import PENS, ROOT

RIGHT = [
    "Mia has 34 pens: 34.",
    "Leo has 8 more pens than Mia: 34 + 8 = 42.",
    "Kim has half as many pens as Leo: 42 / 2 = 21.",
    "The answer is 21.",
]
WRONG = [RIGHT[0], "Leo has 8 more pens than Mia: 34 + 8 = 43.", "The answer is 43."]


def prm(file: str) -> Any:
    """Returns the class of an example."""
    return runpy.run_path(str(ROOT / "examples" / "scaling" / file))["BeamgenPRM"]


@pytest.fixture(scope="module")
def scores() -> dict[str, list[float]]:
    """The scores of the steps of both chains, by beamgen itself."""
    model = beamgen.RewardModel()
    return {"right": model.score(PENS, RIGHT), "wrong": model.score(PENS, WRONG)}


class SalPRM:
    """The base class of search-and-learn, which is on no registry, without a model: what its `PRM` does."""

    def __init__(self, search_config: object, **model_kwargs: Any) -> None:
        self.search_config = search_config
        self.model, self.tokenizer = self.load_model_and_tokenizer(**model_kwargs)

    def load_model_and_tokenizer(self, **model_kwargs: Any) -> tuple[Any, Any]:
        raise NotImplementedError


@pytest.fixture
def sal(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType("sal.models.reward_models")
    vars(module)["PRM"] = SalPRM
    for name in ("sal", "sal.models", module.__name__):
        monkeypatch.setitem(sys.modules, name, module)
    return prm("search_and_learn_prm.py")


def test_search_and_learn_gets_the_scores_of_every_step(sal: Any, scores: dict[str, list[float]]) -> None:
    model = sal(None)
    right, wrong, begun = "\n\n".join(RIGHT), "\n\n".join(WRONG), "\n\n".join(RIGHT[:2]) + "\n\n"
    assert model.score([PENS, PENS], [[right, wrong], [begun]]) == [
        [scores["right"], scores["wrong"]],
        [scores["right"][:2]],
    ]
    assert model.score([PENS], [["", "\n\n"]]) == [[[0.0], [0.0]]]
    with pytest.raises(ValueError):
        model.score([PENS], [])


def test_search_and_learn_has_steps_of_several_lines(sal: Any) -> None:
    text = "\n".join(RIGHT[:2]) + "\n\n" + "\n".join(RIGHT[2:])
    wanted = beamgen.score(PENS, ["\n".join(RIGHT[:2]), "\n".join(RIGHT[2:])])
    assert sal(None).score([PENS], [[text]]) == [[wanted]]


def test_settings_of_the_examples_are_those_of_beamgen(sal: Any) -> None:
    wanted = beamgen.score(PENS, WRONG, scorer="exact")
    assert sal(None, scorer="exact").score([PENS], [["\n\n".join(WRONG)]]) == [[wanted]]
    pytest.importorskip("its_hub")
    model = prm("its_hub_prm.py")(scorer="exact")
    assert model.score(PENS, ["\n\n".join(WRONG)]) == [min(wanted)]


def test_its_hub_gets_a_score_for_every_response(scores: dict[str, list[float]]) -> None:
    api = pytest.importorskip("its_hub.api")
    model = prm("its_hub_prm.py")(step_token="\n")
    assert isinstance(model, api.AbstractProcessRewardModel)
    texts = ["\n".join(RIGHT), "\n".join(WRONG), "\n".join(RIGHT[:2]) + "\n\n", " \n"]
    wanted = [min(scores["right"]), min(scores["wrong"]), min(scores["right"][:2]), 0.0]
    assert model.score(PENS, texts) == wanted
    assert asyncio.run(model.ascore(PENS, texts)) == wanted
    chat = [api.ChatMessage("system", "Think."), api.ChatMessage("user", PENS)]
    assert model.score(chat, texts) == model.score(api.ChatMessages(chat), texts) == wanted
    # By default an empty line ends a step, which may have several lines.
    lines = ["\n".join(WRONG[:2]), WRONG[2]]
    product = prm("its_hub_prm.py")(aggregate=math.prod)
    assert product.score(PENS, ["\n\n".join(lines)]) == [math.prod(beamgen.score(PENS, lines))]


class Scripted:
    """A language model that writes the next step of the right chain and of the wrong one in turns."""

    def __init__(self) -> None:
        self.asked = 0

    async def agenerate(self, chats: list[list[Any]], **_: Any) -> list[dict[str, str]]:
        return [{"role": "assistant", "content": self.step(chat)} for chat in chats]

    def step(self, chat: list[Any]) -> str:
        begun = chat[1].content if len(chat) > 1 else ""
        self.asked += 1
        chain = WRONG if "= 43" in begun or ("= 42" not in begun and self.asked % 2) else RIGHT
        return chain[min(begun.count("\n"), len(chain) - 1)]


@pytest.mark.parametrize("name", ["beam", "particles"])
def test_its_hubs_searches_choose_the_right_chain(name: str, scores: dict[str, list[float]]) -> None:
    beam = pytest.importorskip("its_hub.core.algorithms.beam_search")
    particles = pytest.importorskip("its_hub.core.algorithms.particle_gibbs")
    generation = pytest.importorskip("its_hub.core.lms.step_generation")
    steps = generation.StepGeneration(max_steps=12, step_token="\n", stop_token="The answer is")
    model = prm("its_hub_prm.py")(step_token="\n")
    searches = {"beam": beam.BeamSearch(steps, model, 2), "particles": particles.ParticleFiltering(steps, model)}
    result = searches[name].infer(Scripted(), PENS, budget=8, return_response_only=False)
    assert result.the_one["content"] == "\n".join(RIGHT)
    if name == "beam":
        assert max(result.scores) == min(scores["right"])
