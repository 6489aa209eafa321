"""Rows of a stage's table, commands with a limit, and the time that is left."""

import json
import os
import pathlib
import signal
import subprocess
import time
import traceback
from dataclasses import dataclass

BEGAN = time.monotonic()


def seconds():
    return time.monotonic() - BEGAN


@dataclass
class Ran:
    """A command that has ended, or was ended."""

    result: str  # ok, fails, crashes, hangs
    seconds: float
    output: str
    code: int | None = None

    def says(self):
        """The line of the output that tells most: the one after a panic's, else an error's, else the last."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        if self.result == "hangs":
            return f"no end after {self.seconds:.0f} s"
        for i, line in enumerate(lines):
            if "panicked at" in line:
                return " ".join([line.split("panicked at ")[-1], *lines[i + 1 : i + 2]])
        errors = [line for line in lines if "rror" in line]
        killed = f"killed by {signal.Signals(-self.code).name}: " if self.code and self.code < 0 else ""
        return killed + (errors or lines or [""])[-1]


def run(command, environment, limit):
    """Runs a command for at most `limit` seconds; it and all that it started end then."""
    began = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command], env=environment, text=True, errors="replace", stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=max(limit, 0.1))
        code = process.returncode
        result = "ok" if code == 0 else "fails" if code > 0 else "crashes"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        code, result = None, "hangs"
    return Ran(result, time.monotonic() - began, output, code)


def objects(output):
    """The JSON objects among the lines of an output."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


class Report:
    """The rows of a stage. They are written as they come, so that a command that is cut off leaves them."""

    def __init__(self, stage, budget, out, head):
        self.budget, self.rows, self.tables = budget, [], []
        self.head = {"stage": stage, "date": time.strftime("%Y-%m-%d", time.gmtime()), **head}
        self.path = pathlib.Path(out) / f"{stage}.json"
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def left(self):
        return self.budget - seconds()

    def add(self, part, what, result, says="", seconds=0.0, **more):
        """A row. `result` is ok, fails, crashes, hangs, differs, or left out."""
        self.rows.append({"part": part, "what": what, "result": result, "says": says, "seconds": round(seconds, 3), **more})
        print(f"{globals()['seconds']():6.1f} s  {part}: {what}: {result}" + (f": {says}" if says else ""), flush=True)
        self.save()

    def attempt(self, part, *arguments):
        """Calls a part of the stage. Whatever goes wrong in it is a row, and the next part comes."""
        try:
            return part(self, *arguments)
        except Exception as error:  # noqa: BLE001
            self.add(part.__name__, "the part itself", "crashes", f"{type(error).__name__}: {error}", trace=traceback.format_exc())
            return None

    def table(self, title, head, rows):
        """A table that is printed at the end, and kept."""
        self.tables.append({"title": title, "head": head, "rows": rows})
        self.save()

    def has_time(self, part, what, needed):
        """Whether `needed` seconds are left; else there is a row that says so."""
        if self.left() >= needed:
            return True
        self.add(part, what, "left out", f"needs {needed:.0f} s, {max(self.left(), 0):.0f} s are left")
        return False

    def failed(self):
        return [row for row in self.rows if row["result"] not in ("ok", "left out")]

    def save(self):
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({**self.head, "seconds": round(seconds(), 1), "rows": self.rows, "tables": self.tables}, indent=1))
        new.replace(self.path)

    def finish(self):
        """Prints the tables, last what is not ok. Returns the exit status."""
        for table in self.tables:
            print_table(table["title"], table["head"], table["rows"])
        wrong = [row for row in self.rows if row["result"] != "ok"]
        if wrong:
            print_table("not ok", ["part", "what", "result", "says"], [[row[key] for key in ("part", "what", "result", "says")] for row in wrong])
        count = {"ok": len(self.rows) - len(wrong), "failed": len(self.failed()), "left out": len(wrong) - len(self.failed())}
        print(f"\n# {self.head['stage']}: " + ", ".join(f"{count[key]} {key}" for key in count) + f" in {seconds():.0f} s")
        self.save()
        return 1 if self.failed() else 0


def print_table(title, head, rows):
    rows = [[cell if isinstance(cell, str) else f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    widths = [min(max(len(row[i]) for row in [head, *rows]), 60) for i in range(len(head))]
    print(f"\n## {title}\n")
    for row in [head, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
