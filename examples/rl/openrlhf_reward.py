"""A reward function for OpenRLHF: `--remote_rm_url examples/rl/openrlhf_reward.py` beside `beamgen serve`.

The address itself does as well, for a server without a key:
`--remote_rm_url http://127.0.0.1:8080/get_reward?unscored=0`. Without `unscored`, a sample that cannot be
scored, such as an empty one, has no reward. BEAMGEN_URL and BEAMGEN_KEY name the server and its key.
"""

import json
import os
import urllib.request

URL = os.environ.get("BEAMGEN_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("BEAMGEN_KEY", "")


def reward_func(queries, prompts, labels):
    body = json.dumps({"query": queries, "prompts": prompts, "labels": labels}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(f"{URL}/get_reward?unscored=0", body, headers)
    with urllib.request.urlopen(request, timeout=600) as reply:
        scored = json.load(reply)
    steps = [float(len(steps or [])) for steps in scored["step_rewards"]]
    return {"rewards": scored["rewards"], "scores": scored["scores"], "extra_logs": {"steps": steps}}
