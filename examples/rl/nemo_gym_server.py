"""A resources server for NeMo Gym with `/reset` and `/step`, as its GymnasiumServer has them: the reward of
a turn is the score of beamgen's reward model.

`python3 examples/rl/nemo_gym_server.py 8100` beside `beamgen serve`. BEAMGEN_URL and BEAMGEN_KEY name the
server and its key.
"""

import json
import os
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

URL = os.environ.get("BEAMGEN_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("BEAMGEN_KEY", "")


def text(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def step(body):
    """Scores the assistant's messages of a response, after the turns that it answers."""
    asked = body["responses_create_params"]["input"]
    turns = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    turns = [{"role": turn["role"], "content": text(turn["content"])} for turn in turns]
    output = [item for item in body["response"]["output"] if item["type"] == "message"]
    turns.append({"role": "assistant", "content": "".join(text(item["content"]) for item in output)})
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    chains = json.dumps({"chains": [{"messages": turns}]}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{URL}/v1/score", chains, headers)) as reply:
        scored = json.load(reply)["data"][0]
    return {"observation": None, "reward": scored.get("score", 0.0), "terminated": True, "truncated": False, "info": scored}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = json.dumps(step(body) if self.path == "/step" else {"observation": None, "info": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(reply)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
