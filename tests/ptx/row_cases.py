"""The kernels that treat rows one by one: embedding, gather, norms, rotations, gates, heads of reward models."""

import numpy as np

from bits import TYPES, narrow, widen
from checks import Case, rounding, values

NUMBERS = ("f32", "bf16", "f16")


def _embed(number: str, hidden: int):
    def run(machine, random, check):
        vocabulary, name = 9, f"embed_{number}"
        table = values(random, (vocabulary, hidden), number)
        tokens = np.array([0, 8, 3, vocabulary, 2**31, 2**32 - 1], np.uint32)
        memory = machine.memory()
        out = memory.room((len(tokens), hidden), np.float32)
        machine.launch(memory, name, (len(tokens),), 256, [out, memory.put(table), memory.put(tokens), hidden, vocabulary])
        wanted = np.zeros((len(tokens), hidden), np.float32)
        wanted[:3] = widen(table, number)[[0, 8, 3]]
        check.near(name, memory.get(out, wanted.shape, np.float32), wanted, 0)

    return run


def _gather(machine, random, check):
    rows, width, stride, out_stride = np.array([5, 0, 6, 2, 2**32 - 1], np.uint32), 331, 340, 333
    x = values(random, (6, stride), "f32")
    memory = machine.memory()
    before = values(random, (len(rows), out_stride), "f32")
    out = memory.put(before)
    machine.launch(memory, "gather_rows", (len(rows),), 256,
                   [out, memory.put(x), memory.put(rows), width, stride, out_stride, len(x)])
    wanted = before.copy()
    wanted[:, :width] = 0
    wanted[[0, 1, 3], :width] = x[[5, 0, 2], :width]
    check.near("gather_rows", memory.get(out, wanted.shape, np.float32), wanted, 0)


def _silu(number: str, rows: int, width: int):
    def run(machine, random, check):
        name = f"silu_mul_{number}"
        x = random.normal(0, 5, (rows, 2 * width)).astype(np.float32)
        x[0, :5], x[0, width:width + 5] = [-200, 88, 0, -88, 200], [1, 1, 5, 3, 300]
        memory = machine.memory()
        out = memory.room((rows, width), TYPES[number])
        machine.launch(memory, name, (rows, -(-width // 1024)), 256, [out, memory.put(x), width])
        gate, up = x[:, :width].astype(np.float64), x[:, width:].astype(np.float64)
        wanted = gate / (1 + np.exp(-gate)) * up
        got = widen(memory.get(out, (rows, width), TYPES[number]), number)
        check.near(name, got, wanted, rounding(number, wanted) + 1e-6 * np.abs(wanted) + 1e-7)

    return run


def _norm(number: str, width: int):
    def run(machine, random, check):
        name, rows = f"rmsnorm_{number}", 3
        x, weight = random.normal(0, 30, (rows, width)).astype(np.float32), random.uniform(0.5, 1, width).astype(np.float32)
        x[2] *= 1e-5  # where eps matters
        block = min(max(1 << (-(-width // 4) - 1).bit_length(), 32), 1024)
        memory = machine.memory()
        out = memory.room((rows, width), TYPES[number])
        machine.launch(memory, name, (rows,), block, [out, memory.put(x), memory.put(weight), width, 1e-6])
        wide = x.astype(np.float64)
        wanted = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * weight
        got = widen(memory.get(out, x.shape, TYPES[number]), number)
        check.near(name, got, wanted, rounding(number, wanted) + 1e-6 * np.abs(wanted))

    return run


def _norm_heads(heads: int, kv_heads: int, head_dim: int):
    def run(machine, random, check):
        stride, rows = (heads + 2 * kv_heads) * head_dim, 2
        x, weight = random.normal(0, 3, (rows, stride)).astype(np.float32), random.uniform(0.5, 1, head_dim).astype(np.float32)
        memory = machine.memory()
        place, weights = memory.put(x), memory.put(weight)
        for offset, count in ((0, heads), (heads * head_dim, kv_heads)):
            machine.launch(memory, "rmsnorm_heads", (rows,), 32 * min(count, 16),
                           [place, stride, offset, count, head_dim, weights, 1e-6])
        wanted = x.reshape(rows, -1, head_dim).astype(np.float64)
        normed = wanted[:, :heads + kv_heads]
        wanted[:, :heads + kv_heads] = normed / np.sqrt((normed**2).mean(2, keepdims=True) + 1e-6) * weight
        wanted = wanted.reshape(rows, stride)
        check.near("rmsnorm_heads", memory.get(place, x.shape, np.float32), wanted, 1e-6 * np.abs(wanted))

    return run


def _angles(machine, random, check):
    """To positions that take the slow path of sine and cosine."""
    positions, half = np.array([0, 1, 17, 4095, 131071, 1000000, 3000000000], np.uint32), 70
    frequencies = (1e6 ** (-np.arange(half) / half)).astype(np.float32)
    memory = machine.memory()
    out = memory.room((len(positions), 2 * half), np.float32)
    machine.launch(memory, "rope_angles", (len(positions),), 64,
                   [out, memory.put(positions), memory.put(frequencies), 1.25, half])
    angles = (positions.astype(np.float32)[:, None] * frequencies[None]).astype(np.float64)
    wanted = np.concatenate([np.cos(angles), np.sin(angles)], 1) * 1.25
    check.near("rope_angles", memory.get(out, wanted.shape, np.float32), wanted, 2.0**-23 * 1.25)


def _rotate(number: str, heads: int, kv_heads: int, head_dim: int, half: int, page: int):
    def run(machine, random, check):
        name, rows, layers, pages = f"rope_kv_{number}", 5, 2, 3
        stride = (heads + 2 * kv_heads) * head_dim
        x = values(random, (rows, stride), "f32")
        angles = random.uniform(0, 6, (rows, half))
        turns = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
        # pages and offsets that are not there are not written
        slots = np.array([[1, 5], [2, page - 1], [9, 0], [0, page], [pages, 0]], np.uint32)
        memory = machine.memory()
        place = memory.put(x)
        kv_shape = (pages, layers, kv_heads, 2, page * head_dim)
        kv_before = narrow(np.full(kv_shape, 7, np.float32), number)
        kv = memory.put(kv_before)
        machine.launch(memory, name, (rows, heads + 2 * kv_heads), 64,
                       [place, kv, memory.put(turns), memory.put(slots), stride, heads, kv_heads, head_dim, half, page, layers, 1, pages])
        wanted = x.astype(np.float64).reshape(rows, -1, head_dim)
        cosine, sine = (turns[:, None, i * half:(i + 1) * half].astype(np.float64) for i in range(2))
        turned = slice(0, heads + kv_heads)
        low, high = wanted[:, turned, :half].copy(), wanted[:, turned, half:2 * half].copy()
        wanted[:, turned, :half], wanted[:, turned, half:2 * half] = low * cosine - high * sine, high * cosine + low * sine
        kv_wanted = np.full(kv_shape, 7.0)
        for row, (at, offset) in enumerate(slots[:2]):
            keys, spread = kv_wanted[at, 1, :, 0].reshape(kv_heads, page, head_dim), kv_wanted[at, 1, :, 1].reshape(kv_heads, head_dim, page)
            keys[:, offset], spread[:, :, offset] = wanted[row, heads:heads + kv_heads], wanted[row, heads + kv_heads:]
            kv_wanted[at, 1, :, 0], kv_wanted[at, 1, :, 1] = keys.reshape(kv_heads, -1), spread.reshape(kv_heads, -1)
        check.near(name, memory.get(place, x.shape, np.float32), wanted.reshape(rows, -1), 3e-7, "queries, keys and values")
        got = widen(memory.get(kv, kv_shape, TYPES[number]), number).reshape(pages * layers * kv_heads * 2, -1)
        kv_wanted = kv_wanted.reshape(got.shape)
        check.near(name, got, kv_wanted, np.where(kv_wanted == 7, 0, rounding(number, kv_wanted) + 3e-7), "pages (page, layer, head, key or value)")

    return run


def _head(layer: bool, rows: int, inputs: int, outputs: int, bias: bool):
    def run(machine, random, check):
        name = "prm_layer" if layer else "prm_head"
        weight = random.normal(0, 1, (outputs, inputs)).astype(np.float32)
        offsets = random.normal(0, 1, outputs).astype(np.float32)
        memory = machine.memory()
        out = memory.room((rows, outputs), np.float64)
        ends = [memory.put(weight), memory.put(offsets) if bias else 0, rows, inputs, outputs]
        if layer:
            x = random.normal(0, 1, (rows, inputs))
            x[min(3, rows - 1), inputs // 2] = np.nan  # counts as 0
            entering = np.where(x > 0, x, 0)
            arguments = [out, memory.put(x), *ends]
        else:
            hidden = random.normal(0, 1, (5, inputs)).astype(np.float32)
            chosen = random.integers(0, 5, rows).astype(np.uint32)
            chosen[-1] = 5
            entering = np.where((chosen < 5)[:, None], hidden[np.minimum(chosen, 4)].astype(np.float64), np.nan)
            arguments = [out, memory.put(hidden), memory.put(chosen), len(hidden), *ends]
        machine.launch(memory, name, (-(-outputs // 8), -(-rows // 8)), 256, arguments)
        wanted = entering @ weight.astype(np.float64).T + (offsets.astype(np.float64) if bias else 0)
        check.near(name, memory.get(out, wanted.shape, np.float64), wanted, 1e-15 * inputs**0.5 * (10 + np.abs(np.nan_to_num(wanted))))

    return run


def cases(on_card: bool) -> list[Case]:
    """All cases of these kernels; they are small, also on a card."""
    found = [Case("gather_rows", ("gather_rows",), "5 rows of 6, 331 of 340 to 333", _gather),
             Case("rope_angles", ("rope_angles",), "7 positions, half 70", _angles)]
    for number in NUMBERS:
        for hidden in (70, 300):
            found.append(Case(f"embed_{number} {hidden}", (f"embed_{number}",), f"6 tokens, hidden {hidden}", _embed(number, hidden)))
        found.append(Case(f"silu_mul_{number}", (f"silu_mul_{number}",), "2 rows of 1300", _silu(number, 2, 1300)))
    for number, width in (("bf16", 1536), ("f16", 896), ("f32", 3584), ("bf16", 1), ("f32", 31), ("f16", 130)):
        found.append(Case(f"rmsnorm_{number} {width}", (f"rmsnorm_{number}",), f"3 rows of {width}", _norm(number, width)))
    for heads, kv_heads, head_dim in ((5, 1, 40), (32, 8, 128), (40, 8, 128)):
        sets = ("small", "quick", "full") if heads < 40 else ("quick", "full")
        found.append(Case(f"rmsnorm_heads {heads}:{kv_heads}", ("rmsnorm_heads",), f"2 rows, head_dim {head_dim}",
                          _norm_heads(heads, kv_heads, head_dim), sets))
    for geometry in (("bf16", 28, 4, 128, 64, 16), ("f16", 14, 2, 64, 32, 32), ("f32", 5, 1, 96, 36, 16), ("bf16", 3, 3, 40, 20, 16)):
        number, heads, kv_heads, head_dim, half, page = geometry
        found.append(Case(f"rope_kv_{number} {heads}:{kv_heads}", (f"rope_kv_{number}",),
                          f"5 rows, head_dim {head_dim}, half {half}, page {page}", _rotate(*geometry)))
    for layer in (False, True):
        name = "prm_layer" if layer else "prm_head"
        for rows, inputs, outputs, bias in ((10, 70, 11, True), (1, 33, 2, False), (17, 896, 9, True)):
            found.append(Case(f"{name} {rows}x{inputs}", (name,), f"{rows} rows, {inputs} to {outputs}", _head(layer, rows, inputs, outputs, bias)))
    for case in found:
        case.sets = (*case.sets, "real")
    return found
