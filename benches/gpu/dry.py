"""`run.sh --dry`: every branch of the stages without a card. The emulated driver is the card, PTX is interpreted, stand-ins fail
as tests can, and what the tables then say is checked. `run.sh STAGE --dry` runs one stage so, with the faults that
EMULATED_CUDA_WRONG and the like plant, and its status is the stage's."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import compare
import probe
import programs
import stage
from programs import ROOT, Programs, Stale
from stage import STAGES, World

# A test program: its tests hang, crash, or fail under some conditions only.
FAULTY = """#!/usr/bin/env python3
import os, signal, sys, time
from pathlib import Path
TESTS = ["hangs", "crashes", "fails", "fails_with_graphs", "fails_unless_blocking", "fails_once"]
if "--list" in sys.argv:
    print("".join(f"{name}: test\\n" for name in TESTS))
    sys.exit()
name = sys.argv[sys.argv.index("--exact") + 1]
once = Path(__file__).with_name("failed-once")
if name == "hangs":
    time.sleep(600)
if name == "crashes":
    os.kill(os.getpid(), signal.SIGSEGV)
fine = {"fails": False, "fails_with_graphs": os.environ.get("TRACE_GRAPHS") == "0",
        "fails_unless_blocking": os.environ.get("CUDA_LAUNCH_BLOCKING") == "1", "fails_once": once.exists()}[name]
if name == "fails_once":
    once.touch()
print("test result" if fine else "thread 'main' panicked at faulty.rs:1:1:\\nrow 3 is 1 instead of 2")
sys.exit(0 if fine else 101)
"""
# What the peers' scripts print, without torch.
PEER = """import json, pathlib, sys
name, arguments = sys.argv[1], sys.argv[2:]
if name == "make_models":
    value = lambda flag: arguments[arguments.index(flag) + 1]
    if "7b" in value("--preset"):
        sys.exit("torch.OutOfMemoryError: CUDA out of memory")
    folder = pathlib.Path(value("--out")) / f"{value('--preset')}-qwen2-{value('--kind')}"
    folder.symlink_to(pathlib.Path("models/abacus", "generator" if value("--kind") == "gen" else "prm").resolve())
    print(json.dumps({"dir": str(folder)}))
else:
    print(json.dumps({"tool": name, "seconds_per_problem": 2.0, "gen_seconds": 1.0, "prm_seconds": 0.9, "other_seconds": 0.1, "generated_tokens_per_s": 48.0}))
"""
SANITIZER = """#!/bin/sh
echo '========= Invalid __global__ write of size 4 bytes'
exit 9
"""
# The wrong kernel, and the tests of kernels that are run.
PLANTED = "rmsnorm_bf16"
QUICK = re.compile(r"silu::|rmsnorm::|rows::")


class DryWorld(World):
    at_once = 2
    test_limit = 30
    tests = ["test-kernels", "test-memory"]
    ptx = ["--only", "silu_mul", "--set"]
    ptx_folder = ROOT / "kernels/ptx"
    chains, problems, width = 1, 1, 2
    kernel_sizes = ["--dry"]
    decode_needs = {"1.5b": 1, "7b": 1}
    counts = {"1.5b": [4], "7b": [4]}
    problem_file = "models/abacus/sample.jsonl"
    search_flags = ["--kv-memory", "64MiB"]
    sums = probe.Sums(8, 2, "zero")
    has_wgmma = True

    def __init__(self, programs, scratch, every_test=False):
        super().__init__(programs, scratch)
        self.every_test = every_test
        if every_test:
            self.tests, self.test_limit, self.narrow_limit = World.tests, 90, 60
        self.peers = scratch / "peer.py"
        self.peers.write_text(PEER)

    def wants(self, program, test):
        return super().wants(program, test) and (self.every_test or program != "test-kernels" or QUICK.match(test) is not None)

    def ptx_runs(self, card):
        return [("ptx", self.ptx_folder, "quick")]

    def decoded(self, shape):
        return ["--model", "bundled", "--batch", "1,4", "--prefix", "16", "--new", "2", "--repeat", "1", "--kv-memory", "64MiB"]

    def multiply(self, a, b, c, card):
        d = probe.multiply(self.sums, a, b, c)
        return d, np.where(np.arange(8) == 0, np.nextafter(d, np.float32(9)), d) if self.has_wgmma else np.full_like(d, np.nan)


class FaultyWorld(DryWorld):
    test_limit = narrow_limit = 1
    tests = ["test-faulty"]
    parts = ["tests"]
    narrowed = 6
    has_wgmma = False

    def __init__(self, programs, scratch):
        super().__init__(programs, scratch)
        executable(programs["test-faulty"], FAULTY)
        programs["failed-once"].unlink(missing_ok=True)
        executable(scratch / "tools/compute-sanitizer", SANITIZER)


def executable(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Checks:
    """What is expected of a stage's table; all that is missing is told at the end."""

    def __init__(self):
        self.missing = []

    def stage(self, name, world, budget=None, status=0):
        """Runs a stage; returns its rows by part and what."""
        import report

        report.BEGAN = report.time.monotonic()
        print(f"\n=== {name}, {type(world).__name__}")
        found = stage.staged(name, world, budget or STAGES[name][1], world.scratch / "out")
        self.that(found == status, f"{name} ends with {found}, not {status}")
        self.written = json.loads((world.scratch / f"out/{name}.json").read_text())
        return {(row["part"], row["what"]): row for row in self.written["rows"]}

    def that(self, holds, what):
        if not holds:
            self.missing.append(what)

    def row(self, rows, part, what, result, *says):
        row = rows.get((part, what), {"result": "no such row", "says": ""})
        self.that(row["result"] == result, f"{part}, {what}: {row['result']}, not {result} ({row['says']})")
        for text in says:
            self.that(text in row["says"], f"{part}, {what}: {row['says']!r} lacks {text!r}")
        return row


def main(name, budget):
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        subprocess.run([ROOT / "benches/gpu/prepare.sh", "--into", scratch / "bin"], check=True)
        built = Programs(scratch / "bin", driver=scratch / "bin/emulated")
        if name:
            return stage.staged(name, DryWorld(built, scratch, every_test=True), budget or STAGES[name][1], os.environ.get("OUT", "/tmp/beamgen-gpu"))
        checks = Checks()
        for check in (sound, wrong, faulty, no_time, timed, searched, stale, kinds_of_sums):
            try:
                check(checks, built, fresh(scratch / check.__name__))
            except Exception as error:  # noqa: BLE001
                checks.that(False, f"{check.__name__}: {type(error).__name__}: {error}")
        print("\n=== " + ("all branches end as they should" if not checks.missing else "not as it should be:"))
        print("".join(f"{what}\n" for what in checks.missing), end="")
        return 1 if checks.missing else 0


def fresh(folder):
    folder.mkdir()
    return folder


def sound(checks, built, scratch):
    rows = checks.stage("first", DryWorld(built, scratch))
    checks.row(rows, "facts", "card", "ok", "Emulated CUDA device")
    checks.row(rows, "modules", "ptx", "ok", "linear ")
    checks.row(rows, "tests", "test-kernels silu::equals_the_reference", "ok")
    checks.row(rows, "tests", "test-memory passes_take_no_memory", "ok")
    checks.row(rows, "ptx", "ptx", "ok", " 0 wrong")
    checks.row(rows, "pair", "scores, float32", "ok", "largest difference")
    checks.row(rows, "pair", "scores, bfloat16", "ok")
    checks.row(rows, "pair", "solve", "ok", "1 of 1 chains are the cpu's")
    checks.row(rows, "sums", "mma.sync", "ok", str(DryWorld.sums), "100.0 %")
    checks.row(rows, "sums", "wgmma", "ok", "87.50 %")
    checks.that(not any(part == "narrow" for part, _ in rows), "something is narrowed down though nothing failed")


def wrong(checks, built, scratch):
    """Kernels that compute wrong numbers, one in the driver and one in its PTX: test, kernel and row are named."""
    world = DryWorld(built, scratch)
    world.ptx_folder, world.narrowed = planted(scratch / "ptx"), 4
    os.environ["EMULATED_CUDA_WRONG"] = PLANTED
    try:
        rows = checks.stage("first", world, status=1)
    finally:
        del os.environ["EMULATED_CUDA_WRONG"]
    test = "test-kernels rmsnorm::equals_the_reference"
    checks.row(rows, "tests", test, "fails", "rmsnorm.rs")
    checks.row(rows, "tests", "test-kernels silu::equals_the_reference", "ok")
    narrowed = checks.row(rows, "narrow", test, "differs", "again: fails", "without graphs: fails", "blocking launches: fails", f"{PLANTED}: row 0, column 0:")
    first = narrowed.get("first") or {}
    checks.that((first.get("kernel"), first.get("row")) == (PLANTED, 0), f"the first difference is {first}")
    checks.row(rows, "narrow", "scores, bfloat16", "differs", "the `any` kernels: fails", PLANTED)
    checks.row(rows, "narrow", "solve", "left out")
    checks.row(rows, "ptx", "ptx, silu_mul_f32", "differs", "silu_mul_f32: row 0, column ", ", wanted ")
    checks.row(rows, "ptx", "ptx", "fails", " wrong")


def planted(folder):
    """The PTX with another number than 1 in the gate."""
    shutil.copytree(ROOT / "kernels/ptx", folder)
    silu = folder / "silu.ptx"
    text = silu.read_text()
    assert "0f3F800000" in text
    silu.write_text(text.replace("0f3F800000", "0f3F900000"))
    return folder


def faulty(checks, built, scratch):
    """Tests that hang, crash and fail under some conditions."""
    world, path = FaultyWorld(built, scratch), os.environ["PATH"]
    os.environ["PATH"] = f"{scratch / 'tools'}:{path}"
    try:
        rows = checks.stage("first", world, status=1)
    finally:
        os.environ["PATH"] = path
    checks.row(rows, "tests", "test-faulty hangs", "hangs", "no end after 1 s")
    checks.row(rows, "tests", "test-faulty crashes", "crashes", "SIGSEGV")
    checks.row(rows, "tests", "test-faulty fails", "fails", "faulty.rs:1:1", "row 3 is 1 instead of 2")
    checks.row(rows, "narrow", "test-faulty hangs", "fails", "again: hangs")
    checks.row(rows, "narrow", "test-faulty fails", "fails", "compute-sanitizer: Invalid __global__ write", "nothing to compare")
    checks.row(rows, "narrow", "test-faulty fails_with_graphs", "fails", "again: fails", "without graphs: ok", "blocking launches: fails")
    checks.row(rows, "narrow", "test-faulty fails_unless_blocking", "fails", "without graphs: fails", "blocking launches: ok")
    checks.row(rows, "narrow", "test-faulty fails_once", "fails", "again: ok")
    checks.row(rows, "sums", "wgmma", "left out")


def no_time(checks, built, scratch):
    for name in STAGES:
        rows = checks.stage(name, DryWorld(built, scratch), budget=0.5)
        late = [row for row in rows.values() if row["part"] not in ("facts",)]
        checks.that(late and all(row["result"] == "left out" for row in late), f"{name} without time: {[row['result'] for row in late]}")


def timed(checks, built, scratch):
    rows = checks.stage("time", DryWorld(built, scratch))
    checks.row(rows, "kernels", "all", "ok", " times")
    checks.row(rows, "library", "product", "left out")
    checks.row(rows, "decode", "1.5b, 1 to 256 rows", "ok", "2 times")
    table = next(table for table in checks.written["tables"] if table["title"].startswith("kernels"))
    checks.that("not in the model" in table["title"] and len(table["rows"]) > 20, f"{table['title']}: {len(table['rows'])} rows")
    _, head, rows = compare.table(checks.written, "H100")
    lost = [row[-1] for row in rows]
    checks.that(lost == sorted(lost, reverse=True) and lost[0] > 0, f"lost milliseconds: {lost[:5]}")
    checks.that(all(row[head.index("model us")] > 1 for row in rows), "the model does not know each kernel")


def searched(checks, built, scratch):
    rows = checks.stage("search", DryWorld(built, scratch), status=1)
    for mode in ("beam", "bon"):
        checks.row(rows, "search", f"beamgen, {mode}, n 4, PRM 1.5b", "ok", "s a problem")
        checks.row(rows, "search", f"transformers, {mode}, n 4, PRM 1.5b", "ok", "2.00 s a problem")
    checks.row(rows, "models", "7b prm-mlp", "fails", "out of memory")
    table = checks.written["tables"][-1]
    checks.that(len(table["rows"]) == 4 and all(row[4] > 0 for row in table["rows"]), f"{table['rows']}")
    checks.that(any(row[0] == "beamgen" and row[10] > 0 for row in table["rows"]), "no waiting for the device is told")


def stale(checks, built, scratch):
    stamped = json.loads((built.bin / "stamp.json").read_text())
    programs.check(stamped)
    stamped["sources"]["kernels/silu.cu"] = "of another day"
    try:
        programs.check(stamped)
        checks.that(False, "programs of other sources are taken")
    except Stale as error:
        checks.that("kernels/silu.cu" in str(error) and "prepare.sh" in str(error), f"stale programs: {error}")


def kinds_of_sums(checks, built, scratch):
    """The probe tells kinds of tensor cores apart."""
    a, b, c = probe.pack(np.random.default_rng(3))
    for kind in (probe.Sums(8, 1, "zero"), probe.Sums(16, 2, "zero"), probe.Sums(4, 2, "zero"), probe.Sums(8, 3, "nearest")):
        d = probe.multiply(kind, a, b, c)
        checks.that(probe.infer(d) == kind, f"the probe finds {probe.infer(d)} for {kind}")
        checks.that(probe.explained(kind, a, b, c, d) == 1, f"{kind} do not explain their own results")
        checks.that(probe.explained(DryWorld.sums, a, b, c, d) < 1, f"{DryWorld.sums} explain the results of {kind}")


if __name__ == "__main__":
    sys.exit(main(None, None))
