"""its_hub and reward_hub against `beamgen serve`, which is generator and reward model at once.

    python tests/clients/hub.py target/release/beamgen
"""

import asyncio
import sys
import warnings

import requests
from program import Program, Server, answer, say

import rewards
from its_hub import BestOfN, OpenAICompatibleLanguageModel, SelfConsistency
from its_hub.core.algorithms.beam_search import BeamSearch
from its_hub.core.algorithms.particle_gibbs import ParticleFiltering
from its_hub.core.lms.step_generation import StepGeneration

COUNT, BUDGET = 6, 16


def same_scores(server, program, scores, problem):
    """The scores of reward_hub are those of /v1/score to the last bit."""
    steps = [step["text"] for step in program.solve(problem, "--seed", "5")["steps"]]
    body = {"chains": [{"problem": problem, "steps": steps}]}
    ours = requests.post(f"{server.url}/v1/score", json=body).json()["data"][0]["scores"]
    chat = [{"role": "user", "content": problem}, {"role": "assistant", "content": rewards.STEP.join(steps)}]
    theirs = scores.steps(chat)
    assert theirs == ours and len(ours) == len(steps), (theirs, ours)
    say("reward_hub", len(steps), "steps, scores as /v1/score:", [round(score, 3) for score in theirs])


def main(binary):
    program = Program(binary)
    problems = program.problems(COUNT, seed=3131)
    with Server(binary) as server:
        scores = rewards.Scores(server.port)
        same_scores(server, program, scores, problems[0]["problem"])
        lm = OpenAICompatibleLanguageModel(f"{server.url}/v1", "none", "single", temperature=1.0)
        by_step = StepGeneration(max_steps=12, step_token=rewards.STEP, stop_token="The answer is", temperature=1.0)
        prm = rewards.Process(scores)
        algorithms = {
            "single": None,
            "self-consistency": SelfConsistency(answer),
            "best-of-16": BestOfN(rewards.Outcome(scores)),
            "beam": BeamSearch(by_step, prm, beam_width=4),
            "particles": ParticleFiltering(by_step, prm),
        }
        right = {}
        for name, algorithm in algorithms.items():
            right[name], differ = 0, []
            for problem in problems:
                if algorithm is None:
                    chats = [[{"role": "user", "content": problem["problem"]}]] * BUDGET
                    texts = [reply["content"] for reply in asyncio.run(lm.agenerate(chats))]
                    right[name] += sum(answer(text) == problem["answer"] for text in texts) / BUDGET
                    continue
                result = algorithm.infer(lm, problem["problem"], budget=BUDGET, return_response_only=False)
                right[name] += answer(result.the_one["content"]) == problem["answer"]
                differ.append(len({response["content"] for response in getattr(result, "responses", [])}))
            say(name, f"{right[name]:g} of {COUNT} right")
            if name in ("self-consistency", "best-of-16"):
                say("", f"different texts of {BUDGET}:", differ)
                assert max(differ) > 8, differ
        assert scores.asked > 100
        for name in ("best-of-16", "beam", "particles"):
            assert right[name] > right["single"], right


warnings.simplefilter("ignore", DeprecationWarning)
main(*sys.argv[1:])
