"""The sandbox of docs/rewards/sandbox.md, for the examples next to this file.

`BEAMGEN_SANDBOX` names the program that has it: `beamgen-launcher` (the default) or `beamgen`.
"""

import os
import shutil
import subprocess
import sys

# Exit codes of the sandbox that name a limit.
LIMITS = {121: "file size", 122: "CPU time", 123: "output", 124: "wall clock"}


def prefix(arguments, **limits):
    """The words before a program that start it in the sandbox, with limits such as `cpu=2` and `file_size=4096`.

    Ends this process if no Python starts in the sandbox. `--sandbox none` in `arguments` turns protection off."""
    named = os.environ.get("BEAMGEN_SANDBOX", "beamgen-launcher")
    program = shutil.which(named)
    open_to_all = any(pair == ("--sandbox", "none") for pair in zip(arguments, arguments[1:]))
    if program is None and open_to_all:
        return []
    if program is None:
        sys.exit(
            f"no sandbox: {named} is not installed; set BEAMGEN_SANDBOX to beamgen-launcher or beamgen, or give "
            "--sandbox none to run code without one"
        )
    words = [program, "sandbox", *(["--sandbox", "none"] if open_to_all else [])]
    for name, value in limits.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    words.append("--")
    # Asked once, at the start: later, a program of whatever exit code could pretend that the sandbox failed.
    command = [*words, sys.executable, "-I", "-S", "-c", ""]
    # The sandbox passes its input on, and this process needs its own.
    trial = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        sys.exit(trial.stderr.strip() or f"no sandbox: exit code {trial.returncode}")
    return words
