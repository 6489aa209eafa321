"""Number formats and roundings that numpy does not have."""

import numpy as np

TYPES = {"f32": np.float32, "bf16": np.uint16, "f16": np.uint16}


def widen_bf16(bits: np.ndarray) -> np.ndarray:
    """Float32 values of bfloat16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow_bf16(values: np.ndarray) -> np.ndarray:
    """Bits of the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype(np.uint16)


def cut_bf16(values: np.ndarray) -> np.ndarray:
    """Bits of the bfloat16 that is next toward zero."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), bits).astype(np.uint16)


def widen(bits: np.ndarray, number: str) -> np.ndarray:
    """Float32 values of an array as it is in memory, where `number` is f32, bf16 or f16."""
    if number == "f32":
        return bits
    return widen_bf16(bits) if number == "bf16" else bits.view(np.float16).astype(np.float32)


def narrow(values: np.ndarray, number: str) -> np.ndarray:
    """An array as it is in memory: the nearest numbers of this format."""
    if number == "f32":
        return np.ascontiguousarray(values, np.float32)
    return narrow_bf16(values) if number == "bf16" else values.astype(np.float16).view(np.uint16)


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The float64 sum rounded to odd: a second rounding to float32 is then as if it were the only one."""
    total, error = two_sum(a, b)
    bits = np.array(total, np.float64, ndmin=1).view(np.int64)
    inexact = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
    away = (error > 0) == (total > 0)
    return (bits + np.where(inexact, np.where(away, 1, -1), 0)).view(np.float64)


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray, down: bool = False) -> np.ndarray:
    """The product and sum of float32, rounded once: to the nearest, or down."""
    exact = odd_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    result = exact.astype(np.float32)
    if not down:
        return result
    return np.where(result.astype(np.float64) > exact, np.nextafter(result, np.float32(-np.inf)), result)


def _halves(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = value * 134217729.0
    high = scaled - (scaled - value)
    return high, value - high


def fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The product and sum of float64, from exact parts (at most a bit off in the last place)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total, rest = two_sum(product, c)
    exact = total + (rest + error)
    return np.where(np.isfinite(exact), exact, product + c)


def toward_zero(values: np.ndarray) -> np.ndarray:
    """Float64 cut off to float32."""
    nearest = values.astype(np.float32)
    over = np.abs(nearest.astype(np.float64)) > np.abs(values)
    return np.where(over, np.nextafter(nearest, np.float32(0)), nearest)
