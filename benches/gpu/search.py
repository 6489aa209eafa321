"""Searches with random models of real sizes, beside transformers doing search-and-learn's procedure; seconds of each part."""

import json
import os
import re
import sys
from pathlib import Path

from report import objects, run

HERE = Path(__file__).parent
SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
STEPS, STEP_TOKENS, WIDTH = 6, 24, 4
HEAD = ["who", "search", "n", "prm", "s a problem", "generator", "prm s", "host", "of it launches", "copies", "waiting", "tokens/s"]


def search(report, world):
    rows = []
    for prm in ("1.5b", "7b"):
        generator, reward = (report.attempt(checkpoint, world, size, kind) for size, kind in [("1.5b", "gen"), (prm, "prm-mlp")])
        if generator is None or reward is None:
            continue
        for n, mode in [(n, mode) for n in world.counts[prm] for mode in ("beam", "bon")]:
            models = (generator, reward, prm)
            rows.append(report.attempt(ours, world, models, n, mode))
            if prm == "1.5b" and n <= 64:
                rows.append(report.attempt(theirs, world, models, n, mode))
    report.table("a problem's seconds", HEAD, [row for row in rows if row])


def problems(n):
    return 2 if n <= 64 else 1


def ours(report, world, models, n, mode):
    """A row of our search. Chains of random models never end by themselves, and best-of-N scores no chain that has not ended, so
    its chains are scored by `beamgen score`."""
    generator, reward, prm = models
    what = f"beamgen, {mode}, n {n}, PRM {prm}"
    if not report.has_time("search", what, 30):
        return None
    clock, run_file, count = world.scratch / "clock.json", world.scratch / "run.jsonl", problems(n)
    for file in (clock, run_file):
        file.unlink(missing_ok=True)
    on_card = ["--device", "cuda", *world.search_flags]
    command = [world.programs["beamgen"], "solve", world.problem_file, "--generator", generator, "--prm", reward,
               "--config", "configs/search/fixed-length.toml", "--strategy", "best-of-n" if mode == "bon" else "beam", "-n", str(n), "-m", str(WIDTH),
               "--max-steps", str(STEPS), "--set", f"generator.step_tokens={STEP_TOKENS}", "--temperature", "0.8",
               "--set", f"generator.system_prompt={SYSTEM}", "--in-flight", "1", "--limit", str(count), "--json", "--quiet",
               "--out", run_file, "--tree", *on_card]  # fmt: skip
    ran = run(command, world.programs.card(traced=True, TRACE_CLOCK=str(clock)), min(120, report.left() - 5))
    summary = next((row["summary"] for row in objects(ran.output) if "summary" in row), None)
    if ran.result != "ok" or summary is None:
        report.add("search", what, ran.result if ran.result != "ok" else "fails", ran.says(), ran.seconds)
        return None
    host, ledger, took = json.loads(clock.read_text()), summary["ledger"], ran.seconds
    whole, made, scored = (ledger[key] / count for key in ("seconds", "generate_seconds", "score_seconds"))
    rest = whole - made - scored
    if mode == "bon":
        chains = world.scratch / "searched.jsonl"
        chains.write_text("".join(json.dumps(chain) + "\n" for chain in grown(run_file.read_text())))
        ran = run([world.programs["beamgen"], "score", chains, "--prm", reward, *on_card], world.programs.card(), min(90, report.left() - 5))
        found = re.search(r"chains scored in ([\d.]+) s", ran.output)
        if not found:
            report.add("search", f"{what}, its scores", ran.result if ran.result != "ok" else "fails", ran.says(), ran.seconds)
            return None
        scored, took = scored + float(found[1]) / count, took + ran.seconds
        whole = made + scored + rest
    report.add("search", what, "ok", f"{whole:.2f} s a problem", took, ledger=ledger, host=host)
    parts = [host[f"{part}_seconds"] / count for part in ("launch", "copy", "wait")]
    return ["beamgen", mode, n, prm, whole, made, scored, rest, *parts, ledger["generated_tokens"] / count / whole]


def grown(run_file):
    """All chains of the trees in a run file."""
    for problem in objects(run_file):
        nodes = problem.get("tree", [])
        for leaf in (node for node in nodes if not node["children"]):
            texts = []
            while leaf["parent"] is not None:
                texts.insert(0, leaf["text"])
                leaf = nodes[leaf["parent"]]
            if steps := [text for text in texts if text.strip()]:
                yield {"problem": problem["problem"], "steps": steps}


def theirs(report, world, models, n, mode):
    generator, reward, prm = models
    what = f"transformers, {mode}, n {n}, PRM {prm}"
    if not report.has_time("search", what, 45):
        return None
    command = [sys.executable, world.peers, "sal_pipeline", "--gen", generator, "--prm", reward, "--mode", mode, "--n", str(n), "--beam-width", str(WIDTH),
               "--max-steps", str(STEPS), "--step-tokens", str(STEP_TOKENS), "--problems", "benches/peers/problems.jsonl", "--limit", "1", "--dtype", "bf16"]  # fmt: skip
    ran = run(command, {**os.environ, "BIN": str(world.programs.bin)}, min(150, report.left() - 5))
    told = next((row for row in objects(ran.output) if "seconds_per_problem" in row), None)
    if ran.result != "ok" or told is None:
        report.add("search", what, ran.result if ran.result != "ok" else "fails", ran.says(), ran.seconds)
        return None
    whole = told["seconds_per_problem"]
    report.add("search", what, "ok", f"{whole:.2f} s a problem", ran.seconds, told=told)
    return ["transformers", mode, n, prm, whole, told["gen_seconds"], told["prm_seconds"], told["other_seconds"], "-", "-", "-", told["generated_tokens_per_s"]]


def checkpoint(report, world, size, kind):
    """The folder of a random checkpoint, made on the card; None, with a row, if it cannot be made."""
    folder = world.scratch / f"qwen{size}-qwen2-{kind}"
    if (folder / "config.json").exists():
        return folder
    what = f"{size} {kind}"
    if not report.has_time("models", what, 60 if size == "7b" else 25):
        return None
    command = [sys.executable, world.peers, "make_models", "--preset", f"qwen{size}", "--kind", kind, "--dtype", "bf16", "--out", world.scratch]
    ran = run(command, {**os.environ, "BIN": str(world.programs.bin)}, min(150, report.left() - 5))
    report.add("models", what, ran.result, ran.says(), ran.seconds)
    return folder if ran.result == "ok" else None
