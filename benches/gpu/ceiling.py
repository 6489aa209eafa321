"""TFLOP/s of torch's product of two bfloat16 matrices of 8192 x 8192: what the card's tensor cores reach."""

import statistics
import time

import torch

n = 8192
a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in "ab")
seconds = []
for turn in range(8):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        a @ b
    torch.cuda.synchronize()
    seconds.append((time.perf_counter() - start) / 10)
print(f"torch {torch.__version__}, {n} x {n} x {n}: {2e-12 * n**3 / statistics.median(seconds[3:]):.0f} TFLOP/s")
