"""The request code of OpenRLHF, slime and verl, taken out of their sources and run against a server.

    python trainers.py http://127.0.0.1:8080 FOLDER

FOLDER has OpenRLHF's `openrlhf/utils/agent.py` as agent.py, slime's `slime/rollout/rm_hub/__init__.py`
as rm_hub.py, and verl's `verl/experimental/reward_loop/reward_loop.py` as reward_loop.py. Only the
functions that send requests are run, unchanged: their modules import torch, ray and vLLM. Needs aiohttp.
"""

import ast
import asyncio
import json
import logging
import math
import pathlib
import random
import struct
import sys
import types
import urllib.request

import aiohttp

URL, FOLDER = sys.argv[1].rstrip("/"), pathlib.Path(sys.argv[2])
PROBLEM = (
    "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. "
    "How many pens does Kim have?"
)
RESPONSES = [
    "Mia has 34 pens: 34.\nLeo has 8 more pens than Mia: 34 + 8 = 42.\nKim has half as many pens as Leo: 42 / 2 = 21.\nThe answer is 21.",
    "Mia has 34 pens: 34.\nLeo has 8 more pens than Mia: 34 + 8 = 43.\nKim has half as many pens as Leo: 43 / 2 = 21.\nThe answer is 21.",
    "The answer is 26.",
]
PROMPT = f"<|im_start|>user\n{PROBLEM}<|im_end|>\n<|im_start|>assistant\n"


def functions(file, names):
    """Returns the named functions and methods of a source file, without running the rest of it."""
    tree = ast.parse((FOLDER / file).read_text())
    found = [node for node in ast.walk(tree) if getattr(node, "name", None) in names]
    for node in found:
        node.decorator_list = []
    future = ast.parse("from __future__ import annotations").body
    module = ast.fix_missing_locations(ast.Module(future + found, []))
    space = {
        "asyncio": asyncio, "aiohttp": aiohttp, "random": random, "json": json,
        "logger": logging.getLogger(file), "_shared_session": None,
    }
    exec(compile(module, file, "exec"), space)
    return [space[name] for name in names]


def post(path, body):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))


async def openrlhf():
    (fetch,) = functions("agent.py", ["_fetch_rewards_via_http"])
    # Two addresses: the client cuts its list into shards.
    executor = types.SimpleNamespace(reward_endpoints=[f"{URL}/get_reward"] * 2)
    queries = [f"{PROMPT}{response}<|im_end|>\n" for response in RESPONSES]
    replies = await fetch(executor, queries, [PROMPT] * 3, [PROBLEM] * 3)
    return [reward for reply in replies for reward in reply["rewards"]]


async def slime():
    remote, session = functions("rm_hub.py", ["remote_rm", "_get_shared_session"])
    arguments = types.SimpleNamespace(rm_url=f"{URL}/get_reward")
    samples = [types.SimpleNamespace(prompt=PROMPT, response=text, label="42") for text in RESPONSES]
    rewards = await asyncio.gather(*(remote(arguments, sample) for sample in samples))
    await session().close()
    return rewards


class Numbers(list):
    """A row of a tensor: a list with `shape`, `sum` and slices."""

    @property
    def shape(self):
        return (len(self),)

    def sum(self):
        return sum(self)

    def __getitem__(self, at):
        found = super().__getitem__(at)
        return Numbers(found) if isinstance(at, slice) else found


class Batch(types.SimpleNamespace):
    """A batch of one sample, in the form of verl's DataProto."""

    def __len__(self):
        return 1

    def __getitem__(self, _):
        return self


class Characters:
    """A tokenizer of characters with the chat template of Qwen's models."""

    bos_token, eos_token = None, "<|im_end|>"

    def decode(self, ids):
        return "".join(map(chr, ids))

    def apply_chat_template(self, chat, **_):
        return "".join(f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in chat)


async def verl(engine):
    names = ["compute_score_disrm", "_preprocess_reward_inputs", "_post_request"]
    score, prepare, send = functions("reward_loop.py", names)
    model = types.SimpleNamespace(rollout=types.SimpleNamespace(name=engine), model=types.SimpleNamespace(path="rm"))
    worker = types.SimpleNamespace(
        config=types.SimpleNamespace(reward_model=model),
        input_tokenizer=Characters(),
        reward_model_tokenizer=Characters(),
        reward_router_address=URL.removeprefix("http://"),
    )
    worker._preprocess_reward_inputs = lambda data: prepare(worker, data)
    worker._post_request = lambda payload, endpoint: send(worker, payload, endpoint)
    rewards = []
    for response in RESPONSES:
        ids = Numbers(map(ord, response + "<|im_end|>"))
        data = Batch(
            batch={"responses": ids, "attention_mask": Numbers([1] * len(ids))},
            non_tensor_batch={"raw_prompt": [{"role": "user", "content": PROBLEM}]},
        )
        rewards.append((await score(worker, data))["reward_score"])
    return rewards


def bits(numbers):
    return [struct.pack("<f", number) for number in numbers]


chains = [{"problem": PROBLEM, "response": response} for response in RESPONSES]
wanted = [chain["score"] for chain in post("/v1/score", {"chains": chains})["data"]]
print("/v1/score", wanted)
for name, client in {"OpenRLHF": openrlhf, "slime": slime, "verl, SGLang": lambda: verl("sglang")}.items():
    rewards = asyncio.run(client())
    assert bits(rewards) == bits(wanted), (name, rewards)
    print(name, "the same bits")
# verl asks vLLM for values without an activation: the logits of both classes, of which the first is 0.
for logit, score in zip(asyncio.run(verl("vllm")), wanted, strict=True):
    odds = math.log(score / (1 - score))
    assert abs(logit - odds) < 1e-5 * abs(odds), (logit, odds)
print("verl, vLLM the log-odds of the scores")
