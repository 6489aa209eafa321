"""Opens the bundled checkpoints in Python `transformers` and compares with beamgen's own output.

    python3 -m venv hf && hf/bin/pip install torch transformers safetensors
    cargo build --release
    hf/bin/python tests/transformers_check.py [--problems 50] [--models models/abacus]

Greedy text of the generator must be the same for every problem, and every PRM score (read here
from the hidden states by hand, the whole chain at once) must agree to 1e-3.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("--beamgen", default="target/release/beamgen")
ap.add_argument("--models", default="models/abacus", type=pathlib.Path)
ap.add_argument("--problems", default=50, type=int)
a = ap.parse_args()

sample = a.models / "sample.jsonl"
problems = [json.loads(line) for line in sample.read_text().splitlines()][: a.problems]
run = subprocess.run(
    [a.beamgen, "solve", sample, "--limit", str(a.problems), "--strategy", "greedy", "--json",
     "--generator", a.models / "generator", "--prm", a.models / "prm"],
    check=True, capture_output=True, text=True)
ours = [json.loads(line) for line in run.stdout.splitlines()][:-1]

tok = AutoTokenizer.from_pretrained(a.models / "generator")
generator = AutoModelForCausalLM.from_pretrained(a.models / "generator", dtype=torch.float32).eval()
body = AutoModel.from_pretrained(a.models / "prm", dtype=torch.float32).eval()
head = {k: v.float() for k, v in load_file(a.models / "prm" / "model.safetensors").items() if k.startswith("score.")}
newline = tok("\n", add_special_tokens=False).input_ids[-1]

same, worst, scores = 0, 0.0, 0
for problem, mine in zip(problems, ours, strict=True):
    prompt = tok.apply_chat_template(
        [{"role": "user", "content": problem["problem"]}], tokenize=False, add_generation_prompt=True)
    ids = tok(prompt, add_special_tokens=False, return_tensors="pt").input_ids
    text = "".join(step["text"] + "\n" for step in mine["steps"])
    with torch.no_grad():
        out = generator.generate(ids, max_new_tokens=400, do_sample=False)[0, ids.shape[1]:]
    theirs = tok.decode(out, skip_special_tokens=True)
    # a chain ends with its answer here; transformers goes on to the end token
    if theirs.strip() == text.strip():
        same += 1
    else:
        print(f"{problem['id']}: differs\n  ours   {text!r}\n  theirs {theirs!r}")
    whole = tok(prompt + text, add_special_tokens=False, return_tensors="pt").input_ids
    with torch.no_grad():
        hidden = body(whole).last_hidden_state[0]
    at = [i for i in range(ids.shape[1], whole.shape[1]) if whole[0, i] == newline]
    p = torch.sigmoid(hidden[at] @ head["score.weight"].T + head["score.bias"])[:, 0]
    assert len(p) == len(mine["steps"]), (len(p), mine)
    for x, step in zip(p.tolist(), mine["steps"]):
        worst, scores = max(worst, abs(x - step["score"])), scores + 1

print(f"greedy text equal on {same} of {len(problems)} problems; "
      f"{scores} PRM scores, largest difference {worst:.2e}")
sys.exit(0 if same == len(problems) and worst < 1e-3 else 1)
