"""lm-evaluation-harness against `beamgen serve`: the texts and the accuracy are those of `beamgen solve`.

    python tests/clients/harness.py target/release/beamgen
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from program import Program, Server, answer, say

# The harness reads these variables on import. The problems are a file in the working directory.
folder = tempfile.TemporaryDirectory()
os.environ |= {"HF_HOME": folder.name, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OPENAI_API_KEY": "none", "TQDM_DISABLE": "1"}
import lm_eval
from lm_eval.tasks import TaskManager

COUNT = 10
TASKS = str(Path(__file__).resolve().parent / "lm_eval")
# lm-eval sends this seed and temperature 0 with every request.
SEED = "1234"
OWN = {
    "single": ["--strategy", "best-of-n", "-n", "1", "-m", "1", "--temperature", "0"],
    "fast": ["--strategy", "beam", "-n", "4", "-m", "2"],
}
ROUTES = {"local-chat-completions": ("chat/completions", True), "local-completions": ("completions", False)}


def evaluate(client, model, url):
    """Runs the harness; returns its accuracy and the texts by the place of the problem."""
    route, is_chat = ROUTES[client]
    told = {"model": model, "base_url": f"{url}/v1/{route}", "num_concurrent": 4, "max_retries": 1}
    seen = lm_eval.simple_evaluate(
        model=client,
        model_args=told | {"tokenizer_backend": "none", "tokenized_requests": False},
        tasks=["beamgen_words"],
        task_manager=TaskManager(include_path=TASKS, include_defaults=False),
        apply_chat_template=is_chat,
        bootstrap_iters=0,
    )
    accuracy = seen["results"]["beamgen_words"]["exact_match,answer"]
    return accuracy, {sample["doc_id"]: sample["resps"][0][0] for sample in seen["samples"]["beamgen_words"]}


def main(binary):
    binary = str(Path(binary).resolve())
    program = Program(binary)
    problems = program.problems(COUNT, seed=3131)
    os.chdir(folder.name)
    Path("problems.jsonl").write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    with Server(binary) as server:
        seen = {}
        for model, flags in OWN.items():
            chains = [program.solve(problem["problem"], "--seed", SEED, *flags) for problem in problems]
            texts = ["\n".join(step["text"] for step in chain["steps"]) for chain in chains]
            own = sum(answer(text) == problem["answer"] for text, problem in zip(texts, problems)) / COUNT
            for client in ROUTES:
                accuracy, theirs = evaluate(client, model, server.url)
                assert [theirs[at].strip() for at in range(COUNT)] == texts, (theirs, texts)
                assert accuracy == own, (accuracy, own)
                say(client, model, f"accuracy {accuracy:.2f}; beamgen solve: {own:.2f}, the same texts")
            seen[model] = own
        assert seen["fast"] > seen["single"], seen


main(*sys.argv[1:])
