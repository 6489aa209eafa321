"""A reward function for verl: the score of beamgen's reward model for each sample.

Set `reward.custom_reward_function.path=examples/rl/verl_reward.py` and start `beamgen serve`. The problem is
`extra_info["question"]` of the data set. BEAMGEN_URL and BEAMGEN_KEY name the server and its key.
"""

import asyncio
import json
import os
import urllib.request

URL = os.environ.get("BEAMGEN_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("BEAMGEN_KEY", "")


def score(chain):
    body = json.dumps({"chains": [chain]}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(f"{URL}/v1/score", body, headers)
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)["data"][0]


async def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    """Returns the lowest score of a step; 0 for a response that cannot be scored, such as an empty one."""
    chain = {"problem": extra_info["question"], "response": solution_str}
    scored = await asyncio.to_thread(score, chain)
    if "error" in scored:
        return {"score": 0.0, "steps": 0, "weakest": -1}
    steps = scored["scores"]
    return {"score": scored["score"], "steps": len(steps), "weakest": steps.index(min(steps))}
