"""A PRM for search-and-learn: its searches score with beamgen's reward model.

In `scripts/test_time_compute.py` there, `prm = BeamgenPRM(config)` takes the place of `prm = load_prm(config)`.
Further keywords are settings of beamgen, such as `prm=`.
"""

import beamgen
from sal.models.reward_models import PRM


class BeamgenPRM(PRM):
    def load_model_and_tokenizer(self, **settings):
        return beamgen.RewardModel(**settings), None

    def score(self, questions, outputs):
        """Returns a score for each step of each answer to each question; 0 for an answer without text."""
        pairs = zip(questions, outputs, strict=True)
        return [[self.step_scores(question, answer) for answer in answers] for question, answers in pairs]

    def step_scores(self, question, answer):
        """Splits as search-and-learn does: an empty line ends a step."""
        steps = [step for step in answer.split("\n\n") if step.strip()]
        return self.model.score(question, steps) if steps else [0.0]
