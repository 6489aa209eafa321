"""Checks steps that are Python code, in fences ```python with what they print in a fence ```output.

    beamgen check chains.jsonl --checker-command 'python3 examples/checkers/python_steps.py --run'

Every step's code is parsed and verified first: a syntax error fails, and code that imports, opens or reaches for
anything but numbers is never executed. Without --run nothing is. With it the code runs in the sandbox of
docs/rewards/sandbox.md, in a process of its own; without that sandbox the checker ends, unless --sandbox none is given.
A step fails if an assertion does, if it raises, or if it prints something else than its ```output says; it passes if an
assertion or the output held. Everything else, limits among it, is abstained from.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

from checker import fences, serve

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sandboxed import LIMITS, prefix  # noqa: E402

MODULES = {"math", "fractions", "decimal", "itertools", "functools", "collections", "statistics"}
FORBIDDEN = {
    "open", "exec", "eval", "compile", "input", "breakpoint", "globals", "locals", "vars", "getattr", "setattr",
    "delattr", "memoryview", "help", "exit", "quit", "type", "object", "super", "dir",
}
MAX_CODE = 20_000  # characters
MAX_DEPTH = 60  # of the syntax tree
MAX_OUTPUT = 64 << 10  # bytes
# One process, which writes no files.
BOUNDS = {"cpu": 2, "wall": 5, "memory": 512 << 20, "processes": 1, "open_files": 16, "file_size": 4096, "output": 4 * MAX_OUTPUT}

# Runs first in the child: reads everything, then executes what the parent verified.
CHILD = r"""
import collections, contextlib, decimal, fractions, functools, io, itertools, json, math, statistics, sys

given = json.loads(sys.stdin.read())

class Capped(io.StringIO):
    left = given["output"]
    def write(self, text):
        self.left -= len(text)
        if self.left < 0:
            raise MemoryError("too much output")
        return super().write(text)

printed, result = Capped(), {"end": "done"}
space = {"__name__": "step"}
codes = [compile(text, "step", "exec") for text in given["codes"]]
sys.setrecursionlimit(500)
for at, code in enumerate(codes):
    printed.seek(0), printed.truncate()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, space)
    except (MemoryError, PermissionError, RecursionError) as error:
        result = {"end": "limit", "what": f"{type(error).__name__}: {error}", "code": at}
        break
    except BaseException as error:
        trace, line = error.__traceback__, None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "step":
                line = trace.tb_lineno
            trace = trace.tb_next
        what = f"{type(error).__name__}: {error}".rstrip(": ")[:200]
        result = {"end": "raised", "what": what, "line": line, "code": at}
        break
if result["end"] == "done":
    result["printed"] = printed.getvalue()
sys.__stdout__.write(json.dumps(result))
"""


def verify(text):
    """Why the code must not run; None if it may."""
    if len(text) > MAX_CODE:
        return "too long"
    tree = ast.parse(text)

    def walk(node, depth):
        if depth > MAX_DEPTH:
            return "nested too deeply"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            if not set(names) <= MODULES:
                return f"imports {', '.join(names)}"
        name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        if isinstance(name, str) and (name.startswith("_") or name in FORBIDDEN):
            return f"uses {name}"
        if isinstance(node, (ast.AsyncFunctionDef, ast.Await, ast.Global, ast.Nonlocal)):
            return f"has {type(node).__name__}"
        for child in ast.iter_child_nodes(node):
            if reason := walk(child, depth + 1):
                return reason
        return None

    return walk(tree, 0)


def run(codes, words):
    """Executes the codes one after the other in one process; what became of it. `words` put it into the sandbox."""
    given = json.dumps({"codes": codes, "output": MAX_OUTPUT})
    command = [*words, sys.executable, "-I", "-S", "-c", CHILD]
    ran = subprocess.run(command, input=given.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if ran.returncode in LIMITS:
        return {"end": "limit", "what": LIMITS[ran.returncode]}
    try:
        return json.loads(ran.stdout)
    except ValueError:
        return {"end": "limit", "what": f"ended by {ran.returncode}"}


def checks_itself(text):
    return any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(text)))


def checker(arguments):
    runs = "--run" in arguments
    words = prefix(arguments, **BOUNDS) if runs else []

    def check(_problem, steps):
        blocks = fences(steps[-1], "python", "output")
        code = "\n".join(text for language, text in blocks if language == "python")
        if not code.strip():
            return "abstain"
        try:
            refused = verify(code)
        except SyntaxError as error:
            return "fail", f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError, MemoryError):
            return "abstain"  # bytes of zero, or a parser that gave up
        if refused or not runs:
            return "abstain"
        before = [text for step in steps[:-1] for _, text in fences(step, "python")]
        try:
            if any(verify(text) for text in before):
                return "abstain"
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return "abstain"
        result = run([*before, code], words)
        if result["end"] == "limit" or result.get("code", len(before)) < len(before):
            return "abstain"
        if result["end"] == "raised":
            where = f"line {result['line']}: " if result.get("line") else ""
            return "fail", where + result["what"]
        wanted = [text for language, text in blocks if language == "output"]
        if wanted and wanted[-1].split() != result["printed"].split():
            printed = " ".join(result["printed"].split())[:200]
            return "fail", f"it prints {printed!r}, not {' '.join(wanted[-1].split())[:200]!r}"
        return "pass" if wanted or checks_itself(code) else "abstain"

    return check


if __name__ == "__main__":
    serve(checker(sys.argv[1:]))
