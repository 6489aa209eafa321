"""The program under test: its commands, and `beamgen serve` on a free port."""

import json
import re
import subprocess
import tempfile
from pathlib import Path


class Program:
    def __init__(self, binary):
        self.binary = binary

    def problems(self, count, seed):
        """Problems of the bundled world, with their answers."""
        flags = ["--count", str(count), "--seed", str(seed)]
        lines = subprocess.run([self.binary, "problems", *flags], check=True, capture_output=True, text=True).stdout
        return [json.loads(line) for line in lines.splitlines()]

    def solve(self, problem, *flags):
        """The problem line that `beamgen solve` writes for a text. Its id is the one that requests have."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run.jsonl"
            command = [self.binary, "solve", problem, "--quiet", "--out", out, *flags]
            subprocess.run(command, check=True, capture_output=True)
            return json.loads(out.read_text().splitlines()[1])


class Server:
    """A server on a free port, as a context manager."""

    def __init__(self, binary, *flags):
        self.command = [binary, "serve", "--port", "0", *flags]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"http://[\d.]+:(\d+)", line):
                self.url, self.port = found.group(), int(found.group(1))
                return self
        raise SystemExit("the server did not start")

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(60) == 0


def answer(text):
    """The answer that a response states, if any."""
    found = re.search(r"The answer is (-?\d+)", text or "")
    return found and found.group(1)


def say(what, *saw):
    print(f"{what:<14}", *saw, flush=True)
