r"""A process reward model for its_hub: BeamSearch and ParticleFiltering score with beamgen's reward model.

    steps = StepGeneration(max_steps=12, step_token="\n", stop_token="The answer is")
    BeamSearch(steps, BeamgenPRM(step_token="\n"), beam_width=4).infer(lm, problem, budget=16)

`step_token` is that of its_hub's StepGeneration. Other keywords are settings of beamgen, such as `prm=`.
"""

import asyncio

import beamgen
from its_hub.api import AbstractProcessRewardModel, ChatMessages


class BeamgenPRM(AbstractProcessRewardModel):
    def __init__(self, step_token="\n\n", aggregate=min, **settings):
        self.step_token, self.aggregate = step_token, aggregate
        self.model = beamgen.RewardModel(**settings)

    def score(self, prompt_or_messages, steps):
        """Returns a score for each response, by default its weakest step's, and 0 for one without text.

        its_hub's searches call the responses so far `steps`. The last message of a conversation is the problem.
        """
        chat = ChatMessages.from_prompt_or_messages(prompt_or_messages).to_chat_messages()
        problem = chat[-1].extract_text_content()
        split = [[step for step in text.split(self.step_token) if step.strip()] for text in steps]
        return [self.aggregate(self.model.score(problem, written)) if written else 0.0 for written in split]

    async def ascore(self, prompt_or_messages, steps):
        return await asyncio.to_thread(self.score, prompt_or_messages, steps)
