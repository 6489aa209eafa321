"""The first minutes on a card: what it is, what it makes of the modules, every test in a process of its own."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import probe
from narrow import Failed, narrow
from programs import ROOT
from report import objects, run

HERE = Path(__file__).parent
DRIVER = [sys.executable, str(HERE / "driver.py")]
# Seconds that are kept for what has failed.
KEPT = 90


def first(report, world):
    failed = []
    for part in [part for part in (facts, modules, tests, ptx, scored, solved) if part.__name__ in world.parts]:
        failed += report.attempt(part, world) or []
    for one in failed[: world.narrowed]:
        report.attempt(narrow, world.programs, world.narrow_limit, one)
    for one in failed[world.narrowed :]:
        report.add("narrow", one.what, "left out", f"{world.narrowed} others are narrowed down")
    report.attempt(sums, world)


def facts(report, world):
    ran = run([*DRIVER, "facts"], world.programs.card(), 30)
    report.add("facts", "card", ran.result, ran.says(), ran.seconds)
    if ran.result == "ok":
        report.head["card"] = objects(ran.output)[-1]
    smi = ["nvidia-smi", "--query-gpu=name,uuid,pci.bus_id,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit", "--format=csv,noheader"]
    try:
        ran = run(smi, os.environ, 20)
        report.add("facts", "nvidia-smi", ran.result, ran.says(), ran.seconds)
    except FileNotFoundError:
        report.add("facts", "nvidia-smi", "left out", "there is no nvidia-smi")


def modules(report, world):
    """Load times, registers and occupancy: of the cubins for this card, and of the PTX that the driver compiles."""
    rows = {}
    for kind, folder in world.images(report.head.get("card", {})):
        if not report.has_time("modules", kind, 10):
            continue
        ran = run([*DRIVER, "modules", folder], world.programs.card(CUDA_CACHE_DISABLE="1"), 60)
        if ran.result != "ok":
            report.add("modules", kind, ran.result, ran.says(), ran.seconds)
            continue
        loaded = objects(ran.output)[-1]
        each = ", ".join(f"{name} {1e3 * module['seconds']:.0f} ms" for name, module in loaded.items())
        report.add("modules", kind, "ok", each, ran.seconds)
        for module in loaded.values():
            for name, says in module["kernels"].items():
                rows.setdefault(name, {})[kind] = says
    head = ["kernel", "image", "registers", "local bytes", "shared bytes", "threads", "blocks of a multiprocessor"]
    keys = ["registers", "local_bytes", "shared_bytes", "threads", "blocks_of_multiprocessor"]
    report.table("kernels", head, [[name, kind, *["-" if says.get(key) is None else says[key] for key in keys]] for name, kinds in rows.items() for kind, says in kinds.items()])


def tests(report, world):
    """Each Rust test in a process of its own. Returns those that failed."""
    todo = []
    for program in world.tests:
        command = [world.programs[program]]
        listed = run([*command, "--list", "--format", "terse"], world.programs.card(), 20)
        names = [line.removesuffix(": test") for line in listed.output.splitlines() if line.endswith(": test")]
        names = [name for name in names if world.wants(program, name)]
        if not names:
            report.add("tests", program, "fails", f"no tests are listed: {listed.says()}")
        todo += [(f"{program} {name}", [*command, "--exact", name, "--nocapture", "--test-threads", "1"]) for name in names]

    def one(test):
        what, command = test
        limit = min(world.test_limit, report.left() - KEPT)
        ran = run(command, world.programs.card(), limit) if limit > 2 or limit == world.test_limit else None
        cut_off = ran and ran.result == "hangs" and limit < world.test_limit
        return what, command, None if cut_off else ran

    failed = []
    with ThreadPoolExecutor(world.at_once) as pool:
        for what, command, ran in pool.map(one, todo):
            if ran is None:
                report.add("tests", what, "left out", "no time is left")
                continue
            report.add("tests", what, ran.result, "" if ran.result == "ok" else ran.says(), ran.seconds)
            if ran.result != "ok":
                failed.append(Failed(what, command, ran))
    return failed


def ptx(report, world):
    """The kernels against references in float64, at real sizes: the images on the card, or the PTX interpreted."""
    cases = []
    for kind, folder, chosen in world.ptx_runs(report.head.get("card", {})):
        if report.has_time("ptx", kind, KEPT + 15):
            cases += ptx_of(report, world, kind, [*world.ptx, chosen, "--ptx", folder], min(world.ptx_limit, report.left() - KEPT))
    worst = {}
    for case in cases:
        share = case["error"] / case["bound"] if case["bound"] else 0.0
        worst[case["kernel"]] = max(worst.get(case["kernel"], 0.0), share)
    rows = [[kernel, sum(case["kernel"] == kernel for case in cases), share] for kernel, share in worst.items()]
    report.table("largest error of the PTX tests, as a part of the bound", ["kernel", "cases", "error / bound"], sorted(rows, key=lambda row: -row[2]))


def ptx_of(report, world, kind, arguments, limit):
    """Rows for the cases of an image that are wrong, and one for all. Returns the cases."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "ptx.json"
        ran = run([sys.executable, ROOT / "tests/ptx/run.py", *arguments, "--json", file], world.programs.card(), limit)
        cases = json.loads(file.read_text()) if file.exists() else []
    wrong = [case for case in cases if not case["ok"]]
    for case in wrong:
        place = case["first_wrong"]
        where = f"row {place['row']}, column {place['column']}: {place['got']:.6g}, wanted {place['wanted']:.6g}: " if place else ""
        report.add("ptx", f"{kind}, {case['case']}", "differs", f"{case['kernel']}: {where}{case['message']}", case["seconds"], kernel=case["kernel"], first=place)
    result = "ok" if ran.result == "ok" and cases else "fails" if wrong or ran.result == "ok" else ran.result
    says = f"{len(cases)} cases, {len(wrong)} wrong" + ("" if cases and (result == "ok" or wrong) else f", then {ran.says()}")
    report.add("ptx", kind, result, says, ran.seconds)
    return cases


EXACT = ["--dtype", "f32", "--kv-dtype", "f32"]
ON_CARD = ["--device", "cuda", "--kv-memory", "64MiB"]


def scored(report, world):
    """The bundled PRM on both devices: with the kernels for any shape (float32) and with those for tensor cores. Returns what
    failed."""
    failed = []
    beamgen, chains = world.programs["beamgen"], world.scratch / "chains.jsonl"
    made = run([beamgen, "problems", "--steps", "--count", str(world.chains), "--seed", "9"], os.environ, 60)
    chains.write_text(made.output)
    cpu = run([beamgen, "score", chains, *EXACT, "--device", "cpu"], os.environ, 60)
    for name, flags, most in [("float32", EXACT, 1e-4), ("bfloat16", ["--dtype", "bf16"], 3e-2), ("float16", ["--dtype", "f16"], 1e-2)]:
        what = f"scores, {name}"
        if not report.has_time("pair", what, 20):
            continue
        command = [beamgen, "score", chains, *ON_CARD]
        ran = run([*command, *flags], world.programs.card(), min(60, report.left()))
        result, says = ran.result, ran.says()
        if result == "ok":
            wanted, got = scores(cpu.output), scores(ran.output)
            largest = max((abs(a - b) for a, b in zip(wanted, got)), default=0)
            result = "ok" if len(wanted) == len(got) > 0 and largest <= most else "differs"
            says = f"{len(got)} of {len(wanted)} steps, largest difference {largest:.1e} of {most:.0e}"
        report.add("pair", what, result, says, ran.seconds)
        if result != "ok":
            failed.append(Failed(what, [*command, *flags], ran, [*command, *EXACT] if flags != EXACT else None))
    return failed


def solved(report, world):
    """A search of the bundled pair: in float32 the CPU's chains, nearly all of them. Returns what failed."""
    if not report.has_time("pair", "solve", 30):
        return []
    search = ["--limit", str(world.problems), "-n", str(world.width), "-m", "2", "--max-steps", "4", "--json", "--quiet"]
    command = [world.programs["beamgen"], "solve", "models/abacus/sample.jsonl", *search, *EXACT]
    cpu = run([*command, "--device", "cpu"], os.environ, 60)
    ran = run([*command, *ON_CARD], world.programs.card(), min(90, report.left()))
    result, says = ran.result, ran.says()
    if result == "ok":
        wanted, got = chains_of(cpu.output), chains_of(ran.output)
        same = sum(a == b for a, b in zip(wanted, got))
        # a draw may fall between two roundings of a sum
        result = "ok" if len(wanted) == len(got) > 0 and same >= 0.9 * len(wanted) else "differs"
        says = f"{same} of {len(wanted)} chains are the cpu's"
    report.add("pair", "solve", result, says, ran.seconds)
    return [] if result == "ok" else [Failed("solve", [*command, *ON_CARD], ran)]


def chains_of(output):
    return [[step["text"] for step in problem["steps"]] for problem in objects(output) if "steps" in problem]


def scores(output):
    return [score for chain in objects(output) for score in chain["scores"]]


def sums(report, world):
    """What the sums of the card's tensor cores are like, and whether wgmma's are the same."""
    if not report.has_time("sums", "mma.sync", 5):
        return
    a, b, c = probe.pack(np.random.default_rng(3))
    answer = world.multiply(a, b, c, report.head.get("card", {}))
    if isinstance(answer, str):
        report.add("sums", "mma.sync", "left out", answer)
        return
    d, wide = answer
    kind = probe.infer(d)
    says = f"{kind}, which gives {100 * probe.explained(kind, a, b, c, d):.1f} % of the results of random numbers bit for bit"
    for card, known in probe.INTERPRETED.items():
        says += f"; the interpreter's {card} {100 * probe.explained(known, a, b, c, d):.1f} %"
    report.add("sums", "mma.sync", "ok", says, sums=vars(kind))
    if np.isnan(wide).all():
        report.add("sums", "wgmma", "left out", "this card has none")
        return
    same = float(np.mean(wide.view(np.uint32) == d.view(np.uint32)))
    report.add("sums", "wgmma", "ok", f"{100 * same:.2f} % of its results have the bits of mma.sync's")
