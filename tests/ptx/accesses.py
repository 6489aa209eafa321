"""Loads, stores, atomics, background copies, and what the lanes of a warp do together."""

import re

import numpy as np

import tensor_core
from faults import KernelFault
from operations import DTYPES, SHARED_WINDOW, UNSIGNED, Names, Unsupported, as_kind, reader, writer
from ptx_text import BYTES, Statement, split_operands


def _address(names: Names, operand: str):
    """A function that gives the addresses of `[register + offset]`."""
    base, _, offset = re.fullmatch(r"\[([^+\]]+)(\+(-?\d+))?\]", operand).groups()
    read, offset = reader(names, base, "u64"), int(offset or 0)
    return lambda wave, lanes: np.asarray(read(wave, lanes)).astype(np.int64) + offset


def _spread(values, wave, lanes):
    """One value a lane."""
    shape = wave.lane[lanes].shape
    return values if np.shape(values) == shape else np.broadcast_to(values, shape)


def _space(modifiers: list[str]) -> str:
    return next((space for space in ("global", "shared", "local", "param") if space in modifiers), "generic")


def _is_shared(at: np.ndarray, what: str) -> bool:
    shared = at >= SHARED_WINDOW
    if shared.any() and not shared.all():
        raise Unsupported(f"{what}: lanes access shared and global memory together")
    return bool(shared.any())


def _registers(operand: str) -> list[str]:
    return split_operands(operand[1:-1]) if operand.startswith("{") else [operand]


def _load(names, statement):
    modifiers, kind, what = statement.modifiers, statement.modifiers[-1], statement.text
    space, width = _space(modifiers), BYTES[kind]
    writes = [writer(names, register) for register in _registers(statement.operands[0])]
    address, constant, dtype = _address(names, statement.operands[1]), "nc" in modifiers, DTYPES[kind]

    def execute(wave, lanes):
        at, where = _spread(address(wave, lanes), wave, lanes), space
        if space == "generic":
            where = "shared" if _is_shared(at, what) else "global"
            at = at - SHARED_WINDOW if where == "shared" else at
        if where == "shared":
            values = wave.shared.load(at, width, len(writes), wave.shared_lanes(lanes), what)
        elif where == "local":
            values = [wave.local_values(lanes, at + j * width, width, what) for j in range(len(writes))]
        else:
            values = wave.memory.load(at, width, len(writes), wave.threads(lanes), constant, what)
        for write, value in zip(writes, values):
            write(wave, lanes, value.view(dtype))

    return execute


def _load_parameter(names, statement):
    kind = statement.modifiers[-1]
    write, place = writer(names, statement.operands[0]), re.sub(r"\+0\]", "]", statement.operands[1])[1:-1]
    dtype = DTYPES[kind]

    def execute(wave, lanes):
        value = wave.passed[place]
        write(wave, lanes, as_kind(value[lanes] if np.ndim(value) else value, dtype))

    return execute


def _store_parameter(names, statement):
    kind, place = statement.modifiers[-1], re.sub(r"\+0\]", "]", statement.operands[0])[1:-1]
    read = reader(names, statement.operands[1], kind)

    def execute(wave, lanes):
        rows = wave.passed.setdefault(place, np.zeros(len(wave.lane), DTYPES[kind]))
        rows[lanes] = read(wave, lanes)

    return execute


def _store(names, statement):
    modifiers, kind, what = statement.modifiers, statement.modifiers[-1], statement.text
    space, width = _space(modifiers), BYTES[kind]
    address = _address(names, statement.operands[0])
    reads = [reader(names, register, kind) for register in _registers(statement.operands[1])]

    def execute(wave, lanes):
        at, where = _spread(address(wave, lanes), wave, lanes), space
        values = [_spread(np.asarray(read(wave, lanes)).view(UNSIGNED[width]), wave, lanes) for read in reads]
        if space == "generic":
            where = "shared" if _is_shared(at, what) else "global"
            at = at - SHARED_WINDOW if where == "shared" else at
        if where == "shared":
            wave.shared.store(at, values, width, wave.shared_lanes(lanes), what)
        elif where == "local":
            for j, value in enumerate(values):
                wave.local_values(lanes, at + j * width, width, what, value)
        else:
            wave.memory.store(at, values, width, wave.threads(lanes), what)

    return execute


def _atomic(names, statement):
    _, space, operation, kind = statement.modifiers
    change = {"add": lambda old, new: old + new, "or": lambda old, new: old | new}.get(operation)
    if change is None:
        raise Unsupported(statement.text)
    write, address = writer(names, statement.operands[0]), _address(names, statement.operands[1])
    read, what, width = reader(names, statement.operands[2], kind), statement.text, BYTES[kind]

    def execute(wave, lanes):
        at, values = _spread(address(wave, lanes), wave, lanes), _spread(read(wave, lanes), wave, lanes)

        def changed(i, old):
            return change(old, int(values[i]))

        if space == "shared":
            old = wave.shared.atomic(at, changed, width, wave.shared_lanes(lanes), what)
        else:
            old = wave.memory.atomic(at, changed, width, wave.threads(lanes), what)
        write(wave, lanes, old)

    return execute


def _copy(names, statement):
    modifiers, what = statement.modifiers, statement.text
    if "commit_group" in modifiers:
        def commit(wave, lanes):
            wave.group[lanes] += 1

        return commit
    if "wait_group" in modifiers:
        left = int(statement.operands[0])
        return lambda wave, lanes: wave.finish_copies(lanes, left, what)
    to, source = (_address(names, operand) for operand in statement.operands[:2])
    if statement.operands[2] != "16":
        raise Unsupported(what)
    size = reader(names, statement.operands[3], "u32") if len(statement.operands) > 3 else lambda wave, lanes: np.uint32(16)

    def execute(wave, lanes):
        at, where = (_spread(address(wave, lanes), wave, lanes) for address in (source, to))
        sizes = _spread(size(wave, lanes), wave, lanes).astype(np.int64)
        if (sizes > 16).any():
            raise KernelFault(f"{what}: copies {int(sizes.max())} bytes into 16")
        if (at % 16).any():
            raise KernelFault(f"{what}: copies from an address that is not a multiple of 16")
        wave.begin_copies(lanes, where, at, sizes, what)

    return execute


def _whole_warps(wave, lanes, what) -> np.ndarray:
    """The lanes, warp after warp; all of each must be there."""
    lane = wave.lane[lanes]
    if len(lane) % 32 or (lane[31::32] - lane[::32] != 31).any() or (lane[::32] % 32).any():
        raise KernelFault(f"{what}: lanes of the warp are missing")
    return lane


def _shuffle(names, statement):
    what = statement.text
    if statement.modifiers[1:3] != ["sync", "bfly"]:
        raise Unsupported(what)
    register, _, flag = statement.operands[0].partition("|")
    write, read, flag = writer(names, register), reader(names, statement.operands[1], "b32"), writer(names, flag) if flag else None
    read_distance, read_clamp, read_mask = (reader(names, operand, "u32") for operand in statement.operands[2:])

    def execute(wave, lanes):
        _whole_warps(wave, lanes, what)
        distance, clamp, mask = (np.unique(one(wave, lanes)) for one in (read_distance, read_clamp, read_mask))
        if len(distance) != 1 or distance[0] > 31 or clamp.tolist() != [31] or mask.tolist() != [0xFFFFFFFF]:
            raise KernelFault(f"{what}: shuffles a part of the warp, {distance.tolist()}, {clamp.tolist()}, {mask.tolist()}")
        values = _spread(read(wave, lanes), wave, lanes).reshape(-1, 32)
        write(wave, lanes, values[:, np.arange(32) ^ int(distance[0])].reshape(-1))
        if flag:
            flag(wave, lanes, np.bool_(True))

    return execute


def _vote(names, statement):
    what = statement.text
    if statement.modifiers[1:3] != ["sync", "ballot"]:
        raise Unsupported(what)
    write, read, read_mask = (writer(names, statement.operands[0]), reader(names, statement.operands[1], "pred"),
                              reader(names, statement.operands[2], "u32"))

    def execute(wave, lanes):
        _whole_warps(wave, lanes, what)
        if np.unique(read_mask(wave, lanes)).tolist() != [0xFFFFFFFF]:
            raise KernelFault(f"{what}: a part of the warp votes")
        votes = _spread(read(wave, lanes), wave, lanes).reshape(-1, 32)
        masks = (votes.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1).astype(np.uint32)
        write(wave, lanes, np.repeat(masks, 32))

    return execute


def _multiply(names, statement):
    if statement.modifiers[:6] != ["mma", "sync", "aligned", "m16n8k16", "row", "col"]:
        raise Unsupported(statement.text)
    number, what = statement.modifiers[-2], statement.text
    to, a, b, c = (_registers(operand) for operand in statement.operands)
    writes = [writer(names, register) for register in to]
    read_a, read_b = ([reader(names, register, "b32") for register in some] for some in (a, b))
    read_c = [reader(names, register, "f32") for register in c]

    def execute(wave, lanes):
        _whole_warps(wave, lanes, what)
        parts = [[_spread(read(wave, lanes), wave, lanes) for read in reads] for reads in (read_a, read_b, read_c)]
        for write, value in zip(writes, tensor_core.multiply(*parts, number, wave.sums)):
            write(wave, lanes, value)

    return execute


def _warp_barrier(names, statement):
    what = statement.text

    def execute(wave, lanes):
        warps = _whole_warps(wave, lanes, what)[::32] >> 5
        wave.step[warps] += 1

    return execute


def _fence(names, statement):
    return lambda wave, lanes: wave.fence(lanes)


def compile_statement(names: Names, statement: Statement):
    """The function of a statement that is none on registers, or None if it is none of these."""
    operation, modifiers = statement.modifiers[0], statement.modifiers
    if operation == "ld":
        return (_load_parameter if "param" in modifiers else _load)(names, statement)
    if operation == "st":
        return (_store_parameter if "param" in modifiers else _store)(names, statement)
    if operation == "bar" and modifiers[1] == "warp":
        return _warp_barrier(names, statement)
    if operation in ("membar", "fence") and "cta" in modifiers:
        raise Unsupported(statement.text)
    table = {"atom": _atomic, "cp": _copy, "shfl": _shuffle, "vote": _vote, "mma": _multiply, "membar": _fence, "fence": _fence}
    return table[operation](names, statement) if operation in table else None
