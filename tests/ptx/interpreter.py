"""Executes the kernels of PTX files with numpy: any number of warps at once, in an order that a seed chooses.

Blocks are executed some at a time, in a random order. Memory, shared memory and registers hold poison at first.
"""

from pathlib import Path

import numpy as np

import operations
import ptx_text
from bits import widen
from faults import KernelFault
from global_memory import Memory
from kernel import compiled
from order import Order
from tensor_core import Sums
from resident import Wave

SHARED_LIMIT = 48 << 10
MOST_LANES = 4096  # that are resident together


class Machine:
    """The kernels of a folder of PTX files. `seed` chooses the order of everything; None runs all warps in step."""

    on_card = False

    def __init__(self, folder: str | Path, seed: int | None = 0, sums: Sums | None = None):
        texts = [path.read_text() for path in sorted(Path(folder).glob("*.ptx"))]
        self.texts = {name: text for text in texts for name in ptx_text.entry_names(text)}
        self.sums = sums
        self.random = None if seed is None else np.random.default_rng(seed)
        self.poison = 0xFF if seed is None or seed % 2 == 0 else 0x4B
        self.executed = 0

    def memory(self) -> Memory:
        """Memory without buffers."""
        return Memory(self.poison)

    def product(self, x: np.ndarray, weight: np.ndarray, number: str) -> np.ndarray:
        """x times the transposed weight in float64, of arrays as they are in memory."""
        return widen(x, number).astype(np.float64) @ widen(weight, number).astype(np.float64).T

    def launch(self, memory: Memory, name: str, grid, block: int, arguments, dynamic: int = 0) -> None:
        """Runs a kernel on a grid; `dynamic` bytes of shared memory come after what it declares."""
        kernel = compiled(self.texts[name], name)
        if block > kernel.body.most_threads or block % 32:
            raise KernelFault(f"{name}: blocks of {block} threads, {kernel.body.most_threads} are allowed")
        shared = kernel.dynamic_at + dynamic
        if shared > SHARED_LIMIT:
            raise KernelFault(f"{name}: {shared} bytes of shared memory, {SHARED_LIMIT} are allowed")
        grid = (*grid, 1, 1)[:3]
        if max(grid[1:]) > 65535:
            raise KernelFault(f"{name}: a grid of {grid}")
        for symbol, data in kernel.constants.items():
            if symbol not in memory.constants:
                memory.constants[symbol] = memory.put(np.frombuffer(data, np.uint8))
        passed = {place: operations.DTYPES[kind.lstrip(".")](value)
                  for (place, kind), value in zip(kernel.body.parameters, arguments, strict=True)}
        blocks = np.arange(int(np.prod(grid)))
        most = max(MOST_LANES // block, 1)
        if self.random is not None:
            self.random.shuffle(blocks)
            if self.random.random() < 0.25:
                most = min(most, int(self.random.integers(2, 6)))
        hands_over = any(instruction.kind == "handover" for instruction in kernel.instructions)
        memory.begin(self.random, Order(len(blocks) * block // 32) if hands_over else None)
        try:
            with np.errstate(all="ignore"):
                for first in range(0, len(blocks), most):
                    wave = Wave(self, kernel, memory, blocks[first:first + most], grid, block, passed, shared)
                    self.executed += wave.run()
        except KernelFault as fault:
            raise KernelFault(f"{name}: {fault}") from None
        finally:
            memory.end()
