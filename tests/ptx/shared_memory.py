"""Shared memory of the resident blocks. Accesses of two lanes, of which one writes, need a barrier between them."""

import numpy as np

from faults import KernelFault
from global_memory import UNSIGNED

NONE, MANY = -1, -2
WORD = 4  # bytes of which readers and writers are known


class SharedMemory:
    """The shared memory of `places` blocks, full of poison."""

    def __init__(self, places: int, size: int, poison: int):
        self.size = size
        self.stride = -(-max(size, 16) // 16) * 16
        self.bytes = np.full(places * self.stride, poison, np.uint8)
        words = len(self.bytes) // WORD
        # of the last write and read: barriers of the block and of the warp passed before, warp, lane
        self.write_epoch, self.read_epoch = np.full(words, NONE), np.full(words, NONE)
        self.write_step, self.read_step = np.full(words, NONE), np.full(words, NONE)
        self.write_lane, self.read_lane = np.full(words, NONE), np.full(words, NONE)

    def _check(self, at: np.ndarray, size: int, what: str) -> None:
        if (at % size).any():
            raise KernelFault(f"{what}: shared address {int(at[at % size != 0][0])} is not a multiple of {size}")
        outside = (at < 0) | (at + size > self.size)
        if outside.any():
            raise KernelFault(f"{what}: shared address {int(at[outside][0])} is outside of {self.size} bytes")

    def _note_read(self, words, lanes, what) -> None:
        lane, epoch, step = lanes.number, lanes.epoch, lanes.step
        same = self.write_epoch[words] == epoch
        writer = self.write_lane[words]
        if same.any() and (same & (writer != lane) & ((writer >> 5 != lane >> 5) | (self.write_step[words] == step))).any():
            raise KernelFault(f"{what}: reads shared memory that another thread has written, without a barrier between")
        # one reader is kept; readers of several warps become MANY
        again = self.read_epoch[words] == epoch
        reader = self.read_lane[words]
        mixed = again & ((reader == MANY) | (reader >> 5 != lane >> 5))
        self.read_lane[words] = np.where(mixed, MANY, lane)
        self.read_epoch[words], self.read_step[words] = epoch, step
        # several warps of this very instruction
        self.read_lane[words[self.read_lane[words] >> 5 != np.where(mixed, MANY, lane) >> 5]] = MANY

    def _note_write(self, words, lanes, what) -> None:
        lane, epoch, step = lanes.number, lanes.epoch, lanes.step
        for kind, other, last_epoch, last_step in (("written", self.write_lane, self.write_epoch, self.write_step),
                                                   ("read", self.read_lane, self.read_epoch, self.read_step)):
            same = last_epoch[words] == epoch
            if same.any():
                who = other[words]
                if (same & (who != lane) & ((who >> 5 != lane >> 5) | (last_step[words] == step))).any():
                    raise KernelFault(f"{what}: writes shared memory that another thread has {kind}, without a barrier between")
        self.write_lane[words] = lane
        if (self.write_lane[words] != lane).any():
            raise KernelFault(f"{what}: two threads write to one place of shared memory")
        self.write_epoch[words], self.write_step[words] = epoch, step

    def load(self, at: np.ndarray, width: int, count: int, lanes, what: str) -> list[np.ndarray]:
        """`count` neighbouring numbers of `width` bytes."""
        self._check(at, width * count, what)
        at = at + lanes.place * self.stride
        for word in range(max(width * count // WORD, 1)):
            self._note_read(at // WORD + word, lanes, what)
        memory, first = self.bytes.view(UNSIGNED[width]), at // width
        return [memory[first + j] for j in range(count)]

    def store(self, at: np.ndarray, values: list[np.ndarray], width: int, lanes, what: str) -> None:
        """Stores neighbouring numbers."""
        self._check(at, width * len(values), what)
        at = at + lanes.place * self.stride
        for word in range(max(width * len(values) // WORD, 1)):
            self._note_write(at // WORD + word, lanes, what)
        memory, first = self.bytes.view(UNSIGNED[width]), at // width
        for j, value in enumerate(values):
            memory[first + j] = value

    def fill(self, at: np.ndarray, rows: np.ndarray, lanes, what: str) -> None:
        """Writes 16 bytes at each address: poison when a copy begins, its data when it has been waited for."""
        self._check(at, 16, what)
        at = at + lanes.place * self.stride
        for word in range(4):
            self._note_write(at // WORD + word, lanes, what)
        self.bytes[at[:, None] + np.arange(16)] = rows

    def atomic(self, at: np.ndarray, change, width: int, lanes, what: str) -> np.ndarray:
        """Replaces one number after another by `change(index, number)`. The numbers before."""
        self._check(at, width, what)
        at = at + lanes.place * self.stride
        words = at // WORD
        writer = self.write_lane[words]
        if ((self.write_epoch[words] == lanes.epoch) & (writer != lanes.number) & (writer != MANY)).any():
            raise KernelFault(f"{what}: changes shared memory that another thread has written, without a barrier between")
        self.write_lane[words], self.write_epoch[words] = MANY, lanes.epoch
        memory, old = self.bytes.view(UNSIGNED[width]), np.zeros(len(at), UNSIGNED[width])
        for i in range(len(at)):
            old[i] = memory[at[i] // width]
            memory[at[i] // width] = change(i, int(old[i])) & ((1 << 8 * width) - 1)
        return old
