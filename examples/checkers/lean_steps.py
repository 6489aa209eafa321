"""Checks steps with Lean in fences ```lean. A template: without a program `lean` it abstains on every step.

    beamgen check chains.jsonl --checker-command 'python3 examples/checkers/lean_steps.py'

A step passes if Lean accepts its code without `sorry` and axioms of its own. A proof that fails proves nothing: the
statement may be true all the same. So a step fails only if it is one line `example : STATEMENT := ...` and Lean
decides that STATEMENT is false.
"""

import re
import shutil
import subprocess

from checker import fences, serve

SECONDS = 30
STATEMENT = re.compile(r"\s*(?:example|theorem\s+\w+)\s*:\s*([^\n]+?)\s*:=\s*[^\n]*\s*")
# Code that runs at compile time, reads files or weakens the meaning of "accepted".
REFUSED = re.compile(r"#|\b(sorry|admit|axiom|unsafe|run_cmd|run_tac|elab|macro|import|IO|opaque|extern|implemented_by|native_decide)\b")


def accepts(lean, code):
    try:
        done = subprocess.run(
            [lean, "--stdin"], input=code, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    return done.returncode == 0 and "sorry" not in done.stdout + done.stderr


def check(_problem, steps):
    lean = shutil.which("lean")
    code = "\n".join(text for _, text in fences(steps[-1], "lean"))
    if lean is None or not code.strip() or REFUSED.search(code):
        return "abstain"
    if accepts(lean, code):
        return "pass"
    statement = STATEMENT.fullmatch(code)
    if statement and accepts(lean, f"example : ¬ ({statement[1]}) := by decide\n"):
        return "fail", f"{statement[1]} is false"
    return "abstain"


if __name__ == "__main__":
    serve(check)
