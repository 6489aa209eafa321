"""The interpreter's own roundings against exact fractions."""

from fractions import Fraction

import numpy as np

import bits
from checks import Case


def _numbers(random, count: int, dtype) -> np.ndarray:
    """Numbers of many sizes, of which some are short, so that sums of products lie in the middle of two others."""
    drawn = random.normal(0, 1, count) * 2.0 ** random.integers(-12, 13, count)
    short = np.ldexp(random.integers(-64, 65, count).astype(np.float64), random.integers(-30, 31, count))
    return np.where(random.random(count) < 0.5, drawn, short).astype(dtype)


def _rounded(exact: Fraction, dtype, down: bool):
    """The nearest number, of two the even one; or the largest that is not above."""
    start = dtype(float(exact))
    around = [np.nextafter(start, dtype(-np.inf)), start, np.nextafter(start, dtype(np.inf))]
    if down:
        return max(number for number in around if Fraction(float(number)) <= exact)
    whole = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    return min(around, key=lambda number: (abs(Fraction(float(number)) - exact), int(number.view(whole)) & 1))


def _fma32(machine, random, check):
    a, b, c = (_numbers(random, 2000, np.float32) for _ in range(3))
    # half of the sums cancel almost all
    c[::2] = -(a[::2] * b[::2])
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c)]
    for down in (False, True):
        wanted = np.array([_rounded(one, np.float32, down) for one in exact])
        check.near("", bits.fma32(a, b, c, down), wanted, 0, "rounded down" if down else "rounded to the nearest")


def _fma64(machine, random, check):
    a, b, c = (_numbers(random, 2000, np.float64) for _ in range(3))
    c[::2] = -(a[::2] * b[::2])
    exact = [Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())]
    wanted = np.array([float(one) for one in exact])
    check.near("", bits.fma64(a, b, c), wanted, np.spacing(np.abs(wanted)))


def _narrow(machine, random, check):
    values = _numbers(random, 4000, np.float32)
    around = values.view(np.uint32) & np.uint32(0xFFFF0000)
    # in the middle of two bfloat16
    values[::2] = (around | np.uint32(0x8000)).view(np.float32)[::2]
    low, high = around.view(np.float32), (around + np.uint32(0x10000)).view(np.float32)
    even = np.where((around >> np.uint32(16)) & np.uint32(1) == 0, low, high)
    below, above = np.abs(values.astype(np.float64) - low), np.abs(high.astype(np.float64) - values)
    wanted = np.where(below < above, low, np.where(above < below, high, even))
    check.near("", bits.widen_bf16(bits.narrow_bf16(values)), wanted, 0, "to the nearest bfloat16")
    check.near("", bits.widen_bf16(bits.cut_bf16(values)), low, 0, "bfloat16 cut off")


def _cut_off(machine, random, check):
    values = _numbers(random, 2000, np.float64)
    got = bits.toward_zero(values).astype(np.float64)
    further = np.nextafter(got.astype(np.float32), np.copysign(np.float32(np.inf), values.astype(np.float32))).astype(np.float64)
    check.true("", bool(((np.abs(got) <= np.abs(values)) & (np.abs(further) > np.abs(values))).all()), "not the next float toward zero")


def cases(on_card: bool) -> list[Case]:
    """The interpreter's cases; a card rounds by itself."""
    if on_card:
        return []
    return [Case(f"interpreter {name}", (), "2000 numbers", run)
            for name, run in (("fma32", _fma32), ("fma64", _fma64), ("bfloat16", _narrow), ("cut off", _cut_off))]
