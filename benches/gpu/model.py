"""A model of the kernels' times on a card, from what they move, what they compute, and how their blocks fill the card. No
measurement went into it but a card's rates: it says what to expect within a third or so, and compare.py where that is wrong."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    multiprocessors: int
    hertz: float  # sustained
    bytes_per_second: float  # of a copy, read and written counted
    products: int  # of mma.sync in bfloat16: operations a clock and multiprocessor
    shared: int  # KiB of a multiprocessor
    launch: float  # microseconds from one launch of a graph to the next

    def copied(self, count):
        """Microseconds to move so many bytes."""
        return 1e6 * count / self.bytes_per_second

    def clocks(self, count):
        return 1e6 * count / self.hertz


CARDS = {
    "H100": Card(132, 1.70e9, 3.0e12, 2576, 227, 1.0),
    "H200": Card(132, 1.70e9, 4.3e12, 2576, 227, 1.0),
    "A100": Card(108, 1.41e9, 1.75e12, 2048, 163, 1.3),
    "4090": Card(128, 2.52e9, 0.93e12, 512, 99, 1.0),
}


@dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    vocabulary: int

    def products(self):
        """Inputs and outputs of the matrix products of a layer, and of the head."""
        heads = self.heads * self.head_dim
        return {
            "qkv": (self.hidden, heads + 2 * self.kv_heads * self.head_dim),
            "o": (heads, self.hidden),
            "gate_up": (self.hidden, 2 * self.width),
            "down": (self.width, self.hidden),
            "head": (self.hidden, self.vocabulary),
        }


SHAPES = {"1.5b": Shape(1536, 28, 12, 2, 128, 8960, 151936), "7b": Shape(3584, 28, 28, 4, 128, 18944, 152064)}


def card_named(name):
    """The card of the model whose name is in the driver's, else None."""
    return next((card for known, card in CARDS.items() if known in name), None)


def groups(inputs, outputs):
    """As crates/kernels/src/cuda/linear.rs has it."""
    return min(max(math.ceil(264 / math.ceil(outputs / 64)), 1), min(max(inputs // 32 // 8, 1), 16))


def many(card, rows, inputs, outputs, gated):
    """linear_many: 64 rows by 128 outputs a block, chunks of 32 inputs through shared memory."""
    blocks, chunks, parts = math.ceil(rows / 64) * math.ceil(outputs / 128), inputs // 32, groups(inputs, outputs)
    at_once = 1 if gated else 2  # blocks of a multiprocessor, by registers
    places = card.multiprocessors * at_once

    def chunk(blocks):
        """Clocks of a chunk of so many blocks: shared memory, tensor cores (16 multiplies a warp), or instructions (115)."""
        longest = max(blocks * (8 * 8 * 4 + (128 + 64) / 2), blocks * 8 * 16 * 4096 / card.products, blocks * 8 * 115 / 4)
        return longest * 1.06 if blocks > 1 else longest + 100

    epilogue = parts * (250 if gated else 1800) + 1500
    full, rest = divmod(blocks, places)
    clocks = full * (chunks * chunk(at_once) + epilogue)
    if rest:
        clocks += chunks * chunk(min(at_once, math.ceil(rest / card.multiprocessors))) + epilogue
    moved = 2 * outputs * inputs + 2 * rows * inputs + 4 * rows * outputs
    return max(card.clocks(clocks), 1.05 * card.copied(moved))


def few(card, rows, inputs, outputs):
    """linear_8 to linear_64: a group of 64 outputs a block, a slice a warp, weights straight to registers."""
    tile = next(tile for tile in (8, 16, 32, 64) if rows <= tile or tile == 64)
    at_once, multiplies = {8: 4, 16: 3, 32: 2, 64: 2}[tile], {8: 8, 16: 16, 32: 32, 64: 64}[tile]
    parts = groups(inputs, outputs)
    blocks, chunks = math.ceil(rows / tile) * math.ceil(outputs / 64) * parts, inputs / 32 / parts / 4
    latency = 0.65e-6 * card.hertz / (2 if tile <= 16 else 1)
    clocks = 600 + math.ceil(chunks) * max(latency, multiplies * 4096 * 4 / card.products * at_once) + 1500 + (2200 if parts > 1 else 0)
    waves = blocks / (card.multiprocessors * at_once)
    clocks *= math.ceil(waves) if waves > 1.15 or waves <= 1 else 1.8
    return max(card.clocks(clocks), 1.12 * card.copied(2 * outputs * inputs + 2 * rows * inputs))


def product(card, rows, inputs, outputs, gated=False):
    enough = math.ceil(rows / 64) * math.ceil(outputs / 128) >= 132
    if rows > 256 or (rows > 32 and enough):
        return many(card, rows, inputs, outputs, gated) + card.launch
    return few(card, rows, inputs, outputs) + card.launch


def small(card, count):
    """A kernel that does little but move so many bytes."""
    return max(1.6, 1.3 * card.copied(count)) + card.launch


def attention(card, shape, rows, shared, own):
    """Rows that share a prefix and have so many positions of their own."""
    kv_bytes = 2 * shape.kv_heads * shape.head_dim * 2 * (rows * own + shared)
    items = (rows + 2 * math.ceil(rows * shape.heads / shape.kv_heads / 64)) * shape.kv_heads
    waves = math.ceil(items / (card.multiprocessors * (3 if card.shared > 150 else 2)))
    return max(8 * 1.7e9 / card.hertz * max(1, 0.75 * waves), 1.3 * card.copied(kv_bytes)) + card.launch


def sample(card, rows, top_p=False):
    """A block a row; with top-p the row is read several times."""
    return 95 * 1.7e9 / card.hertz * math.ceil(rows / card.multiprocessors) * (4.5 if top_p else 1) + card.launch


def kernel(card, row):
    """Microseconds of a kernel as crates/kernels/examples/cuda.rs times it: `row` is what it prints."""
    name, shape, rows = row["kernel"], row["shape"].split(), row["rows"]
    if name in ("linear", "linear_silu"):
        return product(card, rows, *map(int, shape[-1].split("x")), gated=name == "linear_silu")
    if name == "attention":
        return attention(card, SHAPES["1.5b"], rows, int(shape[0]), 32)
    if name == "sample":
        return sample(card, rows, "top-p" in shape)
    return small(card, row["bytes"])


def launches(row):
    """How often a pass over all layers of its model launches the kernel so, drawing a token included."""
    name, shape = row["kernel"], row["shape"].split()
    if name in ("linear", "linear_silu"):
        return 1 if shape[1] == "head" else SHAPES[shape[0].lower()].layers
    layers = SHAPES["1.5b"].layers
    each = {"attention": layers, "attention_merge": layers, "rope_kv": layers, "rmsnorm": 2 * layers + 1, "embed": 1, "rope_angles": 1}
    return 1 if name == "sample" and shape[-1] == "temperature" else each.get(name, 0)


def decode(card, shape, rows, shared=344, own=256):
    """Milliseconds of a step of decoding; the host's part in it is a guess."""
    heads, all_heads = shape.heads * shape.head_dim, (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    products = {name: product(card, rows, *sizes, gated=name == "gate_up") for name, sizes in shape.products().items()}
    layer = sum(products.values()) - products["head"]
    layer += 2 * small(card, 6 * rows * shape.hidden) + small(card, 10 * rows * all_heads) + small(card, 12 * rows * (heads + 2 * shape.heads))
    layer += attention(card, shape, rows, shared, own)
    once = products["head"] + small(card, 6 * rows * shape.hidden) + sample(card, rows) + 6
    return (shape.layers * layer + once + 45 + 0.35 * rows) / 1e3
