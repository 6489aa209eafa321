"""What the sums of tensor cores are like, found out from a few multiplies: how many products make one sum, to how many bits the
addends are kept, and how the sum is rounded. `multiply` computes what such tensor cores would."""

import math
import struct
from dataclasses import dataclass

import numpy as np

BLOCKS = 64  # multiplies of random numbers
COMPARED = 16  # of these, that are computed here, too


@dataclass(frozen=True)
class Sums:
    """Products of `together` neighbouring inputs and the sum so far are cut to `extra` bits below those of the largest of them,
    added, and rounded `toward` zero or nearest."""

    together: int
    extra: int
    toward: str

    def __str__(self):
        return f"sums of {self.together} products, {self.extra} extra bits, rounded toward {self.toward}"


# The kinds that the interpreter of tests/ptx has (CARDS in tensor_core.py).
INTERPRETED = {"A100": Sums(8, 1, "zero"), "H100": Sums(16, 2, "zero")}


def bits(value):
    """bfloat16 of a number that is one."""
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def value(half):
    return struct.unpack("<f", struct.pack("<I", half << 16))[0]


def exponent(value):
    return math.frexp(value)[1] - 1


def dot(sums, left, right, start):
    """One element of a multiply, by integers. Products have the exponent of their factors' sum, as hardware has it."""
    total = start
    for first in range(0, 16, sums.together):
        factors = list(zip(left[first : first + sums.together], right[first : first + sums.together]))
        products = [l * r for l, r in factors]
        scales = [exponent(l) + exponent(r) for l, r in factors if l * r] + ([exponent(total)] if total else [])
        if not scales:
            continue
        # the unit of the last bit that is kept
        unit = max(scales) - 23 - sums.extra
        whole = sum(int(math.ldexp(addend, -unit)) for addend in [total, *products])
        total = rounded(whole, unit, sums.toward)
    return total


def rounded(whole, unit, toward):
    """whole * 2^unit as a float32."""
    size = abs(whole)
    drop = max(size.bit_length() - 24, 0)
    kept, rest = size >> drop, size & ((1 << drop) - 1)
    if toward == "nearest" and drop and (rest > 1 << (drop - 1) or (rest == 1 << (drop - 1) and kept & 1)):
        kept += 1
    return math.copysign(math.ldexp(kept, unit + drop), whole)


def multiply(sums, a, b, c):
    """[blocks, 16, 8] of a [blocks, 16, 16], b [blocks, 8, 16] (bfloat16 bits) and c."""
    out = np.zeros_like(c)
    for block in range(len(c)):
        left = [[value(int(half)) for half in row] for row in a[block]]
        right = [[value(int(half)) for half in row] for row in b[block]]
        for row in range(16):
            for column in range(8):
                if any(left[row]) or c[block, row, column]:
                    out[block, row, column] = dot(sums, left[row], right[column], float(c[block, row, column]))
    return out


def questions():
    """Rows of multiplies, each a question: its inputs, right factors and start."""
    asked = {}
    for at in range(2, 16):
        # 1 - 1 + tiny: the tiny one survives only in a later sum
        asked["apart", at] = ([1.0, -1.0] + [2.0**-40 if i == at else 0.0 for i in range(2, 16)], 0.0)
    for extra in range(1, 4):
        # 1 + 2^extra products, which make a unit of its last place together, if each is kept
        asked["kept", extra] = ([2.0 ** -(23 + extra)] * 2**extra + [0.0] * (16 - 2**extra), 1.0)
    # one and a half units of its last place
    asked["rounded"] = ([2.0**-23] * 3 + [0.0] * 13, 2.0)
    return asked


def pack(random):
    """a, b and c of all questions, then of random numbers, as bytes."""
    asked = list(questions().values())
    blocks = BLOCKS + 1 + len(asked) // 16
    a, b, c = np.zeros((blocks, 16, 16), np.uint16), np.zeros((blocks, 8, 16), np.uint16), np.zeros((blocks, 16, 8), np.float32)
    b[:] = bits(1.0)
    for i, (left, start) in enumerate(asked):
        a[i // 16, i % 16] = [bits(x) for x in left]
        c[i // 16, i % 16] = start
    first = blocks - BLOCKS
    for matrix in (a, b):
        wild = random.standard_normal(matrix[first:].shape) * 2.0 ** random.integers(-6, 7, matrix[first:].shape)
        matrix[first:] = (wild.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    c[first:] = random.standard_normal(c[first:].shape).astype(np.float32)
    return a, b, c


def infer(d):
    """The kind of sums that the questions' answers show."""
    answers = {what: d[i // 16, i % 16, 0] for i, what in enumerate(questions())}
    apart = [at for at in range(2, 16) if answers["apart", at] != 0]
    together = apart[0] if apart else 16
    kept = [extra for extra in range(1, 4) if extra == 1 or extra < together.bit_length()]
    extra = max([n for n in kept if answers["kept", n] != 1.0], default=0)
    toward = "nearest" if answers["rounded"] == np.float32(2 + 2 * 2.0**-22) else "zero"
    return Sums(together, extra, toward)


def explained(sums, a, b, c, d):
    """The part of the random multiplies' results that such sums give, bit for bit."""
    first = len(d) - BLOCKS
    few = slice(first, first + COMPARED)
    return float(np.mean(multiply(sums, a[few], b[few], c[few]).view(np.uint32) == d[few].view(np.uint32)))
