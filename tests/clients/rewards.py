"""reward_hub's client of vLLM's `/pooling`, and the adapters that its_hub asks for.

reward_hub imports torch and transformers for the models that it runs itself. Its HTTP client computes nothing with them, and
asks for a tokenizer that it does not use, so stand-ins take their place here.
"""

import asyncio
import sys
from unittest.mock import MagicMock

for name in ["torch", "torch.nn", "torch.nn.functional", "transformers"]:
    sys.modules[name] = MagicMock()

from its_hub.api import AbstractOutcomeRewardModel, AbstractProcessRewardModel
from reward_hub.openai.reward import OpenAIProcessRewardModel

STEP = "\n"


class Scores:
    """Scores of conversations by reward_hub over HTTP."""

    def __init__(self, port):
        # reward_hub knows the format of a request for this name only.
        self.model = OpenAIProcessRewardModel("Qwen/Qwen2.5-Math-PRM-7B", port)
        self.asked = 0

    def scores(self, chats, rule="min"):
        """The score of each conversation; 0 where the response has no text, which a reward model cannot read."""
        asked = [chat for chat in chats if chat[-1]["content"]]
        self.asked += len(asked)
        found = iter(self.model.score(asked, step_sep=STEP, aggregation_method=rule) if asked else [])
        return [next(found) if chat[-1]["content"] else 0.0 for chat in chats]

    def steps(self, chat):
        return self.model.score([chat], step_sep=STEP, return_full_prm_result=True)[0].step_scores


def written(text):
    """The text without its empty lines: reward_hub makes a step of each line, and a reward model reads no empty step."""
    return STEP.join(line for line in text.split(STEP) if line.strip())


class Outcome(AbstractOutcomeRewardModel):
    """its_hub's model of whole responses."""

    def __init__(self, scores):
        self.scores = scores

    def score(self, messages, **_):
        chats = [[message.to_dict() for message in chat] for chat in messages]
        for chat in chats:
            chat[-1]["content"] = written(chat[-1]["content"])
        return self.scores.scores(chats)

    async def ascore(self, messages, orchestrator=None, **_):
        return await asyncio.to_thread(self.score, messages)


class Process(AbstractProcessRewardModel):
    """its_hub's model of begun responses."""

    def __init__(self, scores):
        self.scores = scores

    def score(self, prompt_or_messages, steps):
        user = {"role": "user", "content": prompt_or_messages}
        chats = [[user, {"role": "assistant", "content": written(text)}] for text in steps]
        return self.scores.scores(chats)

    async def ascore(self, prompt_or_messages, steps):
        return await asyncio.to_thread(self.score, prompt_or_messages, steps)
