#!/usr/bin/env python3
"""Compare beamgen's numbers with transformers' in bfloat16: how far apart they are, and how often they choose one token.

    cargo build --release -p beamgen-engine --example logits
    benches/peers/agree.py MODEL [MODEL ...] [--problems FILE] [--limit 20] [--new 64]

transformers in bfloat16 continues each prompt greedily; all others then read the same tokens. A row of the table is one
way to compute, compared with transformers in bfloat16 (on the same bfloat16 weights): the share of positions with the same
most probable token, the mean Kullback-Leibler divergence of the next token's distribution, and the mean and largest
difference of a log-probability (of the token that the reference chose). For a reward model (a token classifier) the last
two are those of the probability of "right". The rows of float32 are the yardstick: rounding itself makes that difference.

Needs torch, transformers and numpy.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification, AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("models", nargs="+", type=pathlib.Path, help="folders in Hugging Face layout")
ap.add_argument("--problems", type=pathlib.Path, default=ROOT / "benches/peers/problems.jsonl")
ap.add_argument("--limit", type=int, default=20)
ap.add_argument("--new", type=int, default=64, help="tokens that the reference appends to each prompt")
ap.add_argument("--logits", type=pathlib.Path, default=ROOT / "target/release/examples/logits")
a = ap.parse_args()


def prompts(folder, vocab):
    """The problems' texts as tokens; tokens by number for a model without a tokenizer."""
    texts = [json.loads(line) for line in a.problems.read_text().splitlines()[:a.limit]]
    texts = [next(row[key] for key in ("problem", "question", "prompt") if key in row) for row in texts]
    if (folder / "tokenizer.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return [tokenizer(text)["input_ids"] for text in texts]
    return [[(31 * i + 7 * at) % vocab for at in range(40)] for i, _ in enumerate(texts)]


def log_softmax(rows):
    rows = rows.astype(np.float64)
    rows -= rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def theirs(model, sequences):
    with torch.no_grad():
        return [model(torch.tensor([ids])).logits[0].float().numpy() for ids in sequences]


def ours(folder, dtype, compute, sequences, width, *output):
    with tempfile.TemporaryDirectory() as place:
        ids, out = pathlib.Path(place) / "ids.jsonl", pathlib.Path(place) / "out.f32"
        ids.write_text("".join(json.dumps(line) + "\n" for line in sequences))
        subprocess.run([a.logits, folder, dtype, compute, ids, out, *output], check=True)
        rows = np.fromfile(out, dtype="<f4").reshape(-1, width)
    return np.split(rows, np.cumsum([len(line) for line in sequences])[:-1])


def compare(name, rows, reference):
    """Every position counts once."""
    rows, reference = log_softmax(np.concatenate(rows)), log_softmax(np.concatenate(reference))
    same = (rows.argmax(-1) == reference.argmax(-1)).mean()
    divergence = (np.exp(reference) * (reference - rows)).sum(-1).mean()
    if rows.shape[-1] == 2:
        apart = np.abs(np.exp(rows[:, 1]) - np.exp(reference[:, 1]))
    else:
        at = reference.argmax(-1)[:, None]
        apart = np.abs(np.take_along_axis(rows, at, -1) - np.take_along_axis(reference, at, -1))
    print(f"| {name} | {100 * same:.2f} % | {divergence:.2e} | {apart.mean():.4f} | {apart.max():.4f} |")


for folder in a.models:
    config = AutoConfig.from_pretrained(folder)
    classifier = "TokenClassification" in config.architectures[0]
    load = AutoModelForTokenClassification if classifier else AutoModelForCausalLM
    low = load.from_pretrained(folder, dtype=torch.bfloat16).eval()
    sequences = prompts(folder, config.vocab_size)
    if not classifier:
        longer = []
        for ids in sequences:
            given = torch.tensor([ids])
            longer.append(low.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=a.new,
                                       do_sample=False, pad_token_id=0)[0].tolist())
        sequences = longer
    # The weights of `low` are rounded, so float32 arithmetic on them is the exact result.
    high = load.from_pretrained(folder, dtype=torch.bfloat16).float().eval()
    reference = theirs(low, sequences)

    def own(dtype, compute):
        if not classifier:
            return ours(folder, dtype, compute, sequences, config.vocab_size)
        score = high.score
        weight, bias = score.weight.detach().numpy(), score.bias.detach().numpy()
        hidden = ours(folder, dtype, compute, sequences, config.hidden_size, "hidden")
        return [rows @ weight.T + bias for rows in hidden]

    print(f"\n{folder.name}: {len(sequences)} sequences, {sum(map(len, sequences))} positions, against transformers in bfloat16\n")
    print("| computed by | same token | divergence | mean apart | most apart |\n| --- | ---: | ---: | ---: | ---: |")
    compare("transformers, float32", theirs(high, sequences), reference)
    compare("beamgen, --dtype bf16", own("bf16", "f32"), reference)
    compare("beamgen, --dtype bf16 --compute bf16", own("bf16", "bf16"), reference)
