"""Twenty faults of eight kinds, planted in the text of the shipped PTX: do the cases find them?

    python3 tests/ptx/mutants.py [--jobs N] [--only PATTERN] [--seeds N] [--sweep]

Each fault is planted by itself, and the small cases of its kernel run with five seeds. One that fewer than three seeds find is missed.
"""

import argparse
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ptx_text import entry_names
from workers import Workers

SEEDS = range(5)
ENOUGH = 3


class PatternLost(Exception):
    """The text has changed so that a fault cannot be planted: its pattern has to be written again."""


def kernel_text(text: str, kernel: str) -> str:
    """A kernel's part of the text of a module."""
    begin = text.find(f".visible .entry {kernel}(")
    if begin < 0:
        raise PatternLost(f"{kernel}: no such kernel")
    after = re.compile(r"^(\.visible \.entry|\.func)", re.MULTILINE).search(text, begin + 1)
    return text[begin:after.start() if after else len(text)]


@dataclass(frozen=True)
class Fault:
    """Replaces the match number `place` (negative: from the end) of a pattern within a kernel. A kernel that has not `count` matches
    is another one than the fault was written for."""

    kind: str
    kernel: str
    what: str
    pattern: str
    replacement: str
    place: int = 0
    count: int | None = None
    in_quick: bool = False

    def planted(self, text: str) -> str:
        """The module's text with the fault."""
        body = kernel_text(text, self.kernel)
        matches = list(re.finditer(self.pattern, body))
        if not -len(matches) <= self.place < len(matches) or self.count not in (None, len(matches)):
            raise PatternLost(f"{self.kernel}, {self.what}: {len(matches)} matches of {self.pattern}, {self.count or 'more'} expected")
        match = matches[self.place]
        changed = match.expand(self.replacement)
        if changed == match[0]:
            raise PatternLost(f"{self.kernel}, {self.what}: nothing changes")
        return text.replace(body, body[:match.start()] + changed + body[match.end():])


BARRIER, WARP_BARRIER, FENCE = r"bar\.sync\s+0;", r"bar\.warp\.sync\s+-1;", r"membar\.gl;"
# the first two registers of the left matrix: rows g and g + 8
LEFT_ROWS = r"(mma\.sync\S+ \{[^}]*\}, \{)(%r\d+),(%r\d+),"
FAULTS = [
    Fault("barrier removed", "linear_32_bf16", "sums are read before all warps have written them", BARRIER, "", 0, 3, in_quick=True),
    Fault("barrier removed", "linear_many_f16", "a stage is read before it has arrived", BARRIER, "", 0, 1),
    Fault("barrier removed", "attention_128_bf16", "keys are replaced while others read them", BARRIER, "", 2, 5),
    Fault("barrier removed", "attention_any_f32", "weights are read before all lanes have written them", WARP_BARRIER, "", 2, 3),
    Fault("fence removed", "linear_8_bf16", "the count is seen before the parts", FENCE, "", 0, 2, in_quick=True),
    Fault("fence removed", "linear_16_f16", "parts are read before the count", FENCE, "", 1, 2),
    Fault("wrong wait", "linear_silu_many_bf16", "a chunk is used before it has arrived", r"(wait_group) 2;", r"\1 3;", 0, 1),
    Fault("wrong wait", "attention_96_f16", "values are used before they have arrived", r"(wait_group) 1;", r"\1 2;", 1, 2),
    Fault("bound off by one", "embed_f16", "the token after the last one", r"setp\.lt\.u32", "setp.le.u32", 0, 1),
    Fault("bound off by one", "linear_64_f16", "the row after the last one",
          r"(membar\.gl;\s+setp(?s:.*?))setp\.ge\.s32", r"\1setp.gt.s32", 0, 1),
    Fault("bound off by one", "attention_64_bf16", "the position after the last one is seen",
          r"setp\.lt\.s32([^;]*;\s+setp\.ge\.s32[^;]*;\s+and\.pred[^;]*;\s+mul\.f32[^;]*;\s+selp\.f32)", r"setp.le.s32\1"),
    Fault("wrong index", "silu_mul_bf16", "rows overlap", r"(shl\.b64\s+%rd\d+, %rd\d+), 1;", r"\1, 0;", 0, 2),
    Fault("wrong index", "rmsnorm_heads", "one value is read twice", r"(ld\.global\.f32\s+%f\d+, \[%rd\d+)\+-128\]", r"\1+-256]", 0, 1),
    Fault("wrong index", "attention_merge_f16", "the stride of partial results", r"(add\.s32\s+%r\d+, %r\d+), 2;", r"\1, 1;", 0),
    Fault("wrong constant or rounding", "rope_kv_bf16", "values are cut off", r"cvt\.rn\.bf16", "cvt.rz.bf16", 0, 4),
    Fault("wrong constant or rounding", "sample", "a multiplier of the random numbers",
          r"(mul\.lo\.s32\s+%r\d+, %r\d+), -766435501;", r"\1, -766435503;", 0, 1),
    Fault("swapped operands", "linear_silu_16_bf16", "two registers of a matrix", LEFT_ROWS, r"\1\3,\2,", in_quick=True),
    Fault("swapped operands", "prm_layer", "the smaller of value and zero", r"max\.f64", "min.f64"),
    Fault("dropped store", "linear_64_bf16", "the counter is not reset", r"st\.global\.u32\s+\[%rd\d+\], %r\d+;", "", 0, 1),
    Fault("dropped store", "attention_any_bf16", "the sum of weights", r"st\.global\.f32\s+\[%rd\d+\+4\], %f\d+;", "", -1),
]


# what orders accesses: every one of these in every kernel is a fault of the sweep
ORDERING = [("barrier removed", BARRIER, ""), ("barrier removed", WARP_BARRIER, ""), ("fence removed", FENCE, ""),
            ("wrong wait", r"(wait_group) 1;", r"\1 2;"), ("wrong wait", r"(wait_group) 2;", r"\1 3;")]


def sweep(shipped: Path) -> list[Fault]:
    """Every barrier and fence of every kernel removed, every wait one group short: one at a time."""
    faults = []
    for path in sorted(shipped.glob("*.ptx")):
        text = path.read_text()
        for kernel in entry_names(text):
            for kind, pattern, replacement in ORDERING:
                count = len(re.findall(pattern, kernel_text(text, kernel)))
                faults += [Fault(kind, kernel, f"number {place + 1} of {count}", pattern, replacement, place, count) for place in range(count)]
    return faults


def plant(fault: Fault, shipped: Path, folder: Path) -> None:
    """Copies the PTX with the fault."""
    changed = 0
    for path in shipped.glob("*.ptx"):
        text = path.read_text()
        if fault.kernel in entry_names(text):
            text, changed = fault.planted(text), changed + 1
        Path(folder, path.name).write_text(text)
    if changed != 1:
        raise PatternLost(f"{fault.kernel} is in {changed} modules")


def attempt(arguments) -> dict:
    """Plants a fault and runs the cases of its kernel with a seed, up to the first that finds it."""
    import run

    fault, seed, shipped = arguments
    began, found, how = time.monotonic(), False, "every case passes"
    try:
        with tempfile.TemporaryDirectory() as folder:
            plant(fault, shipped, Path(folder))
            for case in run.all_cases(False):
                if fault.kernel not in case.kernels or "small" not in case.sets:
                    continue
                result = run.run_case(case, Path(folder), seed, False)
                if not result["ok"]:
                    # a text that the interpreter does not know is no finding
                    found, how = "Unsupported" not in result["message"], f"{case.name}: {result['message']}"
                    break
    except PatternLost as lost:
        how = f"not planted: {lost}"
    return {"found": found, "how": how, "seconds": time.monotonic() - began}


def not_tried(work, message: str) -> dict:
    """What stands for an attempt whose process did not answer."""
    return {"found": False, "how": message, "seconds": 0.0}


def hunt(workers, shipped: Path, faults: list[Fault], seeds):
    """For each fault how many seeds found it, as rows of run.py's table, one after the other."""
    work = [(fault, seed, shipped) for fault in faults for seed in seeds]
    outcomes = workers.map(attempt, work, not_tried)
    needed = min(ENOUGH, len(seeds))
    for fault in faults:
        attempts = [next(outcomes) for _ in seeds]
        count = sum(one["found"] for one in attempts)
        ok = count >= needed
        how = next(one["how"] for one in attempts if one["found"] == ok)
        yield {"case": f"planted: {fault.kind}", "kernel": fault.kernel, "shape": f"{fault.kernel}: {fault.what}", "ok": ok,
               "error": 0.0, "bound": 0.0, "first_wrong": None, "seconds": round(sum(one["seconds"] for one in attempts), 2),
               "message": "" if ok else f"found by {count} of {len(seeds)} seeds: {how}", "instructions": 0, "seeds": count, "how": how}


def line_of(row: dict, seeds: int) -> str:
    """A row of the table of faults."""
    return f"{row['case']:36} {row['shape'][:78]:78} {row['seeds']} of {seeds} seeds  {'found' if row['ok'] else 'MISSED'}: {row['how'][:110]}"


def main() -> int:
    import run

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="faults whose kind, kernel or text have this regular expression")
    parser.add_argument("--sweep", action="store_true", help="every barrier, fence and wait of all kernels instead, with one seed")
    parser.add_argument("--seeds", type=int, help="how many seeds")
    options = parser.parse_args()
    seeds = range(options.seeds or (1 if options.sweep else len(SEEDS)))
    faults = [fault for fault in (sweep(run.SHIPPED) if options.sweep else FAULTS)
              if re.search(options.only, f"{fault.kind} {fault.kernel} {fault.what}")]
    began = time.monotonic()
    with Workers(options.jobs, run.LIMIT) as workers:
        rows = []
        for row in hunt(workers, run.SHIPPED, faults, seeds):
            rows.append(row)
            print(line_of(row, len(seeds)), flush=True)
    found = sum(row["ok"] for row in rows)
    print(f"{found} of {len(rows)} faults found by {min(ENOUGH, len(seeds))} or more of {len(seeds)} seeds, {time.monotonic() - began:.0f} s")
    return 0 if found == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
