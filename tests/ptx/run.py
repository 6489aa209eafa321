"""Runs the shipped PTX: in the interpreter of this folder, or on a card.

    python3 tests/ptx/run.py [--set quick|full|real] [--only PATTERN] [--card] [--seed N] [--ptx FOLDER] [--json FILE] [--jobs N]

Prints a table; the exit code is 1 if a case fails.
"""

import argparse
import json
import os
import re
import sys
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

# a worker uses one core; several workers share the machine
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import attention_cases  # noqa: E402
import linear_cases  # noqa: E402
import ptx_text  # noqa: E402
import row_cases  # noqa: E402
import sample_cases  # noqa: E402
from checks import Case, Check  # noqa: E402
from faults import KernelFault  # noqa: E402

SHIPPED = Path(__file__).resolve().parents[2] / "kernels" / "ptx"


def all_cases(on_card: bool) -> list[Case]:
    """Every case, those that take longest first."""
    return [case for module in (sample_cases, linear_cases, attention_cases, row_cases) for case in module.cases(on_card)]


def kernels_of(folder: Path) -> set[str]:
    """The kernels of a folder of PTX files."""
    return {name for path in folder.glob("*.ptx") for name in ptx_text.entry_names(path.read_text())}


def run_case(case: Case, folder: Path, seed: int, on_card: bool) -> dict:
    """What came of a case, as it is in the JSON file."""
    if on_card:
        from card import Machine
    else:
        from interpreter import Machine
    began, check = time.monotonic(), Check()
    # each case has numbers of its own
    random = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    machine = Machine(folder, None if case.in_step else seed, case.truncate)
    try:
        case.run(machine, random, check)
    except KernelFault as fault:
        check.fail(str(fault).split(":")[0], str(fault))
    except Exception as error:  # a case that breaks is a failure, and the other cases run
        check.fail(case.kernels[0], f"{type(error).__name__}: {error}")
    return {"case": case.name, "kernel": check.kernel or ", ".join(case.kernels), "shape": case.shape, "ok": check.ok,
            "error": check.error, "bound": check.bound, "first_wrong": check.wrong, "seconds": round(time.monotonic() - began, 2),
            "message": check.message, "instructions": machine.executed}


def _run_named(arguments) -> dict:
    name, folder, seed, on_card = arguments
    return run_case(next(case for case in all_cases(on_card) if case.name == name), folder, seed, on_card)


def line_of(result: dict) -> str:
    """A row of the table."""
    compared = f"{result['error']:.1e} of {result['bound']:.1e}"
    text = f"{result['case']:42} {result['shape'][:60]:60} {compared:20} {result['seconds']:6.1f} s  {'OK' if result['ok'] else 'WRONG'}"
    if result["ok"]:
        return text
    wrong = result["first_wrong"]
    place = f", first at row {wrong['row']}, column {wrong['column']}: {wrong['got']:.9g}, wanted {wrong['wanted']:.9g}" if wrong else ""
    return f"{text}\n  {result['kernel']}: {result['message']}{place}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", choices=("quick", "full", "real"), default="quick")
    parser.add_argument("--only", default="", help="cases whose name or kernels have this regular expression")
    parser.add_argument("--card", action="store_true", help="run on a card")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ptx", type=Path, default=SHIPPED, help="folder of PTX files (for a card also cubins)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time; a card runs one")
    options = parser.parse_args()

    kernels = kernels_of(options.ptx)
    every = all_cases(options.card)
    covered = {kernel for case in every for kernel in case.kernels if options.set in case.sets}
    chosen = [case for case in every if options.set in case.sets
              and re.search(options.only, " ".join((case.name, *case.kernels)))]
    if not chosen:
        print(f"no case of the set {options.set} has {options.only}", file=sys.stderr)
        return 2

    began, results = time.monotonic(), []
    work = [(case.name, options.ptx, options.seed, options.card) for case in chosen]
    # a card's memory and its faults are those of one process at a time
    with ProcessPoolExecutor(1 if options.card else options.jobs) as pool:
        for result in pool.map(_run_named, work):
            results.append(result)
            print(line_of(result), flush=True)
    lacking = kernels ^ covered
    for kernel in sorted(lacking):
        fault = "no case runs this kernel" if kernel in kernels else "there is no such kernel"
        results.append({"case": "coverage", "kernel": kernel, "shape": "", "ok": False, "error": 0.0, "bound": 0.0, "first_wrong": None,
                        "seconds": 0.0, "message": fault})
        print(f"{kernel}: {fault}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    wrong = sum(not result["ok"] for result in results)
    print(f"{len(chosen)} cases over {len(covered)} of {len(kernels)} kernels, {wrong} wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
