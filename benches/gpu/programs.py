"""The programs that prepare.sh packed: whether they fit the sources, and the environments to run them in.

    python3 benches/gpu/programs.py stamp FOLDER     writes what the programs of a folder were built from
    python3 benches/gpu/programs.py check            whether the packed programs are of these sources
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACK = ROOT / "benches/gpu/bin/bin.tar.xz"
# What programs and tests are made from, and what is read while they run.
SOURCES = ["Cargo.lock", "Cargo.toml", "benches/gpu/prepare.sh", "benches/gpu/probe.cu", "benches/gpu/trace.cpp", "configs", "crates",
           "examples", "kernels", "models", "src", "tests/fixtures"]  # fmt: skip
# Rust tests of CUDA by the name of their program.
TESTS = ["test-kernels", "test-engine", "test-memory", "test-sampling", "test-golden", "test-prm"]


class Stale(Exception):
    pass


def sources():
    """A digest of every source file. There is no git where the programs run."""
    files = {}
    for source in SOURCES:
        path = ROOT / source
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".md":
                files[str(file.relative_to(ROOT))] = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    return files


def stamp(folder):
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(git, text=True, stdout=subprocess.PIPE, check=True).stdout.strip()
    (folder / "stamp.json").write_text(json.dumps({"commit": commit, "built_in": str(ROOT), "sources": sources()}))


def check(stamped):
    """Refuses programs of other sources."""
    now, then = sources(), stamped["sources"]
    changed = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
    if changed:
        few = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        raise Stale(f"the programs of {stamped['commit']} are older than {few}: run benches/gpu/prepare.sh")


class Programs:
    """The unpacked programs. `driver` is the folder of a libcuda.so to be tested instead of the machine's own."""

    def __init__(self, folder, driver=None):
        self.bin, self.driver = folder, driver
        self.stamp = json.loads((folder / "stamp.json").read_text())
        check(self.stamp)
        # Tests look for their fixtures where they were built.
        built_in = pathlib.Path(self.stamp["built_in"])
        if not built_in.exists():
            built_in.parent.mkdir(parents=True, exist_ok=True)
            built_in.symlink_to(ROOT)

    @classmethod
    def unpacked(cls, folder):
        if not PACK.exists():
            raise Stale(f"{PACK.relative_to(ROOT)} is not there: run benches/gpu/prepare.sh where there is a compiler")
        with tarfile.open(PACK) as archive:
            archive.extractall(folder, filter="data")
        return cls(folder)

    def __getitem__(self, name):
        return self.bin / name

    def _environment(self, libraries, more):
        before = os.environ.get("LD_LIBRARY_PATH")
        path = ":".join([*map(str, libraries), *([before] if before else [])])
        if path:
            more["LD_LIBRARY_PATH"] = path
        # Skips there are none of the tests that count skips.
        environment = {name: value for name, value in os.environ.items() if name != "BEAMGEN_TEST_SKIPS"}
        return {**environment, "BEAMGEN_TEST_CUDA": "real", **more}

    def card(self, traced=False, **more):
        """The environment of a program on the device that is tested; `traced`, with trace.cpp before its driver."""
        return self._environment([*([self["trace"]] if traced else []), *([self.driver] if self.driver else [])], more)

    def cpu(self, **more):
        """The environment of a program whose kernels run on the CPU, traced."""
        environment = self._environment([self["trace"], self["emulated"]], more)
        return {name: value for name, value in environment.items() if not name.startswith("EMULATED_CUDA_")}


if __name__ == "__main__":
    try:
        if sys.argv[1] == "stamp":
            stamp(pathlib.Path(sys.argv[2]))
        else:
            with tarfile.open(PACK) as archive:
                check(json.load(archive.extractfile("./stamp.json")))
    except (Stale, FileNotFoundError) as error:
        sys.exit(f"benches/gpu: {error}")
