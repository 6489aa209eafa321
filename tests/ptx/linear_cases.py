"""Linear layers: every kernel against float64, and the bits of a row over kernels and over the number of rows."""

from dataclasses import dataclass

import numpy as np

from bits import widen
from checks import Case, Check, rounding, values
from tensor_core import CARDS

TILES = ("8", "16", "32", "64", "many")
TILE_OUTPUTS, MANY_OUTPUTS, MANY_ROWS, CHUNK = 64, 128, 64, 32


def groups_of(inputs: int, outputs: int) -> int:
    """How many groups a layer has, as crates/kernels/src/cuda/linear.rs decides it."""
    tiles = -(-outputs // TILE_OUTPUTS)
    return min(max(-(-264 // tiles), 1), min(max(inputs // CHUNK // 8, 1), 16))


@dataclass
class Layer:
    """A layer and the most rows that go through it."""

    number: str
    inputs: int
    outputs: int
    groups: int
    gated: bool = False
    bias: bool = True
    add: bool = True

    def draw(self, random: np.random.Generator, rows: int) -> None:
        """Draws input rows, weights, bias, and what is added to."""
        self.x = values(random, (rows, self.inputs), self.number)
        self.weight = values(random, (self.outputs, self.inputs), self.number)
        self.offsets = values(random, self.outputs, "f32")
        self.start = values(random, (rows, self.width), "f32")

    @property
    def width(self) -> int:
        return self.outputs // 2 if self.gated else self.outputs

    def kernel(self, tile: str) -> str:
        return f"linear_{'silu_' if self.gated else ''}{tile}_{self.number}"

    def place(self, machine) -> None:
        """Copies the weights to the machine."""
        self.memory = machine.memory()
        self.weight_at = self.memory.put(self.weight)
        self.offsets_at = self.memory.put(self.offsets) if self.bias else 0

    def launch(self, machine, tile: str, rows, check: Check, launches: int = 1) -> np.ndarray:
        """What the kernel for this many rows gives for some rows, [rows, width], as it is in memory."""
        memory, name = self.memory, self.kernel(tile)
        x = memory.put(self.x[rows])
        count, tiles = len(self.x[rows]), -(-self.outputs // TILE_OUTPUTS)
        counters = tiles * -(-count // 8)
        split = self.groups > 1 and tile != "many"
        arrived = memory.put(np.zeros(counters, np.uint32)) if split else 0
        sizes = [count, self.inputs, self.outputs]
        results = []
        for _ in range(launches):
            # poison again, so that old parts are not taken for new ones
            parts = memory.room((self.groups, count, tiles * TILE_OUTPUTS), np.float32) if split else 0
            if self.gated:
                out = memory.room((count, self.width), np.uint16)
            else:
                out = memory.put(self.start[rows]) if self.add else memory.room((count, self.width), np.float32)
            ends = [] if self.gated else [int(self.add)]
            offsets = [] if self.gated else [self.offsets_at]
            if tile == "many":
                grid, block = (-(-count // MANY_ROWS), -(-self.outputs // MANY_OUTPUTS)), 256
                arguments = [out, x, self.weight_at, *offsets, *sizes, self.groups, *ends]
            else:
                grid, block = (-(-count // int(tile)), tiles, self.groups), 128
                arguments = [out, parts, arrived, x, self.weight_at, *offsets, *sizes, *ends]
            machine.launch(memory, name, grid, block, arguments)
            if split:
                left = memory.get(arrived, counters, np.uint32)
                check.true(name, not left.any(), "the counters of arrived blocks are not zero again")
            results.append(memory.get(out, (count, self.width), np.uint16 if self.gated else np.float32))
            check.equal(name, results[-1], results[0], "a further launch")
        return results[0]

    def wanted(self, machine, rows) -> tuple[np.ndarray, np.ndarray]:
        """The float64 result and the bound of its error."""
        product = machine.product(self.x[rows], self.weight, self.number)
        relative = 1e-6 * self.inputs**0.5
        if not self.gated:
            result = product + (self.offsets if self.bias else 0) + (self.start[rows] if self.add else 0)
            return result, relative * (1 + np.abs(result))
        gate, up = product[:, :self.width], product[:, self.width:]
        with np.errstate(over="ignore"):
            result = gate / (1 + np.exp(-gate)) * up
        # 16 bits, and errors of gate and up, each times the other
        error = relative * (1 + np.abs(gate)) * (1 + np.abs(up))
        return result, rounding(self.number, result) + 2 * error

    def widened(self, out: np.ndarray) -> np.ndarray:
        return widen(out, self.number) if self.gated else out


def _against_reference(layer: Layer, tile: str, rows: int):
    """The kernel against float64, twice with the same counters."""

    def run(machine, random, check):
        layer.draw(random, rows)
        layer.place(machine)
        got = layer.launch(machine, tile, slice(0, rows), check, launches=2 if layer.groups > 1 else 1)
        check.near(layer.kernel(tile), layer.widened(got), *layer.wanted(machine, slice(0, rows)))

    return run


def _same_bits(layer: Layer, runs: list[tuple[str, int]]):
    """All kernels give a row the same bits, whatever the other rows are."""

    def run(machine, random, check):
        most = max(count for _, count in runs)
        layer.draw(random, most)
        layer.place(machine)
        base = None
        for tile, count in runs:
            # the last rows of all, so that a row has another place in its tile
            rows = slice(most - count, most)
            got = layer.launch(machine, tile, rows, check)
            if base is None:
                base = got
                check.near(layer.kernel(tile), layer.widened(got), *layer.wanted(machine, rows))
            else:
                check.equal(layer.kernel(tile), got, base[rows], f"{count} rows beside {most} of {layer.kernel(runs[0][0])}")

    return run


def _large_gate(machine, random, check):
    """Large finite float16 activations stay finite through the gate."""
    layer = Layer("f16", 64, 4, 1, gated=True)
    layer.draw(random, 3)
    layer.x[:], layer.weight[:] = np.float16(200).view(np.uint16), np.float16(60).view(np.uint16)
    layer.place(machine)
    for tile in TILES:
        got = layer.widened(layer.launch(machine, tile, slice(0, 3), check))
        check.near(layer.kernel(tile), got, np.full((3, 2), 65504.0), 0)


def _any(number: str, rows: int, inputs: int, outputs: int, bias: bool, add: bool):
    def run(machine, random, check):
        layer = Layer(number, inputs, outputs, 1, bias=bias, add=add)
        layer.draw(random, rows)
        layer.place(machine)
        memory, name = layer.memory, f"linear_any_{number}"
        out = memory.put(layer.start) if add else memory.room((rows, outputs), np.float32)
        machine.launch(memory, name, (-(-rows // 8), -(-outputs // 8)), 256,
                       [out, memory.put(layer.x), layer.weight_at, layer.offsets_at, rows, inputs, outputs, int(add)])
        wanted, bound = layer.wanted(machine, slice(0, rows))
        check.near(name, memory.get(out, (rows, outputs), np.float32), wanted, bound)

    return run


def _kernels(layer: Layer, tiles) -> tuple[str, ...]:
    return tuple(dict.fromkeys(layer.kernel(tile) for tile in tiles))


# name, number, inputs, outputs (a cut of the true ones, whose groups are kept), true outputs, gated
GEOMETRIES = [
    ("Qwen2.5-1.5B qkv", "bf16", 1536, 67, 2048, False), ("Qwen2.5-1.5B gate_up", "bf16", 1536, 66, 17920, True),
    ("Qwen2.5-1.5B down", "bf16", 8960, 64, 1536, False), ("Qwen2.5-0.5B qkv", "f16", 896, 70, 1152, False),
    ("Qwen2.5-0.5B down", "bf16", 4864, 65, 896, False), ("Qwen2.5-7B qkv", "bf16", 3584, 130, 4608, False),
    ("Qwen3-8B gate_up", "f16", 4096, 68, 24576, True), ("Llama-3.1-8B o", "bf16", 4096, 66, 4096, False),
    ("Llama-3.1-8B down", "f16", 14336, 64, 4096, False), ("Qwen3-0.6B o", "bf16", 2048, 64, 1024, False),
]
# full sizes, on a card: inputs, outputs, gated; the smaller ones in both formats
BOTH = ("bf16", "f16")
REAL = [
    ("Qwen2.5-1.5B qkv", 1536, 2048, False, BOTH), ("Qwen2.5-1.5B gate_up", 1536, 17920, True, BOTH),
    ("Qwen2.5-1.5B down", 8960, 1536, False, BOTH), ("Qwen2.5-7B gate_up", 3584, 37888, True, BOTH[:1]),
    ("Qwen2.5-7B down", 18944, 3584, False, BOTH), ("Qwen2.5-7B head", 3584, 152064, False, BOTH[:1]),
    ("Llama-3.1-8B qkv", 4096, 6144, False, BOTH[:1]),
]
REAL_RUNS = [("many", 512), ("many", 65), ("64", 256), ("64", 33), ("32", 32), ("32", 17), ("16", 16), ("16", 9), ("8", 8), ("8", 1)]
# what the interpreter does of it
CUT_RUNS = [("many", 34), ("64", 33), ("32", 17), ("16", 9), ("8", 1)]
RUNS = [("many", 66), ("8", 1), ("8", 7), ("16", 9), ("32", 17), ("64", 33), ("64", 66), ("many", 1)]


def _real_cases(on_card: bool) -> list[Case]:
    cases = []
    for label, inputs, outputs, gated, numbers in REAL:
        for number in numbers:
            groups = groups_of(inputs, outputs)
            cut = (inputs, outputs) if on_card else (min(inputs, 64 * groups), 66)
            runs = REAL_RUNS if on_card else CUT_RUNS
            layer = Layer(number, *cut, groups, gated)
            shape = f"{cut[0]} to {cut[1]}, {groups} groups, rows {', '.join(str(n) for _, n in runs)}"
            cases.append(Case(f"linear real {label} {number}", _kernels(layer, TILES), shape, _same_bits(layer, runs), ("real",)))
    return cases


def cases(on_card: bool) -> list[Case]:
    """All cases of linear layers."""
    found = []
    for number in ("bf16", "f16"):
        for gated in (False, True):
            for i, (tile, rows) in enumerate((("8", 5), ("16", 13), ("32", 29), ("64", 61), ("many", 70))):
                # 9 chunks in 2 groups have slices of 1 and 2, in 4 groups of 0 and 1; now and then without bias or onto nothing
                layer = Layer(number, 288, 70 if gated else 67, 4 if gated else 2, gated, bias=i % 3 != 1, add=i % 2 == 0)
                found.append(Case(f"{layer.kernel(tile)} ragged", (layer.kernel(tile),), f"rows {rows}, 288 to {layer.outputs}",
                                  _against_reference(layer, tile, rows)))
    for number, inputs, outputs, groups, gated in (("bf16", 32, 1, 1, False), ("bf16", 64, 2, 1, True), ("f16", 288, 129, 1, False),
                                                   *((number, 256, 34, 8, gated) for number in ("bf16", "f16") for gated in (False, True))):
        layer = Layer(number, inputs, outputs, groups, gated, bias=groups > 1)
        found.append(Case(f"linear bits {inputs} to {outputs}{' gated' if gated else ''} {number}", _kernels(layer, TILES),
                          f"{number}, {groups} groups", _same_bits(layer, CUT_RUNS)))
    for label, number, inputs, outputs, true_outputs, gated in GEOMETRIES:
        layer = Layer(number, inputs, outputs, groups_of(inputs, true_outputs), gated)
        found.append(Case(f"linear bits {label}", _kernels(layer, TILES), f"{number}, {inputs} to {outputs}, {layer.groups} groups",
                          _same_bits(layer, RUNS), ("quick", "full")))
    small = Layer("bf16", 1536, 66, 6)
    found.append(Case("linear bits Qwen2.5-1.5B qkv, few rows", _kernels(small, ("8", "16")), "bf16, 1536 to 66, 6 groups",
                      _same_bits(small, [("16", 9), ("8", 3)])))
    for label, number, inputs, groups, gated in (("qkv", "bf16", 1536, 6, False), ("gate_up", "f16", 1536, 1, True)):
        layer = Layer(number, inputs, 64, groups, gated)
        found += [Case(f"linear sums of an {card} {label}", (layer.kernel("8"),), f"{number}, {inputs} to 64, {groups} groups",
                       _against_reference(layer, "8", 8), sums=sums) for card, sums in CARDS.items()]
    for label, number, inputs, groups in (("7B down", "bf16", 18944, 5), ("1.5B down", "bf16", 8960, 11), ("7B qkv", "f16", 3584, 4)):
        layer = Layer(number, inputs, 64, groups)
        found += [Case(f"linear sums of an {card} {label}", (layer.kernel("8"), layer.kernel("many")), f"{number}, {inputs} to 64",
                       _same_bits(layer, [("many", 8), ("8", 8)]), ("full",), sums=sums) for card, sums in CARDS.items()]
    found.append(Case("linear_silu large f16", tuple(f"linear_silu_{tile}_f16" for tile in TILES), "3 rows, 64 to 4", _large_gate))
    for i, number in enumerate(("f32", "bf16", "f16")):
        found.append(Case(f"linear_any_{number}", (f"linear_any_{number}",), "11 rows, 333 to 19",
                          _any(number, 11, 333, 19, i != 1, i != 2), ("small", "quick", "full", "real")))
        found.append(Case(f"linear_any_{number} one", (f"linear_any_{number}",), "1 row, 5 to 1", _any(number, 1, 5, 1, True, False)))
    return found + _real_cases(on_card)
