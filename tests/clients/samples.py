"""OpenAI's SDK against `beamgen serve`: samples differ, repeat by their seed, and searches are better than single chains.

    python tests/clients/samples.py target/release/beamgen
"""

import sys

import openai
from program import Program, Server, answer, say


def main(binary):
    problems = Program(binary).problems(12, seed=3131)
    # The problem is long, so that sampled chains are almost never equal.
    hard = max(problems, key=lambda problem: len(problem["problem"]))
    with Server(binary) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none")

        def ask(problem, model="single", **more):
            messages = [{"role": "user", "content": problem["problem"]}]
            return client.chat.completions.create(model=model, messages=messages, **more)

        def is_right(problem, reply):
            return answer(reply.choices[0].message.content) == problem["answer"]

        replies = [ask(hard) for _ in range(16)]
        texts = {reply.choices[0].message.content for reply in replies}
        assert len(texts) > 8, texts
        again = ask(hard, seed=replies[5].beamgen["seed"])
        assert again.choices[0].message.content == replies[5].choices[0].message.content
        say("16 requests", len(texts), "different texts; the sixth repeats by its seed")

        many = ask(hard, n=16, seed=7)
        texts = [choice.message.content for choice in many.choices]
        assert len(texts) == 16 and len(set(texts)) > 8, texts
        assert [choice.index for choice in many.choices] == list(range(16))
        same = ask(hard, n=16, seed=7)
        assert [choice.message.content for choice in same.choices] == texts
        say("n = 16", len(set(texts)), "different texts; the same ones with the same seed")

        chains = {problem["id"]: ask(problem, n=16, seed=1).choices for problem in problems}
        right = sum(
            answer(choice.message.content) == problem["answer"] for problem in problems for choice in chains[problem["id"]]
        )
        single = right / 16
        best = sum(
            is_right(problem, ask(problem, "vote", seed=1, extra_body={"beamgen": {"n": 16, "choose": "best"}}))
            for problem in problems
        )
        assert best > single, (best, single)
        say("right of 12", f"{single:.1f} by single chains, {best} by the best of 16")

        # Clients often send temperature 0, which must not make a search greedy.
        greedy = ask(problems[0], "careful", seed=1, temperature=0)
        free = ask(problems[0], "careful", seed=1)
        assert greedy.choices[0].message.content == free.choices[0].message.content
        assert greedy.beamgen["ignored"] == ["temperature"], greedy.beamgen
        say("temperature", "0 has no effect on", greedy.model, greedy.beamgen["ignored"])

        text = ask(problems[0], seed=1, temperature=0, stop="\n").choices[0]
        kept = ask(problems[0], seed=1, temperature=0, stop="\n", extra_body={"include_stop_str_in_output": True}).choices[0]
        assert kept.message.content == text.message.content + "\n" and text.finish_reason == "stop"
        say("stop", repr(text.message.content), "then", repr(kept.message.content))


main(*sys.argv[1:])
