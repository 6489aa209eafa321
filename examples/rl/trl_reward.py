"""A reward function for TRL: `GRPOTrainer(reward_funcs=reward_func, ...)` beside `beamgen serve`.

Prompts and completions are texts or chats. BEAMGEN_URL and BEAMGEN_KEY name the server and its key.
"""

import json
import os
import urllib.request

URL = os.environ.get("BEAMGEN_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("BEAMGEN_KEY", "")


def reward_func(prompts, completions, **_):
    """Returns the lowest score of a step for each completion; None for one that cannot be scored."""
    chains = [chain(prompt, completion) for prompt, completion in zip(prompts, completions)]
    body = json.dumps({"chains": chains}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(f"{URL}/v1/score", body, headers)
    with urllib.request.urlopen(request, timeout=600) as reply:
        return [scored.get("score") for scored in json.load(reply)["data"]]


def chain(prompt, completion):
    if isinstance(completion, str):
        return {"problem": prompt, "response": completion}
    return {"messages": [*prompt, *completion]}
