"""A stage of the half hour on a card: `run.sh first|time|search [--budget SECONDS]`. With --dry, see dry.py."""

import argparse
import gzip
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import first
import search
import times
from programs import ROOT, TESTS, Programs, Stale
from report import Report, run

HERE = Path(__file__).parent
STAGES = {"first": (first.first, 290), "time": (times.times, 350), "search": (search.search, 470)}


class World:
    """What a stage runs, and on what."""

    parts = ["facts", "modules", "tests", "ptx", "scored", "solved"]
    at_once = 4
    test_limit, narrow_limit = 40, 15
    tests = TESTS
    ptx = ["--card", "--set"]
    ptx_limit = 110
    narrowed = 3  # of the failures; the rest is most likely the same fault
    chains, problems, width = 20, 20, 4
    kernel_sizes = []
    decode_needs = {"1.5b": 40, "7b": 60}
    counts = {"1.5b": [16, 64, 256], "7b": [64, 256]}
    problem_file = "benches/peers/problems.jsonl"
    search_flags = ["--dtype", "bf16"]
    peers = HERE / "peers.py"

    def __init__(self, programs, scratch):
        self.programs, self.scratch = programs, scratch

    def wants(self, program, test):
        """Whether a test is one of CUDA."""
        return program not in ("test-golden", "test-prm") or "cuda" in test

    def decoded(self, shape):
        return ["--model", HERE / "shapes" / shape, "--random", "--batch", "1,16,64,256", "--prefix", "512", "--new", "32", "--repeat", "5"]

    def images(self, card):
        """Kinds of images of the kernels and their folders: machine code for the card, and the PTX that its driver compiles."""
        packed = sorted((int(path.name[3:-3]), path) for path in (ROOT / "kernels/code").glob("sm_*.gz"))
        capability = 10 * (card.get("major") or 0) + (card.get("minor") or 0)
        fitting = [path for arch, path in packed if capability // 10 == arch // 10 and arch <= capability]
        return [*(unpack_code(path, self.scratch / path.stem) for path in fitting[-1:]), ("ptx", ROOT / "kernels/ptx")]

    def ptx_runs(self, card):
        """Images, their folders and the set of cases for each: what the card runs at real sizes, its PTX at small ones."""
        return [(*image, cases) for image, cases in zip(self.images(card), ["real", "quick"])]

    def multiply(self, a, b, c, card):
        """What mma.sync and wgmma make of a, b and c; or why that cannot be asked."""
        arch = {8: "80", 9: "90a", 10: "100", 12: "120"}.get(card.get("major"))
        cubin = self.programs[f"probe.{arch}.cubin"]
        if not cubin.exists():
            return f"there is no {cubin.name}"
        file = self.scratch / "probe.in"
        file.write_bytes(a.tobytes() + b.tobytes() + c.tobytes())
        ran = run([*first.DRIVER, "probe", cubin, file], self.programs.card(), 30)
        if ran.result != "ok":
            return ran.says()
        return np.frombuffer(file.with_suffix(".out").read_bytes(), np.float32).reshape(2, *c.shape)


def unpack_code(package, folder):
    """Machine code as kernels/build.sh packs it, as a file for each module beside its PTX."""
    head, code = gzip.decompress(package.read_bytes()).split(b"\n\n", 1)
    folder.mkdir(exist_ok=True)
    for line in head.decode().splitlines():
        name, size = line.split()
        (folder / f"{name}.cubin").write_bytes(code[: int(size)])
        code = code[int(size) :]
    for ptx in (ROOT / "kernels/ptx").glob("*.ptx"):
        shutil.copy(ptx, folder)
    return package.stem, folder


def staged(stage, world, budget, out):
    """Runs a stage; returns the exit status."""
    os.chdir(ROOT)
    report = Report(stage, budget, out, {"commit": world.programs.stamp["commit"], "python": sys.version.split()[0]})
    print(f"# {stage} on {report.head['date']}, programs of {report.head['commit']}, {budget} s", flush=True)
    STAGES[stage][0](report, world)
    return report.finish()


def main():
    parser = argparse.ArgumentParser(prog="benches/gpu/run.sh", description=__doc__)
    parser.add_argument("stage", nargs="?", choices=STAGES, help="left out, with --dry: every branch of all stages")
    parser.add_argument("--budget", type=float, help="seconds after which nothing is begun")
    parser.add_argument("--dry", action="store_true", help="without a card: the interpreter, the emulated driver")
    given = parser.parse_args()
    if given.dry:
        import dry

        sys.exit(dry.main(given.stage, given.budget))
    if given.stage is None:
        parser.error("name a stage: " + ", ".join(STAGES))
    out = os.environ.get("OUT", "/tmp/beamgen-gpu")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            programs = Programs.unpacked(Path(scratch) / "bin")
        except Stale as error:
            print(f"benches/gpu/run.sh: {error}", file=sys.stderr)
            sys.exit(2)
        sys.exit(staged(given.stage, World(programs, Path(scratch)), given.budget or STAGES[given.stage][1], out))


if __name__ == "__main__":
    main()
