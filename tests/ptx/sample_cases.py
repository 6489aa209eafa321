"""Drawn tokens against a plain model of the sampler, and log-probabilities."""

import struct
from dataclasses import dataclass

import numpy as np

from bits import fma32
from checks import Case

BLOCK, MASK = 512, 0xFFFFFFFF
# a draw whose outcome hangs on less than this part of the sum is not compared: the model's sums have another order
CLOSE = 1e-9


@dataclass
class Request:
    """As `SampleRequest` of crates/kernels/src/cuda/sample.rs."""

    row: int
    said: tuple[int, int] = (0, 0)  # where they begin, how many
    top_k: int = 0
    penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    key: tuple[int, int] = (11, 5)
    counter: tuple[int, int, int, int] = (0, 0, 7, 3)

    def packed(self) -> bytes:
        return struct.pack("<4I4f6I", self.row, *self.said, self.top_k, self.penalty, self.temperature, self.top_p, self.min_p,
                           *self.key, *self.counter)

    def uniform(self) -> float:
        """Philox4x32 with ten rounds; 53 bits of its first two words."""
        a, b, c, d = self.counter
        key = list(self.key)
        for _ in range(10):
            left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
            a, b, c, d = (right >> 32) ^ b ^ key[0], right & MASK, (left >> 32) ^ d ^ key[1], left & MASK
            key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
        return ((a << 32 | b) >> 11) / 2**53


def exp_weight(v: np.ndarray) -> np.ndarray:
    """The exponential of the sampler, whose weights have these bits (`Simd::exp`)."""
    def fma(a, b, c):
        return fma32(a, np.float32(b) if np.ndim(b) == 0 else b, np.float32(c) if np.ndim(c) == 0 else c)

    x = np.clip(v, np.float32(-87.3), np.float32(88)).astype(np.float32)
    n = fma(x, 1.4426950408889634, 12582912.0) - np.float32(12582912.0)
    r = fma(n, 2.1219444e-4, fma(n, -0.6933594, x))
    p = np.full_like(x, 1.9875691e-4)
    for coefficient in (1.3981999e-3, 8.333452e-3, 4.1665796e-2, 1.6666665e-1, 0.5):
        p = fma(p, r, coefficient)
    p = fma(p * r, r, r + np.float32(1))
    return np.where(v >= -100, p * np.exp2(n).astype(np.float32), np.float32(0))


def model(logits: np.ndarray, request: Request, said: list[int]) -> tuple[int, float]:
    """The token, and how far the draw is from another one (a part of the sum)."""
    logits = logits.copy()
    first, count = request.said
    penalty = np.float32(request.penalty)
    for token in set(said[first:first + count]) if penalty != 1 else ():
        if token < len(logits):
            logits[token] = logits[token] * penalty if logits[token] < 0 else logits[token] / penalty
    logits = np.where(np.isnan(logits), np.float32(-np.inf), logits + np.float32(0))
    largest = logits.max()
    if request.temperature == 0 or not np.isfinite(largest):
        return int(np.argmax(logits)), 1.0
    scale = np.float32(1) / np.float32(request.temperature)
    weights = exp_weight((logits - largest) * scale).astype(np.float64)
    order = np.argsort(-logits, kind="stable")
    order = order[logits[order] > -np.inf]
    if 0 < request.top_k < len(logits):
        order = order[:request.top_k]
    distance = 1.0
    if request.top_p < 1:
        before = np.cumsum(weights[order]) - weights[order]
        total = weights[order].sum()
        target = total * float(np.float32(request.top_p))
        distance = float(np.abs(before[1:] - target).min(initial=total) / total)
        order = order[:max(int(np.searchsorted(before, target)), 1)]
    kept = np.sort(order[weights[order] >= np.float32(request.min_p)])
    sums = np.cumsum(weights[kept])
    place = request.uniform() * sums[-1]
    distance = min(distance, float(np.abs(sums - place).min() / sums[-1]))
    return int(kept[min(np.searchsorted(sums, place, side="right"), len(kept) - 1)]), distance


def _log_prob(logits: np.ndarray, token: int) -> float:
    """The natural log of a token's probability, NaN counted as minus infinity."""
    wide = np.where(np.isnan(logits), -np.inf, logits.astype(np.float64))
    return wide[token] - wide.max() - np.log(np.exp(wide - wide.max()).sum())


def _compare(machine, check, logits: np.ndarray, requests: list[Request], said: list[int], vocabulary: int) -> None:
    memory, count = machine.memory(), len(requests)
    packed = np.frombuffer(b"".join(request.packed() for request in requests), np.uint32)
    tokens_at, log_probs_at = memory.room(count, np.uint32), memory.room(count, np.float32)
    machine.launch(memory, "sample", (count,), BLOCK,
                   [tokens_at, log_probs_at, memory.put(logits), memory.put(packed), memory.put(np.array(said, np.uint32)), len(logits),
                    vocabulary, logits.shape[1]], dynamic=4 * -(-vocabulary // 32))
    tokens, log_probs = memory.get(tokens_at, count, np.uint32), memory.get(log_probs_at, count, np.float32)
    wanted, far = [], []
    for request in requests:
        token, distance = model(logits[request.row, :vocabulary], request, said) if request.row < len(logits) else (0, 1.0)
        wanted.append(token)
        far.append(distance > CLOSE)
    far = np.array(far)
    check.true("sample", far.mean() > 0.9, "too many draws are too close to compare")
    check.near("sample", np.where(far, tokens, 0)[:, None], np.where(far, wanted, 0)[:, None], 0, "tokens of the requests")
    there = np.array([request.row < len(logits) for request in requests])
    known = np.array([_log_prob(logits[request.row, :vocabulary], min(int(token), vocabulary - 1)) if request.row < len(logits) else np.nan
                      for request, token in zip(requests, tokens)])
    check.near("sample", log_probs[:, None], known[:, None], np.where(there, 2e-6 * (1 + np.abs(np.nan_to_num(known))), 0)[:, None],
               "log-probabilities of the requests")


def _rows(random, vocabulary: int, stride: int) -> np.ndarray:
    """Spread logits, close ones, four values of which many are equal, and one with NaN and infinities. No token has what follows."""
    rows = np.full((4, stride), np.nan, np.float32)
    rows[0, :vocabulary] = random.uniform(-12, 12, vocabulary)
    rows[1, :vocabulary] = random.normal(0, 0.5, vocabulary)
    rows[2, :vocabulary] = np.resize(np.array([0.0, 1.5, 1.5, -2.0], np.float32), vocabulary)
    rows[3, :vocabulary] = random.normal(0, 2, vocabulary)
    rows[3, :vocabulary:3] = np.nan
    rows[3, 1:vocabulary:3] = -np.inf
    return rows


def _grid(vocabulary: int, every: int):
    """All settings with each other, of which one in `every` is tried."""

    def run(machine, random, check):
        logits = _rows(random, vocabulary, vocabulary + 3)
        said = [3, 5, 3, vocabulary - 1, 7, 2**31]
        requests = []
        settings = [(row, temperature, top_k, top_p, min_p) for row in range(4) for temperature in (0.0, 0.8, 1.0) for top_k in (0, 5, 700)
                    for top_p, min_p in ((1.0, 0.0), (0.9, 0.0), (1.0, 0.05), (0.5, 0.02))]
        for i, (row, temperature, top_k, top_p, min_p) in enumerate(settings):
            penalised = i % 5 < 2
            requests.append(Request(row, (i % 2, 5) if penalised else (0, 0), top_k, 1.3 if penalised else 1.0, temperature, top_p, min_p,
                                    counter=(int(random.integers(1 << 32)), i, 7, 3)))
        chosen = [request for i, request in enumerate(requests) if (i + int(random.integers(every))) % every == 0]
        _compare(machine, check, logits, chosen + [Request(4)], said, vocabulary)

    return run


def _real_vocabulary(vocabulary: int, count: int):
    def run(machine, random, check):
        logits = random.normal(0, 2.5, (2, vocabulary)).astype(np.float32)
        logits[0, 77], logits[1, vocabulary - 5] = 14, 11
        said = [77, 5, vocabulary - 1, 77]
        requests = [Request(0, (0, 4), 20, 1.05, 0.7, 0.8, counter=(0, 4, 4, 5)), Request(1, top_p=0.95, counter=(0, 5, 4, 5)),
                    Request(0, top_p=0.8, counter=(0, 3, 4, 5)), Request(1, counter=(9, 5, 4, 5))]
        _compare(machine, check, logits, requests[:count], said, vocabulary)

    return run


def _log_probs(vocabulary: int):
    def run(machine, random, check):
        logits = _rows(random, vocabulary, vocabulary + 1)
        tokens = np.array([1, vocabulary - 1, vocabulary, 2], np.uint32)
        memory = machine.memory()
        out = memory.room(4, np.float32)
        machine.launch(memory, "log_prob", (4,), BLOCK, [out, memory.put(logits), memory.put(tokens), vocabulary, vocabulary + 1])
        wanted = np.array([_log_prob(logits[row, :vocabulary], int(token)) if token < vocabulary else np.nan for row, token in enumerate(tokens)])
        check.near("log_prob", memory.get(out, 4, np.float32)[:, None], wanted[:, None], 2e-6 * (1 + np.abs(np.nan_to_num(wanted)))[:, None])

    return run


def cases(on_card: bool) -> list[Case]:
    """All cases of sampling."""
    found = [Case(f"sample {vocabulary}", ("sample",), f"{-(-144 // every)} requests of 144, vocabulary {vocabulary}", _grid(vocabulary, every),
                  ("small", "quick", "full", "real"))
             for vocabulary, every in ((33, 6), (1500, 9), (5000, 9))]
    found += [Case(f"sample {vocabulary} all settings", ("sample",), f"144 requests, vocabulary {vocabulary}", _grid(vocabulary, 1),
                   ("full", "real") if on_card else ("full",))
              for vocabulary in (33, 1500, 5000)]
    found.append(Case("sample 151936", ("sample",), "a vocabulary of Qwen2.5", _real_vocabulary(151936, 4 if on_card else 2),
                      ("full", "real") if on_card else ("full",), in_step=True))
    found += [Case(f"log_prob {vocabulary}", ("log_prob",), "4 rows", _log_probs(vocabulary), ("small", "quick", "full", "real"))
              for vocabulary in (33, 3000)]
    return found
