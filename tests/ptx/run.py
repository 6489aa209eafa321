"""Runs the shipped PTX: in the interpreter of this folder, or on a card.

    python3 tests/ptx/run.py [--set quick|full|real] [--only PATTERN] [--card] [--seed N] [--seeds N] [--ptx FOLDER] [--json FILE] [--jobs N]

Prints a table; the exit code is 1 if a case fails. Planted faults (mutants.py) show that the cases can: three in the set quick, all in full.
"""

import argparse
import json
import os
import re
import sys
import time
import zlib
from pathlib import Path

# a worker uses one core; several workers share the machine
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import attention_cases  # noqa: E402
import bits_cases  # noqa: E402
import linear_cases  # noqa: E402
import mutants  # noqa: E402
import ptx_text  # noqa: E402
import row_cases  # noqa: E402
import sample_cases  # noqa: E402
from checks import Case, Check  # noqa: E402
from faults import KernelFault  # noqa: E402
from workers import Workers  # noqa: E402

# seconds that a case may take
LIMIT, CARD_LIMIT = 1800.0, 90.0
SHIPPED = Path(__file__).resolve().parents[2] / "kernels" / "ptx"


def all_cases(on_card: bool) -> list[Case]:
    """Every case, those that take longest first."""
    return [case for module in (sample_cases, linear_cases, attention_cases, row_cases, bits_cases) for case in module.cases(on_card)]


def kernels_of(folder: Path) -> set[str]:
    """The kernels of a folder of PTX files."""
    return {name for path in folder.glob("*.ptx") for name in ptx_text.entry_names(path.read_text())}


def row_of(case: Case, check: Check, began: float, instructions: int = 0) -> dict:
    """What came of a case, as it is in the JSON file."""
    return {"case": case.name, "kernel": check.kernel or ", ".join(case.kernels), "shape": case.shape, "ok": check.ok,
            "error": check.error, "bound": check.bound, "first_wrong": check.wrong, "seconds": round(time.monotonic() - began, 2),
            "message": check.message, "instructions": instructions}


def run_case(case: Case, folder: Path, seed: int, on_card: bool) -> dict:
    """Runs a case. Its row."""
    if on_card:
        from card import Machine
    else:
        from interpreter import Machine
    began, check = time.monotonic(), Check()
    # each case has numbers of its own
    random = np.random.default_rng([seed, zlib.crc32(case.name.encode())])
    machine = Machine(folder, None if case.in_step else seed, case.sums)
    try:
        case.run(machine, random, check)
    except KernelFault as fault:
        check.fail(str(fault).split(":")[0], str(fault))
    except Exception as error:  # a case that breaks is a failure, and the other cases run
        check.fail(", ".join(case.kernels), f"{type(error).__name__}: {error}")
    return row_of(case, check, began, machine.executed)


def case_named(name: str, on_card: bool) -> Case:
    return next(case for case in all_cases(on_card) if case.name == name)


def run_named(work) -> dict:
    """A case by its name: closures do not travel to other processes."""
    name, folder, seed, on_card = work
    return run_case(case_named(name, on_card), folder, seed, on_card)


def not_run(work, message: str) -> dict:
    """The row of a case whose process did not answer."""
    case, check = case_named(work[0], work[3]), Check()
    check.fail(", ".join(case.kernels), message)
    return row_of(case, check, time.monotonic())


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
    parser.add_argument("--seed", type=int, default=0, help="chooses numbers and the order of warps; odd ones have other poison")
    parser.add_argument("--seeds", type=int, default=1, help="so many seeds, one after the other")
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

    def keep(result: dict, line: str) -> None:
        results.append(result)
        print(line, flush=True)
        if options.json:  # what is done stays, whatever happens to the rest
            options.json.write_text(json.dumps(results, indent=1) + "\n")

    work = [(case.name, options.ptx, options.seed + more, options.card) for more in range(options.seeds) for case in chosen]
    # a card's memory is for one process at a time, and its context does not survive every fault
    with Workers(1 if options.card else options.jobs, CARD_LIMIT if options.card else LIMIT) as workers:
        for result in workers.map(run_named, work, not_run, lambda result: options.card and not result["ok"]):
            keep(result, line_of(result))
        # that the cases can fail
        if not options.card and not options.only and options.set != "real":
            faults = [fault for fault in mutants.FAULTS if fault.in_quick or options.set == "full"]
            tries = list(mutants.SEEDS) if options.set == "full" else [options.seed]
            for row in mutants.hunt(workers, options.ptx, faults, tries):
                keep(row, mutants.line_of(row, len(tries)))
    planted = len(results) - len(work)
    for kernel in sorted(kernels ^ covered):
        check = Check()
        check.fail(kernel, "no case runs this kernel" if kernel in kernels else "there is no such kernel")
        keep(row_of(Case("coverage", (kernel,), "", None), check, time.monotonic()), f"{kernel}: {check.message}")
    wrong = sum(not result["ok"] for result in results)
    print(f"{len(work)} runs of {len(chosen)} cases over {len(covered & kernels)} of {len(kernels)} kernels, {planted} planted faults, {wrong} wrong,"
          f" {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
