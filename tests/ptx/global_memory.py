"""Global memory as the threads of a launch see it.

A store is held back until a fence of its thread, or of a thread of its block that has passed a barrier since; until then other
blocks read what was there before. A thread that has not passed a fence since another block's store was let go may still read
the old value, and does. So a handover between blocks works only with both of its fences. Besides, a load of what another thread
has stored gives poison unless something orders them: luck with the order of warps does not help a kernel. (It is no fault by
itself: kernels read places again that they do not use.)
"""

import numpy as np

from faults import KernelFault
from order import Order

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
GUARD = 1024
UNIT = 2  # bytes of which writer and time are known
NOBODY = -1


class Threads:
    """Who accesses memory: threads of the launch, their blocks, the barriers passed, and when they last passed a fence."""

    def __init__(self, number, block, epoch, acquired):
        self.number, self.block, self.epoch, self.acquired = number, block, epoch, acquired


class Memory:
    """Buffers with guards between. What was not written holds `poison`."""

    def __init__(self, poison: int = 0xFF):
        self.poison, self.top = poison, 4 * GUARD
        self.bytes = np.zeros(0, np.uint8)
        self.inside = np.zeros(0, bool)
        self.held = np.zeros(0, bool)
        self.constants: dict[str, int] = {}
        self._grow(1 << 16)
        self.random = None
        self.begin(None)

    def _grow(self, size: int) -> None:
        def longer(array, count, filler):
            return np.concatenate([array, np.full(count - len(array), filler, array.dtype)])

        units = size // UNIT
        if not len(self.bytes):
            self.shadow = self.before = np.zeros(0, np.uint16)
            self.thread = self.block = self.visible_block = self.epoch = self.time = self.stamp = np.zeros(0, np.int32)
        self.bytes, self.inside = longer(self.bytes, size, self.poison), longer(self.inside, size, False)
        self.held, self.shadow, self.before = (longer(a, units, 0) for a in (self.held, self.shadow, self.before))
        # of the last store: its thread, block, and how many barriers its block had passed
        self.thread, self.block, self.visible_block = (longer(a, units, NOBODY) for a in (self.thread, self.block, self.visible_block))
        self.epoch, self.time, self.stamp = (longer(a, units, 0) for a in (self.epoch, self.time, self.stamp))

    def room(self, shape, dtype) -> int:
        """The address of an array that is not initialised."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        at = self.top
        self.top = -(-(at + size) // 256) * 256 + GUARD
        while self.top > len(self.bytes):
            self._grow(2 * len(self.bytes))
        self.inside[at:at + size] = True
        return at

    def put(self, array) -> int:
        """The address of a copy of the array."""
        array = np.ascontiguousarray(array)
        at = self.room(array.shape, array.dtype)
        self.bytes[at:at + array.nbytes] = array.view(np.uint8).reshape(-1)
        return at

    def get(self, at: int, shape, dtype) -> np.ndarray:
        """A copy of the array at an address."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.bytes[at:at + size].view(dtype).reshape(shape).copy()

    # a launch

    def begin(self, random, order: Order | None = None) -> None:
        """Begins a launch, whose stores become visible as `random` decides. Without `order` its blocks tell each other nothing."""
        self.random, self.now, self.pending, self.touched, self.order = random, 0, [], [], order

    def end(self) -> None:
        """Ends a launch: all stores are visible to the next one."""
        if self.pending:
            self._let_go(np.concatenate(self.pending))
        for units in self.touched:
            self.thread[units] = self.block[units] = self.visible_block[units] = NOBODY
            self.time[units] = 0
        self.begin(None)

    def _check(self, at: np.ndarray, size: int, what: str) -> None:
        if (at % size).any():
            raise KernelFault(f"{what}: address {int(at[at % size != 0][0]):#x} is not a multiple of {size}")
        ends = at + size - 1
        outside = (at < 0) | (ends >= len(self.bytes))
        if not outside.any():
            outside = ~(self.inside[at] & self.inside[ends])
        if outside.any():
            raise KernelFault(f"{what}: address {int(at[outside][0]):#x} is outside of every buffer")

    @staticmethod
    def _units(at: np.ndarray, width: int) -> np.ndarray:
        return (at // UNIT)[:, None] + np.arange(max(width // UNIT, 1))

    def load(self, at: np.ndarray, width: int, count: int, threads: Threads, constant: bool, what: str) -> list[np.ndarray]:
        """`count` neighbouring numbers of `width` bytes from each address. `constant` promises that nobody writes them."""
        self._check(at, width * count, what)
        memory, first = self.bytes.view(UNSIGNED[width]), at // width
        values = [memory[first + j] for j in range(count)]
        if self.touched:
            for j in range(count):
                values[j] = self._as_seen(values[j], self._units(at + j * width, width), width, threads, constant, what)
        return values

    def _as_seen(self, values, units, width, threads, constant, what):
        held, time = self.held[units], self.time[units]
        if not (held.any() or time.any()):
            return values
        if constant:
            raise KernelFault(f"{what}: reads as constant what this launch writes")
        written_here = self.block[units] == threads.block[:, None]
        writer, reader = self.thread[units], threads.number[:, None]
        own = writer == reader
        if self.order:
            ordered = self.order.before(reader >> 5, writer >> 5, self.stamp[units])
        else:
            ordered = own | (written_here & (self.epoch[units] < threads.epoch[:, None]))
        seen_early = held & (own | (written_here & (self.epoch[units] < threads.epoch[:, None])))
        stale = (time > threads.acquired[:, None]) & (self.visible_block[units] != threads.block[:, None])
        parts = self.bytes.view(np.uint16)[units]
        parts = np.where(stale, self.before[units], parts)
        parts = np.where(seen_early, self.shadow[units], parts)
        parts = np.where((writer == NOBODY) | ordered, parts, np.uint16(self.poison * 0x0101))
        return np.ascontiguousarray(parts).view(UNSIGNED[width]).reshape(-1)

    def store(self, at: np.ndarray, values: list[np.ndarray], width: int, threads: Threads, what: str) -> None:
        """Stores neighbouring numbers at each address: held back, except for one in four, which is visible at once."""
        self._check(at, width * len(values), what)
        for j, value in enumerate(values):
            units = self._units(at + j * width, width)
            before = self.block[units]
            here = threads.block[:, None]
            if ((before != NOBODY) & (before != here)).any():
                raise KernelFault(f"{what}: two blocks write to one place")
            own = threads.number[:, None]
            unordered = (before == here) & (self.thread[units] != own) & (self.epoch[units] == threads.epoch[:, None])
            self.thread[units] = own
            if unordered.any() or (self.thread[units] != own).any():
                raise KernelFault(f"{what}: two threads write to one place without a barrier between")
            self.block[units], self.epoch[units] = here, threads.epoch[:, None]
            if self.order:
                self.stamp[units] = self.order.stamps(own >> 5)
            self.shadow[units] = np.ascontiguousarray(value).view(np.uint16).reshape(units.shape)
            self.held[units] = True
            flat = units.reshape(-1)
            self.touched.append(flat)
            if self.random is not None and self.random.random() < 0.25:
                self._let_go(flat)
            else:
                self.pending.append(flat)

    def _let_go(self, units: np.ndarray) -> None:
        units = units[self.held[units]]
        if not len(units):
            return
        self.now += 1
        memory = self.bytes.view(np.uint16)
        self.before[units] = memory[units]
        memory[units] = self.shadow[units]
        self.time[units], self.visible_block[units], self.held[units] = self.now, self.block[units], False

    def fence(self, threads: Threads) -> int:
        """Lets go what these threads have stored, and what their blocks had before their last barrier. The time of the fence."""
        if self.pending:
            units = np.unique(np.concatenate(self.pending))
            units = units[self.held[units]]
            of_thread = np.isin(self.thread[units], threads.number)
            barriers = np.full(max(int(self.block[units].max(initial=0)), int(threads.block.max())) + 1, -1)
            barriers[threads.block] = threads.epoch
            mine = of_thread | (self.epoch[units] < barriers[self.block[units]])
            self._let_go(units[mine])
            self.pending = [units[~mine]]
        if self.order:
            self.order.fence(np.unique(threads.number >> 5))
        return self.now

    def atomic(self, at: np.ndarray, change, width: int, threads: Threads, what: str) -> np.ndarray:
        """Replaces one number after another by `change(index, number)`, in any order. The numbers before."""
        self._check(at, width, what)
        memory, old = self.bytes.view(UNSIGNED[width]), np.zeros(len(at), UNSIGNED[width])
        order = np.arange(len(at)) if self.random is None else self.random.permutation(len(at))
        for i in order:
            units = self._units(at[i:i + 1], width)[0]
            if self.order:
                self.order.atomic(int(threads.number[i]) >> 5, int(at[i]))
            self._let_go(units[self.block[units] == threads.block[i]])
            self.before[units] = self.bytes.view(np.uint16)[units]
            old[i] = memory[at[i] // width]
            memory[at[i] // width] = change(i, int(old[i])) & ((1 << 8 * width) - 1)
            self.now += 1
            self.time[units], self.visible_block[units] = self.now, threads.block[i]
            self.touched.append(units)
        return old

    def copied(self, at: np.ndarray, sizes: np.ndarray, what: str) -> np.ndarray:
        """16 bytes from each address, of which those after the first `sizes` are 0: a background copy."""
        result = np.zeros((len(at), 16), np.uint8)
        some = np.flatnonzero(sizes)
        if len(some):
            index = at[some][:, None] + np.arange(16)
            wanted = np.arange(16) < sizes[some][:, None]
            safe = np.clip(index, 0, len(self.bytes) - 1)
            if (wanted & ((index != safe) | ~self.inside[safe])).any():
                raise KernelFault(f"{what}: copies from outside of every buffer")
            if self.touched and (wanted & (self.held[safe // UNIT] | (self.time[safe // UNIT] > 0))).any():
                raise KernelFault(f"{what}: copies what this launch writes")
            result[some] = np.where(wanted, self.bytes[safe], 0)
        return result
