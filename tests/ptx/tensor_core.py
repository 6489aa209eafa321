"""mma.sync.m16n8k16 from the index formulas of the PTX ISA (9.7.14.5.8: fragments for .f16 and .bf16)."""

import numpy as np

from bits import toward_zero, widen

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


def multiply(a: list[np.ndarray], b: list[np.ndarray], c: list[np.ndarray], number: str, truncate: bool) -> list[np.ndarray]:
    """D = A B + C for whole warps, lane after lane. Sums are exact and rounded once, to the nearest; with `truncate` as tensor
    cores do it: cut off after each eight products."""
    left, right = _matrix(a, A_PLACES, number), _matrix(b, B_PLACES, number)
    start = np.stack(c).reshape(4, -1, 32).transpose(1, 0, 2).reshape(left.shape[0], 128)[:, C_PLACES].astype(np.float64)
    if truncate:
        half = toward_zero(left[:, :, :8] @ right[:, :8] + start).astype(np.float64)
        result = toward_zero(left[:, :, 8:] @ right[:, 8:] + half)
    else:
        result = (left @ right + start).astype(np.float32)
    return [result[:, D_ROWS[i], D_COLUMNS[i]].reshape(-1) for i in range(4)]
