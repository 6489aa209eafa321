"""What orders the stores of one warp before the loads of another: vector clocks over the warps of a launch.

A barrier tells the warps of a block what each of them knows. Between blocks knowledge goes by a fence, an atomic operation, another
one at the same place, and a fence. A barrier passes on what fences and atomic operations of its warps have done.
"""

import numpy as np


class Order:
    """The clocks of all warps of a launch."""

    def __init__(self, warps: int):
        # clock[a, b]: how much of b is before what a does now
        self.clock = np.eye(warps, dtype=np.int32)
        # what the next atomic operation of a warp publishes, and what its next fence makes known to it
        self.published, self.met = np.zeros_like(self.clock), np.zeros_like(self.clock)
        self.places: dict[int, np.ndarray] = {}

    def stamps(self, warps: np.ndarray) -> np.ndarray:
        """The time of a store by each of these warps."""
        return self.clock[warps, warps]

    def before(self, readers: np.ndarray, writers: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Whether stores of the writers at these times are before what the readers do now."""
        return (readers == writers) | (self.clock[readers, writers] >= stamps)

    def barrier(self, warps: slice) -> None:
        """The warps of a block pass a barrier."""
        for knowledge in (self.clock, self.published, self.met):
            knowledge[warps] = knowledge[warps].max(0)
        self._tick(np.arange(warps.start, warps.stop))

    def fence(self, warps: np.ndarray) -> None:
        """These warps pass a fence."""
        self.clock[warps] = np.maximum(self.clock[warps], self.met[warps])
        self.published[warps] = self.clock[warps]
        self._tick(warps)

    def atomic(self, warp: int, at: int) -> None:
        """A warp changes a number at an address."""
        place = self.places.get(at)
        if place is not None:
            self.met[warp] = np.maximum(self.met[warp], place)
            self.places[at] = np.maximum(place, self.published[warp])
        else:
            self.places[at] = self.published[warp].copy()

    def _tick(self, warps: np.ndarray) -> None:
        self.clock[warps, warps] += 1
