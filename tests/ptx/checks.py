"""Cases, and the comparison of what a kernel gave with what was wanted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensor_core import Sums


@dataclass
class Check:
    """What a case has compared so far: its worst error, and the first wrong place."""

    error: float = 0.0
    bound: float = 0.0
    wrong: dict | None = None
    kernel: str | None = None
    message: str = ""

    @property
    def ok(self) -> bool:
        return not self.message

    def fail(self, kernel: str, message: str) -> None:
        """Notes a fault. The first one counts."""
        if self.ok:
            self.kernel, self.message = kernel, message

    def true(self, kernel: str, holds: bool, message: str) -> None:
        """Fails unless a condition holds."""
        if not holds:
            self.fail(kernel, message)

    def near(self, kernel: str, got, wanted, bound, what: str = "") -> None:
        """Compares matrices. `bound` is the largest error, of all or of each place; NaN equals NaN only."""
        got, wanted = (np.atleast_2d(np.asarray(a, np.float64)) for a in (got, wanted))
        bound = np.broadcast_to(np.asarray(bound, np.float64), wanted.shape)
        with np.errstate(invalid="ignore"):
            error = np.where((got == wanted) | (np.isnan(got) & np.isnan(wanted)), 0.0, np.abs(got - wanted))
        error = np.where(np.isnan(error), np.inf, error)
        if error.size == 0:
            return
        # the worst beside its bound; exact places count when they are wrong
        ratio = np.where(bound > 0, error / np.where(bound > 0, bound, 1), np.where(error > 0, np.inf, 0))
        worst = np.unravel_index(int(ratio.argmax()), ratio.shape)
        if self.bound == 0 or error[worst] * self.bound > self.error * bound[worst]:
            self.error, self.bound = float(error[worst]), float(bound[worst])
        bad = error > bound
        if bad.any() and self.ok:
            row, column = (int(i) for i in np.argwhere(bad)[0])
            self.wrong = {"row": row, "column": column, "got": float(got[row, column]), "wanted": float(wanted[row, column])}
            self.fail(kernel, f"{what or 'result'}: {int(bad.sum())} of {bad.size} places differ")

    def equal(self, kernel: str, got, wanted, what: str) -> None:
        """Compares bits, of which NaN has its own."""
        got, wanted = (np.atleast_2d(a) for a in (got, wanted))
        bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[got.dtype.itemsize]
        bad = got.view(bits) != wanted.view(bits)
        if bad.any() and self.ok:
            row, column = (int(i) for i in np.argwhere(bad)[0])
            self.wrong = {"row": row, "column": column, "got": float(got[row, column]), "wanted": float(wanted[row, column])}
            self.fail(kernel, f"{what}: the bits of {int(bad.sum())} of {bad.size} places differ")


@dataclass
class Case:
    """Something to try: `run(machine, random, check)`. The set `small` is what planted faults are sought with."""

    name: str
    kernels: tuple[str, ...]
    shape: str
    run: Callable
    sets: tuple[str, ...] = ("small", "quick", "full")
    # None: all warps in step, which is faster; the order of warps does not matter to what is compared
    in_step: bool = False
    # what the sums of tensor cores are like; None: exact, and rounded once
    sums: Sums | None = None


def values(random: np.random.Generator, shape, number: str) -> np.ndarray:
    """Random numbers as they are in memory, none near 0: of 16 bits +-[1/8, 1/2), of 32 in (-1, 1)."""
    if number == "f32":
        return random.uniform(-1, 1, shape).astype(np.float32)
    bits = np.frombuffer(random.bytes(2 * int(np.prod(shape))), np.uint16).reshape(shape)
    keep, exponent = (0x80FF, 0x3E00) if number == "bf16" else (0x87FF, 0x3000)
    return bits & np.uint16(keep) | np.uint16(exponent)


def rounding(number: str, wanted: np.ndarray) -> np.ndarray:
    """The error of rounding to a format, with a margin for what lies just beside the middle of two numbers."""
    relative, smallest = {"f32": (2.0**-24, 0.0), "bf16": (2.0**-8, 0.0), "f16": (2.0**-11, 2.0**-25)}[number]
    return 1.01 * (relative * np.abs(wanted) + smallest)
