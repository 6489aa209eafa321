"""The interface of interpreter.py on a real card, by CuPy: launches the checked-in PTX, or cubins of the same names.

It has never run: no card was there. References are computed on the card, too, by torch in float64.
"""

from pathlib import Path

import cupy
import numpy as np
import torch

import ptx_text
from faults import KernelFault

GUARD = 1024
ARGUMENTS = {"u64": np.uint64, "u32": np.uint32, "f32": np.float32}


class Memory:
    """Buffers in memory of the card, each with guards of 0xFF around it, and full of poison at first."""

    poison = 0xFF

    def __init__(self):
        self.buffers: list[tuple[cupy.ndarray, int]] = []

    def room(self, shape, dtype) -> int:
        """The address of an array that is not initialised."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        buffer = cupy.full(size + 2 * GUARD, self.poison, cupy.uint8)
        self.buffers.append((buffer, size))
        return int(buffer.data.ptr) + GUARD

    def put(self, array) -> int:
        """The address of a copy of the array."""
        array = np.ascontiguousarray(array)
        at = self.room(array.shape, array.dtype)
        if array.nbytes:
            self.buffers[-1][0][GUARD:GUARD + array.nbytes].set(array.reshape(-1).view(np.uint8))
        return at

    def get(self, at: int, shape, dtype) -> np.ndarray:
        """A copy of the array at an address."""
        buffer = next(buffer for buffer, _ in self.buffers if buffer.data.ptr + GUARD == at)
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return cupy.asnumpy(buffer[GUARD:GUARD + size]).view(dtype).reshape(shape)

    def check_guards(self, name: str) -> None:
        for i, (buffer, size) in enumerate(self.buffers):
            guards = cupy.concatenate([buffer[:GUARD], buffer[GUARD + size:]])
            if int((guards != self.poison).sum()):
                raise KernelFault(f"{name}: wrote outside of buffer {i}")


class Machine:
    """The kernels of a folder: NAME.cubin where it has one, else NAME.ptx, beside which the parameters are read."""

    on_card = True

    def __init__(self, folder: str | Path, seed: int | None = 0, sums=None):
        self.parsed = {path.stem: ptx_text.parse(path.read_text()) for path in sorted(Path(folder).glob("*.ptx"))}
        self.paths = {stem: path if (path := Path(folder, f"{stem}.cubin")).exists() else Path(folder, f"{stem}.ptx") for stem in self.parsed}
        self.where = {name: stem for stem, module in self.parsed.items() for name in module.kernels}
        self.modules: dict[str, cupy.RawModule] = {}
        self.executed = 0

    def memory(self) -> Memory:
        """Memory without buffers."""
        return Memory()

    def launch(self, memory: Memory, name: str, grid, block: int, arguments, dynamic: int = 0) -> None:
        """Runs a kernel on a grid and waits for it."""
        stem = self.where[name]
        if stem not in self.modules:
            self.modules[stem] = cupy.RawModule(path=str(self.paths[stem]))
        kinds = [kind.lstrip(".") for _, kind in self.parsed[stem].kernels[name].parameters]
        typed = tuple(ARGUMENTS[kind](argument) for kind, argument in zip(kinds, arguments, strict=True))
        try:
            self.modules[stem].get_function(name)((*grid, 1, 1)[:3], (block, 1, 1), typed, shared_mem=dynamic)
            cupy.cuda.runtime.deviceSynchronize()
        except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
            raise KernelFault(f"{name}: {error}") from None
        memory.check_guards(name)
        self.executed += 1

    def product(self, x: np.ndarray, weight: np.ndarray, number: str) -> np.ndarray:
        """x times the transposed weight in float64, some outputs at a time."""
        def wide(array):
            kind = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[number]
            array = torch.from_numpy(np.array(array).view(np.float32 if number == "f32" else np.int16))
            return array.cuda().view(kind).double()

        left = wide(x)
        return np.concatenate([(left @ wide(weight[i:i + 8192]).T).cpu().numpy() for i in range(0, len(weight), 8192)], 1)
