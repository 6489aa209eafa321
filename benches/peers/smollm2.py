#!/usr/bin/env python3
"""The real SmolLM2-135M-Instruct in the forms that the comparison needs, from its one GGUF file.

    smollm2.py FOLDER_WITH_GGUF OUT

OUT/smollm2-f32    Hugging Face folder, weights dequantised to float32
OUT/smollm2-prm    the same body with a random two-class head (a token classifier): right for time, not for judging

Needs torch, transformers, gguf, accelerate. The GGUF of the dequantised weights is then made by the peers' to_gguf.py.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
file = "SmolLM2-135M-Instruct.Q4_1.gguf"
tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
read = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
# What was read counts as quantised and would not be written; its weights are plain float32.
read.config.__dict__.pop("quantization_config", None)
model = LlamaForCausalLM(read.config).float()
model.load_state_dict(read.state_dict())

gen, prm = out / "smollm2-f32", out / "smollm2-prm"
for folder in gen, prm:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)

weights = load_file(prm / "model.safetensors")
weights.pop("lm_head.weight", None)
weights["score.weight"] = torch.randn(2, model.config.hidden_size, generator=torch.Generator().manual_seed(1)) * 0.02
weights["score.bias"] = torch.zeros(2)
save_file(weights, prm / "model.safetensors", metadata={"format": "pt"})
config = json.loads((prm / "config.json").read_text())
config["architectures"] = ["LlamaForTokenClassification"]
config["id2label"] = {"0": "wrong", "1": "right"}
(prm / "config.json").write_text(json.dumps(config, indent=2))
(prm / "prm.toml").write_text('''normaliser = { softmax = 1 }

[prompt]
system = 'Please reason step by step, and put your final answer within \\boxed{}.'

[step]
text = "{{ step }}<|endoftext|>"
tag = "<|endoftext|>"

[[head.linear]]
weight = "score.weight"
bias = "score.bias"
''')
