"""Scores of a folder that `beamgen train prm` wrote, by `transformers` and by beamgen. Run by hand:

    hf/bin/python tests/reward_check.py BEAMGEN FOLDER CHAINS      (torch, transformers 5)

FOLDER is a token classifier (the default --prm-format), CHAINS has `problem` and `steps` (texts) a line. The chain is
written as TRL's PRMTrainer writes it: prompt, then each step and the separator, tokenised piece by piece.
"""

import json
import subprocess
import sys

import torch
from transformers import AutoModelForTokenClassification, PreTrainedTokenizerFast


def main(beamgen, folder, chains):
    model = AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    out = subprocess.run([beamgen, "score", chains, "--prm", folder, "--dtype", "f32"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    ours = [json.loads(line)["scores"] for line in out.splitlines()]
    most, count = 0.0, 0
    for line, scores in zip(open(chains, encoding="utf-8"), ours):
        chain = json.loads(line)
        piece = lambda text: tokenizer(text, add_special_tokens=False).input_ids
        ids, read = piece((tokenizer.bos_token or "") + chain["problem"]), []
        for step in chain["steps"]:
            ids += piece(step) + piece("\n")
            read.append(len(ids) - 1)
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0, read].softmax(-1)[:, 1].tolist()
        assert len(theirs) == len(scores), chain
        most, count = max([most, *(abs(a - b) for a, b in zip(theirs, scores))]), count + len(read)
    print(f"{model.config.architectures}: {count} scores, the largest difference is {most:.1e}")
    assert most < 1e-4


main(*sys.argv[1:])
