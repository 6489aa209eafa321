"""What a test or program that fails does under other conditions, and the first launch in which it and the CPU part."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from report import Ran, run
from launches import first_difference

@dataclass
class Failed:
    """A command that failed on the card. `narrower` is the same with the `any` kernels, where a flag selects these."""

    what: str
    command: list
    ran: Ran
    narrower: list | None = None


CONDITIONS = [("again", {}), ("without graphs", {"TRACE_GRAPHS": "0"}), ("blocking launches", {"CUDA_LAUNCH_BLOCKING": "1"})]


def under_sanitizer(command, environment, limit):
    """What compute-sanitizer says; it does not know every device (under gVisor, say)."""
    tool = shutil.which("compute-sanitizer", path=environment.get("PATH"))
    if tool is None:
        return "there is no compute-sanitizer"
    ran = run([tool, "--error-exitcode", "9", *command], environment, limit)
    if "Device not supported" in ran.output:
        return "compute-sanitizer does not know this device"
    if ran.code == 9:
        found = [line.strip("= ") for line in ran.output.splitlines() if line.startswith("=========") and ("Invalid" in line or "Error" in line or " at " in line)]
        return "compute-sanitizer: " + "; ".join(found[:2] or ["errors"])
    return "compute-sanitizer finds nothing" if ran.result in ("ok", "fails") else f"compute-sanitizer: {ran.says()}"


def compare(programs, command, limit):
    """The first launch of a command whose results on the card are not those of the CPU; None if all are."""
    with TemporaryDirectory() as folder:
        card, cpu = Path(folder) / "card", Path(folder) / "cpu"
        ours = run(command, programs.card(traced=True, TRACE_KERNELS=str(card), TRACE_GRAPHS="0"), limit)
        theirs = run(command, programs.cpu(TRACE_KERNELS=str(cpu), TRACE_GRAPHS="0"), limit)
        if not cpu.exists() or not card.exists():
            return {"kernel": None, "says": f"nothing to compare: {(theirs if card.exists() else ours).says()}"}
        difference = first_difference(card, cpu)
        if difference is None and theirs.result != "ok":
            return {"kernel": None, "says": f"the cpu's kernels fail, too: {theirs.says()}"}
        return difference


def narrow(report, programs, most, failed):
    """A row for what has failed; a try of it takes at most so many seconds."""
    limit = min(most, 3 * failed.ran.seconds + 2)
    tries = [(name, failed.command, more) for name, more in CONDITIONS]
    if failed.narrower:
        tries.append(("the `any` kernels", failed.narrower, {}))
    told, difference = [], None
    for name, tried, more in tries:
        # time is kept for the comparison, which tells most
        ran = run(tried, programs.card(traced="TRACE_GRAPHS" in more, **more), limit) if report.left() > limit + 20 else None
        told.append(f"{name}: {ran.result if ran else 'no time is left'}")
    if report.left() > 4 * limit + 20:
        told.append(under_sanitizer(failed.command, programs.card(), 4 * limit))
    if report.left() > 5:
        difference = compare(programs, failed.command, min(4 * limit, report.left() / 2))
        told.append(difference["says"] if difference else "every launch is the cpu's")
    found = difference and difference["kernel"]
    report.add("narrow", failed.what, "differs" if found else "fails", "; ".join(told), first=difference)
