"""mma.sync.m16n8k16 from the index formulas of the PTX ISA (9.7.14.5.8: fragments for .f16 and .bf16)."""

from dataclasses import dataclass

import numpy as np

from bits import toward_zero, widen


@dataclass(frozen=True)
class Sums:
    """How tensor cores add: the products of `together` neighbouring inputs and the sum so far, each cut off `extra` bits below the
    last bit of the largest, then cut off to float32. benches/gpu/probe.py asks a card which it has."""

    together: int
    extra: int


# as published measurements have them
CARDS = {"A100": Sums(8, 1), "H100": Sums(16, 2)}

LANE = np.arange(32)
GROUP, THREAD = LANE >> 2, LANE & 3


def _places(count: int, row, column, width: int) -> np.ndarray:
    """For each element of a matrix (rows of `width`), its index in [register halves or registers, 32 lanes]."""
    index = np.zeros((32 * count // width, width), np.intp)
    for element in range(count):
        index[row(element), column(element)] = element * 32 + LANE
    return index


# a0,a1 | a2,a3 | a4,a5 | a6,a7 are the halves of four registers
A_PLACES = _places(8, lambda i: GROUP + (0 if i % 4 < 2 else 8), lambda i: THREAD * 2 + (i & 1) + (8 if i >= 4 else 0), 16)
B_PLACES = _places(4, lambda i: THREAD * 2 + (i & 1) + (8 if i >= 2 else 0), lambda i: GROUP, 8)
C_PLACES = _places(4, lambda i: GROUP + (0 if i < 2 else 8), lambda i: THREAD * 2 + (i & 1), 8)
# where the element of each lane and register of the result is in its matrix
D_ROWS = np.stack([GROUP + (0 if i < 2 else 8) for i in range(4)])
D_COLUMNS = np.stack([THREAD * 2 + (i & 1) for i in range(4)])


def _matrix(registers: list[np.ndarray], places: np.ndarray, number: str) -> np.ndarray:
    """The matrices of all warps, from registers that hold two numbers each."""
    halves = np.stack(registers).reshape(len(registers), -1, 32)
    parts = np.stack([halves & np.uint32(0xFFFF), halves >> np.uint32(16)], 1).astype(np.uint16)
    by_warp = parts.reshape(2 * len(registers), -1, 32).transpose(1, 0, 2).reshape(halves.shape[1], -1)
    return widen(np.ascontiguousarray(by_warp), number).astype(np.float64)[:, places]


def _exponents(values: np.ndarray) -> np.ndarray:
    """Where the first bits of numbers are; zeros have none."""
    return np.where(values == 0, -10000, np.frexp(values)[1])


def _add_as(sums: Sums, left: np.ndarray, right: np.ndarray, total: np.ndarray) -> np.ndarray:
    """left @ right + total for matrices of all warps."""
    for first in range(0, 16, sums.together):
        rows, columns = left[:, :, None, first:first + sums.together], right.transpose(0, 2, 1)[:, None, :, first:first + sums.together]
        # a product is as large as its factors say, though its first bit may be one higher
        largest = np.maximum((_exponents(rows) + _exponents(columns)).max(3) - 1, _exponents(total))
        unit = np.ldexp(1.0, np.maximum(largest - 24 - sums.extra, -1000))
        kept = np.trunc(rows * columns / unit[..., None]).sum(3) + np.trunc(total / unit)
        total = toward_zero(kept * unit).astype(np.float64)
    return total.astype(np.float32)


def multiply(a: list[np.ndarray], b: list[np.ndarray], c: list[np.ndarray], number: str, sums: Sums | None) -> list[np.ndarray]:
    """D = A B + C for whole warps, lane after lane. Without `sums` they are exact and rounded once, to the nearest."""
    left, right = _matrix(a, A_PLACES, number), _matrix(b, B_PLACES, number)
    start = np.stack(c).reshape(4, -1, 32).transpose(1, 0, 2).reshape(left.shape[0], 128)[:, C_PLACES].astype(np.float64)
    result = _add_as(sums, left, right, start) if sums else (left @ right + start).astype(np.float32)
    return [result[:, D_ROWS[i], D_COLUMNS[i]].reshape(-1) for i in range(4)]
