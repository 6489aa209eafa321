"""Blocks that are resident together, and the order in which their warps run.

At each turn some run for a random number of instructions: one block, or a random warp with all, some or none of those that stand at the
same place. Lanes of a warp that have taken different branches meet again.
"""

import numpy as np

import operations
from faults import KernelFault
from global_memory import Memory, Threads
from kernel import Kernel
from shared_memory import SharedMemory

PATIENCE = 20_000_000  # instructions without an end
NEVER = 1 << 40


class SharedLanes:
    """Who accesses shared memory."""

    def __init__(self, number, place, epoch, step):
        self.number, self.place, self.epoch, self.step = number, place, epoch, step


class Wave:
    """Blocks that are resident together: their registers, their shared memory, and where each lane is."""

    def __init__(self, machine, kernel: Kernel, memory: Memory, blocks: np.ndarray, grid, block: int, passed: dict, shared_bytes: int):
        count = len(blocks) * block
        self.memory, self.kernel, self.random, self.sums = memory, kernel, machine.random, machine.sums
        self.lane, self.block_size = np.arange(count), block
        self.place = self.lane // block
        self.block = np.asarray(blocks)[self.place]
        self.thread = self.block * block + self.lane % block
        self.special = self._special_registers(grid, block)
        self.passed = dict(passed)
        self.shared = SharedMemory(len(blocks), shared_bytes, memory.poison)
        self.rows = self._poisoned_registers(kernel.kinds, count, memory.poison)
        self.carry = np.zeros(count, np.uint32)
        self.local = np.full((count, kernel.local_bytes()), memory.poison, np.uint8)
        self.epoch = np.zeros(len(blocks), np.int32)  # barriers that a block has passed
        self.step = np.zeros(count // 32, np.int64)  # barriers that a warp has passed
        self.acquired = np.zeros(count, np.int32)
        self.group = np.zeros(count, np.int64)  # background copies
        self.copies: list[tuple] = []
        self.favourite = -1
        self.late = np.zeros(count // 32, bool)
        self.at = np.zeros(count, np.int64)
        self.back = np.zeros(count, np.int64)  # where a function returns to
        self.alive, self.waiting = np.ones(count, bool), np.zeros(count, bool)
        self.constants = memory.constants

    def _special_registers(self, grid, block) -> dict[str, np.ndarray]:
        thread = self.lane % block
        values = {"%tid.x": thread, "%ntid.x": block, "%laneid": thread % 32, "%ctaid.x": self.block % grid[0],
                  "%ctaid.y": self.block // grid[0] % grid[1], "%ctaid.z": self.block // (grid[0] * grid[1])}
        values |= {f"%nctaid.{axis}": size for axis, size in zip("xyz", grid)}
        return {name: np.broadcast_to(np.asarray(value, np.uint32), self.lane.shape) for name, value in values.items()}

    @staticmethod
    def _poisoned_registers(kinds, count, poison) -> list[np.ndarray]:
        banks: dict[np.dtype, int] = {}
        places = []
        for kind in kinds:
            dtype = np.dtype(operations.DTYPES[kind])
            places.append((dtype, banks.get(dtype, 0)))
            banks[dtype] = banks.get(dtype, 0) + 1
        memory = {dtype: np.full((rows, count * dtype.itemsize), 1 if dtype == np.bool_ else poison, np.uint8).view(dtype)
                  for dtype, rows in banks.items()}
        return [memory[dtype][row] for dtype, row in places]

    # what instructions ask for

    def threads(self, lanes) -> Threads:
        """Lanes as global memory knows them."""
        return Threads(self.thread[lanes], self.block[lanes], self.epoch[self.place[lanes]], self.acquired[lanes])

    def shared_lanes(self, lanes) -> SharedLanes:
        """Lanes as shared memory knows them."""
        lane = self.lane[lanes]
        place = self.place[lanes]
        return SharedLanes(lane, place, self.epoch[place], self.step[lane >> 5])

    def fence(self, lanes) -> None:
        """Lanes pass a fence."""
        self.acquired[lanes] = self.memory.fence(self.threads(lanes))

    def local_values(self, lanes, at, width, what, value=None) -> np.ndarray:
        """Numbers in the local memory of lanes, after those of `value` have been stored there."""
        if (at < 0).any() or (at + width > self.local.shape[1]).any() or (at % width).any():
            raise KernelFault(f"{what}: outside of local memory")
        rows, columns = self.lane[lanes][:, None], at[:, None] + np.arange(width)
        if value is not None:
            self.local[rows, columns] = np.ascontiguousarray(value).view(np.uint8).reshape(-1, width)
        return np.ascontiguousarray(self.local[rows, columns]).view(operations.UNSIGNED[width]).reshape(-1)

    def begin_copies(self, lanes, to, source, sizes, what) -> None:
        """The destination holds poison until the copy has been waited for."""
        self.shared.fill(to, np.full((len(to), 16), self.memory.poison, np.uint8), self.shared_lanes(lanes), what)
        self.copies.append((self.lane[lanes], to, source, sizes, self.group[lanes].copy()))

    def finish_copies(self, lanes, left, what) -> None:
        """Finishes what these lanes have begun, except for their last `left` groups."""
        here = np.zeros(len(self.lane), bool)
        here[lanes] = True
        kept = []
        for lane, to, source, sizes, group in self.copies:
            done = here[lane] & (group < self.group[lane] - left)
            if done.any():
                data = self.memory.copied(source[done], sizes[done], what)
                self.shared.fill(to[done], data, self.shared_lanes(lane[done]), what)
                if done.all():
                    continue
                rest = ~done
                lane, to, source, sizes, group = lane[rest], to[rest], source[rest], sizes[rest], group[rest]
            kept.append((lane, to, source, sizes, group))
        self.copies = kept

    # turns

    def run(self) -> int:
        """Runs all blocks to their end. The number of instructions executed, each for any number of warps."""
        executed = 0
        while self.alive.any():
            if executed > PATIENCE:
                raise KernelFault("the kernel does not end")
            executed += self._turn(*self._choose())
        return executed

    def _choose(self) -> tuple[np.ndarray, int]:
        """The lanes of the warps that run next, and for how many instructions. Lanes that wait go on when their barrier opens."""
        ready = self.alive & ~self.waiting
        if not ready.any():
            raise KernelFault("a barrier waits for threads that never come")
        if self.random is None:
            return self.lane, PATIENCE + 1
        random, prompt = self.random, ready & ~np.repeat(self.late, 32)
        if prompt.any():
            ready = prompt
        else:
            self.late[:] = False
        blocks = np.unique(self.place[ready])
        if random.random() < 0.2 or self.favourite not in blocks:
            self.favourite = random.choice(blocks)
        kind = random.random()
        if kind < 0.35:
            # one block goes on while the others stand still
            return np.flatnonzero((self.place == self.favourite) & ~np.repeat(self.late, 32)), int(2 ** random.uniform(2, 11))
        first = np.where(ready, self.at, NEVER).reshape(-1, 32).min(1)
        one = random.choice(np.flatnonzero(first < NEVER))
        # all that stand at the same place cost as much as one warp
        share, most = (1.0, 11) if kind < 0.85 else (0.5, 9) if kind < 0.95 else (0.0, 6)
        same = (first == first[one]) & (random.random(len(first)) < share)
        same[one] = True
        if self.kernel.instructions[first[one]].kind == "handover":
            # blocks come to it one after the other
            same &= self.place[::32] == self.place[32 * one]
        return np.flatnonzero(np.repeat(same, 32)), int(2 ** random.uniform(2, most))

    def _turn(self, chosen: np.ndarray, limit: int) -> int:
        """Executes instructions for these lanes, always the first in the text of those at which some stand. How many."""
        executed, instructions, random = 0, self.kernel.instructions, self.random
        at = rest = -1
        lanes = chosen
        while True:
            if at < 0 or at >= rest:  # lanes go different ways, or meet
                if at >= 0:
                    self.at[lanes] = at
                places = np.where(self.alive[chosen] & ~self.waiting[chosen], self.at[chosen], NEVER)
                at = int(places.min())
                if at == NEVER:
                    return executed
                here = places == at
                rest = int(np.where(here, NEVER, places).min())
                lanes = self._run_of(chosen[here])
            instruction = instructions[at]
            if executed >= limit or (executed and random is not None and self._pauses(instruction, lanes)):
                self.at[lanes] = at
                return executed
            executed += 1
            active = lanes
            if instruction.guard is not None:
                guard = self.rows[instruction.guard][lanes] ^ instruction.negated
                if not guard.any():
                    at += 1
                    continue
                if not guard.all():
                    active = self.lane[lanes][guard]
            if instruction.execute is not None:
                instruction.execute(self, active)
                at += 1
                continue
            self.at[lanes] = at + 1
            if self._control(instruction, active, at):
                return executed
            at = -1 if active is not lanes or instruction.kind != "bra" else instruction.target

    def _pauses(self, instruction, lanes) -> bool:
        """Whether others may go first: what several blocks tell each other is tried in many orders."""
        if instruction.kind == "handover" and self.place[lanes][0] != self.place[lanes][-1]:
            return True
        return instruction.kind in ("handover", "barrier") and self.random.random() < 0.5

    @staticmethod
    def _run_of(lanes: np.ndarray):
        """The lanes as a slice where they are neighbours, which numpy reads without copying."""
        first, last = int(lanes[0]), int(lanes[-1])
        return slice(first, last + 1) if last - first + 1 == len(lanes) else lanes

    def _control(self, instruction, lanes, at) -> bool:
        """Executes a branch, a call, a return or a barrier. Whether some warps stand still after it."""
        if instruction.kind == "bra":
            self.at[lanes] = instruction.target
        elif instruction.kind == "call":
            result, name, argument = (operand.strip("()") for operand in instruction.target)
            formal = self.kernel.functions[name].parameters[0][0]
            self.passed[formal] = self.passed[argument.strip()]
            self.back[lanes] = at + 1
            self.at[lanes] = self.kernel.entries[name]
            self.returns_to = result.strip()
        elif instruction.kind == "ret" and at >= min((e for e in self.kernel.entries.values() if e), default=NEVER):
            self.at[lanes] = self.back[lanes]
            for place in [p for p in self.passed if p.startswith("func_retval0")]:
                self.passed[place.replace("func_retval0", self.returns_to)] = self.passed[place]
        else:
            if instruction.kind == "ret":
                self.alive[lanes] = False
            else:
                self.waiting[lanes] = True
            return self._open_barriers(np.unique(self.place[lanes]))
        return False

    def _open_barriers(self, places) -> bool:
        """Lets blocks go on of which all threads wait. After one of three barriers some warps stand still until nobody else can
        go on: what they have yet to do has not happened."""
        some_late = False
        for place in places:
            block = slice(place * self.block_size, (place + 1) * self.block_size)
            alive = self.alive[block]
            waiting = self.waiting[block]
            if not waiting.any() or (waiting != alive).any():
                continue
            if len(set(self.at[block][alive])) != 1:
                raise KernelFault("threads of a block wait at different barriers")
            self.waiting[block] = False
            self.epoch[place] += 1
            self.acquired[block] = self.acquired[block].max()
            if self.memory.order:
                first = int(self.thread[block.start]) // 32
                self.memory.order.barrier(slice(first, first + self.block_size // 32))
            if self.random is not None and self.random.random() < 1 / 3:
                warps = slice(block.start // 32, block.stop // 32)
                self.late[warps] = self.random.random(self.block_size // 32) < 0.5
                some_late = True
        return some_late
