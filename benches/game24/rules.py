"""The rules of the Game of 24 with an exact solver: which moves there are, and whether 24 is within reach."""

import math
from fractions import Fraction
from functools import lru_cache


def moves(numbers):
    """The moves with whole, non-negative results: (a, operation, b, result, the numbers that stay)."""
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            if i == j:
                continue
            rest = tuple(sorted(n for k, n in enumerate(numbers) if k not in (i, j)))
            if i < j:
                yield a, "+", b, a + b, rest
                yield a, "*", b, a * b, rest
            if a >= b:
                yield a, "-", b, a - b, rest
            if b and a % b == 0:
                yield a, "/", b, a // b, rest


def ways(numbers, largest=math.inf):
    """How many chains of moves with whole, non-negative results up to `largest` lead to 24. (Some games need fractions; the traces do not use them.)"""
    return _ways(tuple(sorted(numbers)), largest)


@lru_cache(None)
def _ways(numbers, largest):
    if len(numbers) == 1:
        return int(numbers[0] == 24)
    return sum(ways((*rest, result), largest) for _, _, _, result, rest in set(moves(numbers)) if result <= largest)


def within_reach(numbers):
    """Whether any move, also with fractions and negative numbers, leads to 24: the truth of a step."""
    return _within_reach(tuple(sorted(map(Fraction, numbers))))


@lru_cache(None)
def _within_reach(numbers):
    if len(numbers) == 1:
        return numbers[0] == 24
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            if i == j:
                continue
            rest = [n for k, n in enumerate(numbers) if k not in (i, j)]
            results = [a - b] + ([a + b, a * b] if i < j else []) + ([a / b] if b else [])
            if any(_within_reach(tuple(sorted([*rest, result]))) for result in results):
                return True
    return False
