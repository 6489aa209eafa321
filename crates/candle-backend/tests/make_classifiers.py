"""Makes a tiny random sequence classifier of each family, and the scores that `transformers` gives to steps.

    python crates/candle-backend/tests/make_classifiers.py        (torch, transformers 5)
"""

import json
import pathlib
import shutil

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent / "classifiers"
CHAINS = [
    ("Mia has 34 pens and gives 5 away.", ["34 - 5 = 29\n", "The answer is 29.\n"]),
    ("12 * 3 = ?", ["12 times 3 is 36.\n", "So 37.\n", "The answer is 37."]),
    ("Was kostet ein Brötchen? 日本", ["Ein Brötchen kostet 2 €.\n"]),
]
COMMON = dict(
    vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
    max_position_embeddings=200,
)
# As in the published DeBERTa-v3, smaller.
DEBERTA = dict(
    COMMON, relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True,
    pos_att_type="p2c|c2p", position_biased_input=False, type_vocab_size=0, max_relative_positions=-1,
)
# Behind a dash stands what is not the family's default.
FAMILIES = {
    "deberta-v2": dict(DEBERTA, num_labels=2),
    "deberta-v2-logit": dict(DEBERTA, num_labels=1, type_vocab_size=2),
    "modernbert": dict(COMMON, num_labels=2, local_attention=16, global_attn_every_n_layers=2),
    "modernbert-mean": dict(COMMON, num_labels=2, classifier_pooling="mean", local_attention=16),
    "xlm-roberta": dict(COMMON, num_labels=2, type_vocab_size=1, max_position_embeddings=202),
    "xlm-roberta-logit": dict(COMMON, num_labels=1, type_vocab_size=1, max_position_embeddings=202),
}


def tokenizer(family):
    """A Unigram trainer does not find the same vocabulary each time, so a fixture's tokenizer changes with its scores."""
    texts = [problem + "\n" + "".join(steps) for problem, steps in CHAINS] * 3
    if family == "modernbert":
        special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=310, special_tokens=special, initial_alphabet=sorted(alphabet))
        pair, single = "[CLS] $A [SEP] $B:1 [SEP]:1", "[CLS] $A [SEP]"
    else:
        xlm = family == "xlm-roberta"
        special = ["<s>", "<pad>", "</s>", "<unk>"] if xlm else ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
        made = Tokenizer(models.Unigram())
        made.normalizer = normalizers.NFKC()
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token=special[3])
        pair = "<s> $A </s> </s> $B </s>" if xlm else "[CLS] $A [SEP] $B:1 [SEP]:1"
        single = "<s> $A </s>" if xlm else "[CLS] $A [SEP]"
    made.train_from_iterator(texts, trainer)
    ids = [(token, made.token_to_id(token)) for token in special]
    made.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)
    names = {"<pad>": "pad_token", "[PAD]": "pad_token", "<unk>": "unk_token", "[UNK]": "unk_token"}
    named = {names[token]: token for token in special if token in names}
    return PreTrainedTokenizerFast(tokenizer_object=made, **named)


def make(name, settings):
    torch.manual_seed(sum(map(ord, name)))
    family = next(f for f in ["deberta-v2", "modernbert", "xlm-roberta"] if name.startswith(f))
    tokens = tokenizer(family)
    special = dict(pad_token_id=tokens.pad_token_id, bos_token_id=None, eos_token_id=None)
    if family == "modernbert":
        special |= dict(cls_token_id=None, sep_token_id=None)
    config = AutoConfig.for_model(family, **settings, **special)
    if config.num_labels == 2:
        config.id2label, config.label2id = {0: "wrong", 1: "right"}, {"wrong": 0, "right": 1}
    net = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for key, tensor in net.named_parameters():
            if tensor.dim() == 1:
                tensor.copy_((0 if key.endswith("bias") else tensor) + 0.2 * torch.randn_like(tensor))
            else:
                # Larger than a trained model's, so that attention is far from uniform.
                tensor.copy_(0.2 * torch.randn_like(tensor))
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    net.to(torch.bfloat16).save_pretrained(folder)
    tokens.save_pretrained(folder)
    net = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    chains = []
    for problem, steps in CHAINS:
        scores, lengths = [], []
        for end in range(1, len(steps) + 1):
            # As the tokenizers of these families do.
            types = family == "deberta-v2"
            both = tokens(problem, "".join(steps[:end]).rstrip(), return_tensors="pt", return_token_type_ids=types)
            with torch.no_grad():
                logits = net(**both).logits[0].double()
            score = logits.softmax(0)[1] if len(logits) == 2 else logits.sigmoid()[0]
            scores.append(round(score.item(), 7))
            lengths.append(both["input_ids"].shape[1])
        chains.append({"problem": problem, "steps": steps, "scores": scores, "tokens": lengths})
    (folder / "scores.json").write_text(json.dumps(chains, ensure_ascii=False) + "\n")
    print(name, [chain["scores"] for chain in chains], sum(p.numel() for p in net.parameters()))


if __name__ == "__main__":
    for name, settings in FAMILIES.items():
        make(name, settings)
