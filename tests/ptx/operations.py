"""What arithmetic, logic, conversions and moves do: each statement becomes a function of the lanes that execute it.

`compile_statement` gives a function (wave, lanes): `wave.rows` has the registers, one row of all lanes each, and `lanes` (indices
or a slice) says who executes. Values have numpy's type of the PTX type.
"""

import numpy as np

import bits
from ptx_text import BYTES, Body, Statement, split_operands

DTYPES = {"pred": np.bool_, "b8": np.uint8, "u8": np.uint8, "b16": np.uint16, "u16": np.uint16, "s16": np.int16, "f16": np.float16,
          "bf16": np.uint16, "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "f32": np.float32, "b64": np.uint64,
          "u64": np.uint64, "s64": np.int64, "f64": np.float64}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SHARED_WINDOW = 1 << 40  # where generic addresses of shared memory begin
ROUND = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}


class Unsupported(Exception):
    """The interpreter does not know an instruction."""


class Names:
    """Where the registers of a kernel and its functions are, and what its symbols stand for."""

    def __init__(self, body: Body, first: int, symbols: dict[str, int]):
        self.rows = {name: first + i for i, name in enumerate(body.registers)}
        self.kinds = body.registers
        self.symbols = symbols


def as_kind(value, dtype):
    """The value's bits as another type; wider or narrower ones as PTX registers do it."""
    value = np.asarray(value)
    if value.dtype == dtype:
        return value
    size = np.dtype(dtype).itemsize
    if value.dtype.itemsize == size and value.dtype != np.bool_:
        return value.view(dtype)
    return value.view(UNSIGNED[value.dtype.itemsize]).astype(UNSIGNED[size]).view(dtype)


def constant(text: str, kind: str):
    """An immediate operand."""
    dtype = DTYPES[kind]
    if text[:2].lower() == "0f":
        return as_kind(np.uint32(int(text[2:], 16)), dtype)
    if text[:2].lower() == "0d":
        return as_kind(np.uint64(int(text[2:], 16)), dtype)
    number = int(text.rstrip("U"), 0)
    if kind == "pred":
        return np.bool_(number != 0)
    size = np.dtype(dtype).itemsize
    return UNSIGNED[size](number & ((1 << 8 * size) - 1)).view(dtype)


def reader(names: Names, operand: str, kind: str):
    """A function that gives an operand's values."""
    if operand.startswith("!"):
        inner = reader(names, operand[1:], kind)
        return lambda wave, lanes: ~inner(wave, lanes)
    dtype = DTYPES[kind]
    if operand in names.rows:
        row, stored = names.rows[operand], DTYPES[names.kinds[operand]]
        if stored == dtype:
            return lambda wave, lanes: wave.rows[row][lanes]
        if np.dtype(stored).itemsize == np.dtype(dtype).itemsize:
            return lambda wave, lanes: wave.rows[row][lanes].view(dtype)
        return lambda wave, lanes: as_kind(wave.rows[row][lanes], dtype)
    if operand.startswith("%"):
        return lambda wave, lanes: as_kind(wave.special[operand][lanes], dtype)
    if operand in names.symbols:
        place = np.array(names.symbols[operand], UNSIGNED[np.dtype(dtype).itemsize]).view(dtype)[()]
        return lambda wave, lanes: place
    if operand[0].isdigit() or operand[0] == "-":
        value = constant(operand, kind)
        return lambda wave, lanes: value
    return lambda wave, lanes: as_kind(np.uint64(wave.constants[operand]), dtype)


def writer(names: Names, operand: str):
    """A function that sets a register."""
    if operand == "_":
        return lambda wave, lanes, value: None
    row, stored = names.rows[operand], DTYPES[names.kinds[operand]]

    def write(wave, lanes, value):
        wave.rows[row][lanes] = value if value.dtype == stored else as_kind(value, stored)

    return write


# functions of values, by operation

def _shift_left(x, count):
    most = x.dtype.itemsize * 8
    return np.where(count >= most, x.dtype.type(0), x << np.minimum(count, most - 1).astype(x.dtype))


def _shift_right(x, count):
    most = x.dtype.itemsize * 8
    shifted = x >> np.minimum(count, most - 1).astype(x.dtype)
    return shifted if x.dtype.kind == "i" else np.where(count >= most, x.dtype.type(0), shifted)


def _divide(x, y, remainder):
    if x.dtype.itemsize == 8:
        raise Unsupported("division of 64 bits")
    a, b = x.astype(np.int64), y.astype(np.int64)
    quotient = np.abs(a) // np.abs(b) * np.where((a < 0) == (b < 0), 1, -1)
    return (a - quotient * b if remainder else quotient).astype(x.dtype)


def _compare(name: str, is_float: bool):
    plain = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
             "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
    if not is_float:
        return plain[name]
    if name == "num":
        return lambda x, y: ~(np.isnan(x) | np.isnan(y))
    if name == "nan":
        return lambda x, y: np.isnan(x) | np.isnan(y)
    compare = plain[name[:2]]
    if len(name) == 3:
        return lambda x, y: compare(x, y) | np.isnan(x) | np.isnan(y)
    # numpy's `not equal` is true for NaN
    return lambda x, y: compare(x, y) & ~(np.isnan(x) | np.isnan(y))


def _reciprocal(x, approximate):
    value = x.dtype.type(1) / x
    if approximate and x.dtype == np.float64:  # only the upper half is promised
        return (np.asarray(value).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    return value


def _leading_zeros(x):
    return np.array([8 * x.dtype.itemsize - int(number).bit_length() for number in np.atleast_1d(x)], np.uint32)


FLOAT = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.fmin, "max": np.fmax}
WHOLE = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
         "xor": np.bitwise_xor, "shl": _shift_left, "shr": _shift_right, "div": lambda x, y: _divide(x, y, False),
         "rem": lambda x, y: _divide(x, y, True)}
ONE = {"not": np.invert, "abs": np.abs, "sqrt": np.sqrt, "neg": lambda x: -x if x.dtype.kind == "f" else x.dtype.type(0) - x,
       "ex2": lambda x: np.exp2(x.astype(np.float64)).astype(x.dtype), "popc": lambda x: np.bitwise_count(x).astype(np.uint32),
       "clz": _leading_zeros}


def _function(names, statement, kinds, function):
    """The operation `operands[0] = function(operands[1], ...)` with these types of its sources."""
    write = writer(names, statement.operands[0])
    read = [reader(names, operand, kind) for operand, kind in zip(statement.operands[1:], kinds, strict=True)]
    if len(read) == 1:
        one = read[0]
        return lambda wave, lanes: write(wave, lanes, function(one(wave, lanes)))
    if len(read) == 2:
        left, right = read
        return lambda wave, lanes: write(wave, lanes, function(left(wave, lanes), right(wave, lanes)))
    return lambda wave, lanes: write(wave, lanes, function(*(one(wave, lanes) for one in read)))


def _multiply(names, statement, kind):
    """mul and mad of whole numbers: `lo`, `hi` or `wide`."""
    modifiers, wide = statement.modifiers, {"s": np.int64, "u": np.uint64}[kind[0]]
    adds = modifiers[0] == "mad"
    if "lo" in modifiers:
        return _function(names, statement, [kind] * (3 if adds else 2),
                         (lambda x, y, z: x * y + z) if adds else (lambda x, y: x * y))
    if BYTES[kind] == 8 or (adds and "hi" in modifiers):
        raise Unsupported(statement.text)
    if "wide" in modifiers:
        bits_of_result = f"{kind[0]}{16 * BYTES[kind]}"
        target = DTYPES[bits_of_result]
        if adds:
            return _function(names, statement, [kind, kind, bits_of_result], lambda x, y, z: x.astype(target) * y.astype(target) + z)
        return _function(names, statement, [kind, kind], lambda x, y: x.astype(target) * y.astype(target))
    return _function(names, statement, [kind, kind],
                     lambda x, y: (x.astype(wide) * y.astype(wide) >> wide(8 * BYTES[kind])).astype(DTYPES[kind]))


def _with_carry(names, statement, kind):
    """Additions, subtractions and mad of u32 with a carry in (addc, subc, madc) or out (cc)."""
    operation, takes, gives = statement.modifiers[0], statement.modifiers[0].endswith("c"), "cc" in statement.modifiers
    if kind != "u32":
        raise Unsupported(statement.text)
    write = writer(names, statement.operands[0])
    read = [reader(names, operand, kind) for operand in statement.operands[1:]]
    high = "hi" in statement.modifiers

    def execute(wave, lanes):
        values = [np.asarray(one(wave, lanes)).astype(np.uint64) for one in read]
        carry = wave.carry[lanes].astype(np.uint64) if takes else np.uint64(0)
        if operation.startswith("sub"):
            total = values[0] - values[1] - carry
        elif operation.startswith("mad"):
            product = values[0] * values[1]
            part = product >> np.uint64(32) if high else product & np.uint64(0xFFFFFFFF)
            total = part + values[2] + carry
        else:
            total = values[0] + values[1] + carry
        if gives:
            wave.carry[lanes] = (total >> np.uint64(32)) & np.uint64(1)
        write(wave, lanes, (total & np.uint64(0xFFFFFFFF)).astype(np.uint32))

    return execute


def _convert(names, statement):
    *modifiers, to, source = statement.modifiers[1:]
    target = DTYPES[to]
    rounding = next((ROUND[m] for m in modifiers if m in ROUND), None)
    if {"rm", "rp"} & set(modifiers) or ("rz" in modifiers and to != "bf16"):
        raise Unsupported(statement.text)

    def from_float(x):
        if to[0] in "su":
            whole = rounding(x.astype(np.float64))
            low, high = (np.iinfo(target).min, np.iinfo(target).max)
            # float64 has no largest u64 or s64: a larger number is cut off to what it has
            high = float(high) if high < 1 << 53 else np.nextafter(float(high), 0)
            return np.where(np.isnan(whole), 0, np.clip(whole, low, high)).astype(target)
        x = rounding(x) if rounding else x
        if to == "bf16":
            return (bits.cut_bf16 if "rz" in modifiers else bits.narrow_bf16)(x.astype(np.float32))
        x = x.astype(target)
        return np.where(np.isnan(x), target(0), np.clip(x, target(0), target(1))) if "sat" in modifiers else x

    if source == "bf16":
        return _function(names, statement, [source], lambda x: from_float(bits.widen_bf16(x)))
    if source[0] == "f":
        return _function(names, statement, [source], from_float)
    if to[0] == "f":
        return _function(names, statement, [source], lambda x: x.astype(target))
    # a signed number keeps its sign in a wider register
    return _function(names, statement, [source], lambda x: x.astype(target))


def _move(names, statement, kind):
    to, source = statement.operands
    width = {2: "b16", 4: "b32", 8: "b64"}.get(BYTES[kind])
    if to.startswith("{"):
        parts = split_operands(to[1:-1])
        size = BYTES[kind] // len(parts)
        writes, read, part = [writer(names, one) for one in parts], reader(names, source, width), UNSIGNED[size]

        def unpack(wave, lanes):
            value = read(wave, lanes)
            for i, write in enumerate(writes):
                write(wave, lanes, (value >> value.dtype.type(8 * size * i)).astype(part))

        return unpack
    if source.startswith("{"):
        parts = split_operands(source[1:-1])
        size = BYTES[kind] // len(parts)
        reads, write, whole = [reader(names, one, f"b{8 * size}") for one in parts], writer(names, to), DTYPES[width]

        def pack(wave, lanes):
            value = whole(0)
            for i, read in enumerate(reads):
                value = value | np.asarray(read(wave, lanes)).astype(whole) << whole(8 * size * i)
            write(wave, lanes, value)

        return pack
    return _function(names, statement, [kind], lambda x: x)


def _insert(names, statement, kind):
    place, length = (int(operand) for operand in statement.operands[3:])
    dtype = DTYPES[kind]
    mask = dtype((((1 << length) - 1) << place) & np.iinfo(dtype).max)
    shorter = Statement(statement.text, None, statement.modifiers, statement.operands[:3])
    return _function(names, shorter, [kind, kind], lambda x, y: (y & ~mask) | ((x << dtype(place)) & mask))


def compile_statement(names: Names, statement: Statement):
    """The function of an operation on registers, or None if it is none."""
    operation, kind = statement.modifiers[0], statement.modifiers[-1]
    modifiers = statement.modifiers
    if "cc" in modifiers or operation in ("addc", "subc", "madc"):
        return _with_carry(names, statement, kind)
    if operation == "mov":
        return _move(names, statement, kind)
    if operation == "cvt":
        return _convert(names, statement)
    if operation == "cvta":
        offset = np.uint64(SHARED_WINDOW if "shared" in modifiers else 0)
        to_space = "to" in modifiers
        return _function(names, statement, ["u64"], lambda x: x - offset if to_space else x + offset)
    if operation == "setp":
        if len(modifiers) != 3 or "|" in statement.operands[0]:
            raise Unsupported(statement.text)
        return _function(names, statement, [kind, kind], _compare(modifiers[1], kind[0] == "f"))
    if operation == "selp":
        return _function(names, statement, [kind, kind, "pred"], lambda x, y, which: np.where(which, x, y))
    if operation in ("fma", "mad") and kind[0] == "f":
        if kind == "f64":
            return _function(names, statement, [kind] * 3, bits.fma64)
        down = "rm" in modifiers
        return _function(names, statement, [kind] * 3, lambda x, y, z: bits.fma32(x, y, z, down))
    if operation in ("mul", "mad") and kind[0] != "f":
        return _multiply(names, statement, kind)
    if operation in ("shl", "shr"):
        return _function(names, statement, [kind, "u32"], WHOLE[operation])
    if operation == "copysign":
        return _function(names, statement, [kind, kind], lambda sign, size: np.copysign(size, sign))
    if operation == "rcp":
        approximate = "approx" in modifiers
        return _function(names, statement, [kind], lambda x: _reciprocal(x, approximate))
    if operation == "bfi":
        return _insert(names, statement, kind)
    if operation in ONE:
        return _function(names, statement, [kind], ONE[operation])
    table = FLOAT if kind[0] == "f" else WHOLE
    if operation in table:
        if kind[0] == "f" and any(m in modifiers for m in ("rz", "rm", "rp", "sat")):
            raise Unsupported(statement.text)
        return _function(names, statement, [kind, kind], table[operation])
    return None
