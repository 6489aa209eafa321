"""TRL itself reads what `beamgen labels convert --to trl` writes, and trains on it. Run by hand:

    python3 -m venv trl && trl/bin/pip install "trl==0.29.1" datasets torch    # 1.16 has no PRM trainer any more
    beamgen labels convert LABELS --to trl --out trl.jsonl
    trl/bin/python tests/trl_check.py trl.jsonl
"""

import os
import pathlib
import sys
import tempfile

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from datasets import load_dataset
from transformers import AutoModelForTokenClassification, AutoTokenizer
from trl.experimental.prm import PRMConfig, PRMTrainer

FOLDER = pathlib.Path(__file__).parent / "fixtures/prm/trl-token-classification"


def main(path):
    data = load_dataset("json", data_files=path, split="train")
    print(f"{len(data)} chains, {sum(map(len, data['labels']))} labels")
    model = AutoModelForTokenClassification.from_pretrained(FOLDER, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    with tempfile.TemporaryDirectory() as out:
        config = PRMConfig(output_dir=out, max_steps=3, per_device_train_batch_size=4, max_length=512, use_cpu=True,
                           report_to=[], logging_steps=1)
        some = data.select(range(min(64, len(data))))
        trainer = PRMTrainer(model=model, args=config, train_dataset=some, processing_class=tokenizer)
        for row, chain in zip(trainer.train_dataset, some):
            read = [label for label in row["labels"] if label != -100]
            assert read == [int(label) for label in chain["labels"][:len(read)]], chain
            # TRL cuts at max_length; nothing else may be lost.
            assert len(read) == len(chain["labels"]) or len(row["input_ids"]) >= 511, chain
        print(trainer.train())


main(sys.argv[1])
