"""Attention over pages: partial results and their sum against float64, and bits of a row over its company."""

from dataclasses import dataclass, field

import numpy as np

from bits import TYPES, narrow, widen
from checks import Case, rounding, values
from tensor_core import CARDS

THREADS = 128


@dataclass
class Geometry:
    """Rows that end at `lens` and share one run of pages; items are (from, to, rows)."""

    kind: str  # `tensor` or `any`
    number: str
    head_dim: int
    heads: int
    kv_heads: int
    page: int
    lens: list[int]
    items: list[tuple[int, int, list[int]]]
    window: int = 0
    layers: int = 2
    layer: int = 1
    scale: float = field(init=False)

    def __post_init__(self):
        self.scale = float(np.float32(2 / np.sqrt(self.head_dim)))
        self.stride = self.heads * self.head_dim + 4

    @property
    def kernel(self) -> str:
        return f"attention_{self.head_dim if self.kind == 'tensor' else 'any'}_{self.number}"

    def draw(self, random) -> None:
        """Draws queries, keys and values. What nobody sees is NaN: other layers, pages, and places after the last position."""
        count = -(-max(self.lens) // self.page)
        self.pages = random.permutation(count + 2)[:count]
        shape = (count + 2, self.layers, self.kv_heads)
        self.keys = np.full((*shape, self.page, self.head_dim), np.nan, np.float32)
        self.values = np.full((*shape, self.head_dim, self.page), np.nan, np.float32)
        drawn = [widen(values(random, (count, self.kv_heads, self.page, self.head_dim), self.number), self.number) for _ in range(2)]
        self.keys[self.pages, self.layer] = drawn[0]
        self.values[self.pages, self.layer] = drawn[1].transpose(0, 1, 3, 2)
        rest = max(self.lens) - (count - 1) * self.page
        self.keys[self.pages[-1], self.layer, :, rest:] = np.nan
        self.values[self.pages[-1], self.layer, :, :, rest:] = np.nan
        self.queries = values(random, (len(self.lens), self.stride), "f32")

    def wanted(self) -> np.ndarray:
        """The result in float64, [rows, heads * head_dim]."""
        queries = self.queries[:, :self.heads * self.head_dim]
        if self.kind == "tensor":
            queries = widen(narrow(queries, self.number), self.number)
        result = []
        for row, length in enumerate(self.lens):
            seen = np.arange(max(length - self.window, 0) if self.window else 0, length)
            page, offset = self.pages[seen // self.page], seen % self.page
            keys = self.keys[page, self.layer, :, offset].astype(np.float64)
            spread = self.values[page, self.layer, :, :, offset].astype(np.float64)
            query = queries[row].reshape(self.kv_heads, -1, self.head_dim).astype(np.float64)
            scores = np.einsum("hgd,phd->hgp", query, keys) * self.scale
            weights = np.exp(scores - scores.max(2, keepdims=True))
            weights /= weights.sum(2, keepdims=True)
            result.append(np.einsum("hgp,phd->hgd", weights, spread).reshape(-1))
        return np.stack(result)

    def launch(self, machine, out_number: str = "f32", items=None) -> np.ndarray:
        """What both kernels give, [rows, heads * head_dim]."""
        items = self.items if items is None else items
        table, list_of_items, members, parts = [], [], [], [[] for _ in self.lens]
        count = 0
        for begin, end, rows in items:
            skipped = begin // self.page
            list_of_items.append([len(table) - skipped, begin, end, len(members), len(rows), count])
            table += list(self.pages[skipped:-(-end // self.page)])
            members += rows
            for row in rows:
                parts[row].append(count)
                count += 1
        memory = machine.memory()
        shape = (len(self.keys), self.layers, self.kv_heads, -1)
        pages = np.concatenate([self.keys.reshape(shape), self.values.reshape(shape)], 3)
        partial = memory.room((count, self.heads, self.head_dim + 2), np.float32)
        any_kind = self.kind == "any"
        arguments = [partial, memory.put(self.queries), self.stride, memory.put(narrow(pages, self.number)),
                     memory.put(np.array(table, np.uint32)), memory.put(np.array(list_of_items, np.int32)),
                     memory.put(np.array([len(items)], np.int32)), memory.put(np.array(members, np.uint32)),
                     memory.put(np.array(self.lens, np.uint32)), self.heads, self.kv_heads,
                     *([self.head_dim] if any_kind else []), self.page, self.layers, self.layer, self.window, self.scale]
        # blocks without an item, too
        machine.launch(memory, self.kernel, (len(items) + 1, self.kv_heads), THREADS, arguments,
                       dynamic=4 * 2 * 4 * self.head_dim if any_kind else 0)
        out = memory.room((len(self.lens), self.heads * self.head_dim), TYPES[out_number])
        first = np.cumsum([0] + [len(some) for some in parts]).astype(np.int32)
        machine.launch(memory, f"attention_merge_{out_number}", (len(self.lens), self.heads), min(-(-self.head_dim // 32) * 32, 128),
                       [out, partial, memory.put(first), memory.put(np.array(sum(parts, []), np.int32)), self.heads, self.head_dim])
        return memory.get(out, (len(self.lens), self.heads * self.head_dim), TYPES[out_number])

    def shape(self) -> str:
        items = ", ".join(f"{begin}-{end} x{len(rows)}" for begin, end, rows in self.items)
        return f"{self.heads}:{self.kv_heads} D{self.head_dim} page {self.page} items {items}" + (f" window {self.window}" if self.window else "")


def _against_reference(geometry: Geometry):
    def run(machine, random, check):
        geometry.draw(random)
        wanted = geometry.wanted()
        # weights are rounded to the type of the values, which are below 1/2
        bound = rounding(geometry.number, 0.5) if geometry.kind == "tensor" else 0
        check.near(geometry.kernel, geometry.launch(machine), wanted, bound + 1e-5)

    return run


def _company(geometry: Geometry):
    """A row has the same bits alone and in company: one, two and four warps share its queries."""

    def run(machine, random, check):
        geometry.draw(random)
        together = geometry.launch(machine)
        alone = [(begin, end, [row]) for begin, end, rows in geometry.items for row in rows]
        check.equal(geometry.kernel, geometry.launch(machine, items=alone), together, "rows alone beside rows together")

    return run


def _merge(number: str, heads: int, head_dim: int):
    """Rows with three, no, one and nine partial results, of which one has seen nothing."""

    def run(machine, random, check):
        counts = [3, 0, 1, 9]
        parts = random.normal(0, 1, (sum(counts), heads, head_dim + 2)).astype(np.float32)
        parts[..., head_dim] = random.normal(0, 4, parts.shape[:2])
        parts[..., head_dim + 1] = random.uniform(1, 50, parts.shape[:2])
        order = random.permutation(sum(counts)).astype(np.int32)
        parts[order[1], 0] = 0
        parts[order[1], 0, head_dim] = -np.inf
        first = np.cumsum([0] + counts).astype(np.int32)
        memory, name = machine.memory(), f"attention_merge_{number}"
        out = memory.room((len(counts), heads * head_dim), TYPES[number])
        machine.launch(memory, name, (len(counts), heads), min(-(-head_dim // 32) * 32, 128),
                       [out, memory.put(parts), memory.put(first), memory.put(order), heads, head_dim])
        wanted = np.zeros((len(counts), heads, head_dim))
        for row in range(len(counts)):
            some = parts[order[first[row]:first[row + 1]]].astype(np.float64)
            if len(some):
                weight = np.exp2(some[..., head_dim] - some[..., head_dim].max(0))
                total = (weight * some[..., head_dim + 1]).sum(0)
                wanted[row] = (weight[..., None] * some[..., :head_dim]).sum(0) / total[:, None]
        wanted = wanted.reshape(len(counts), -1)
        got = widen(memory.get(out, wanted.shape, TYPES[number]), number)
        check.near(name, got, wanted, rounding(number, wanted) + 2e-6)

    return run


def _upto(count: int) -> list[int]:
    return list(range(count))


# heads that share a key-value head: Qwen2.5 1.5B 6, 7B and 0.5B 7, Llama-3.1-8B and Qwen3-8B 4, Qwen3-0.6B 2, Qwen3-14B 5
QUICK = [  # each kernel over more than 64 positions, so that places of keys and values are used again
    Geometry("tensor", "bf16", 128, 12, 2, 16, [70, 77, 66], [(0, 77, _upto(3))]),
    Geometry("tensor", "f16", 128, 4, 1, 16, [65, 20], [(0, 65, _upto(2))]),
    Geometry("tensor", "bf16", 64, 14, 2, 16, [1, 2, 15, 16, 17, 31, 32, 33, 64], [(0, 64, _upto(9))]),
    Geometry("tensor", "bf16", 64, 6, 2, 16, [72, 140], [(0, 140, _upto(2))]),
    Geometry("tensor", "f16", 64, 7, 1, 32, [33, 100, 99], [(0, 100, _upto(3))]),
    Geometry("tensor", "bf16", 96, 3, 1, 16, [20, 77], [(0, 77, _upto(2))]),
    Geometry("tensor", "f16", 96, 4, 4, 16, [130], [(0, 130, [0])]),
    Geometry("tensor", "bf16", 128, 4, 2, 16, [300, 280], [(175, 256, _upto(2)), (256, 300, _upto(2))], window=105),
    Geometry("any", "f32", 40, 6, 2, 8, [33, 20], [(0, 33, _upto(2))]),
    Geometry("any", "bf16", 80, 5, 1, 16, [33], [(0, 33, [0])], window=20),
    Geometry("any", "f16", 256, 5, 1, 16, [20], [(0, 20, [0])]),
]
GEOMETRIES = [
    Geometry("tensor", "bf16", 128, 12, 2, 16, [511 + i for i in range(10)],
             [(0, 256, _upto(10)), (256, 512, _upto(10)), (512, 520, list(range(2, 10)))]),
    Geometry("tensor", "bf16", 128, 28, 4, 16, [257, 300, 299, 258, 290, 400, 512, 259, 260], [(0, 256, _upto(9)), (256, 512, _upto(9))]),
    Geometry("tensor", "bf16", 128, 32, 8, 16, [65, 80, 79, 66], [(0, 80, _upto(4))]),
    Geometry("tensor", "bf16", 128, 32, 8, 64, [16 * i + 1 for i in range(16)], [(0, 241, _upto(16))]),
    Geometry("tensor", "bf16", 128, 16, 8, 16, [250 + i for i in range(32)], [(0, 256, _upto(32)), (256, 281, list(range(7, 32)))]),
    Geometry("tensor", "bf16", 128, 40, 8, 32, [100 + i for i in range(12)], [(0, 111, _upto(12))]),
    Geometry("tensor", "bf16", 128, 4, 4, 16, [200 + 3 * i for i in range(16)], [(0, 245, _upto(16))]),
    Geometry("tensor", "bf16", 128, 64, 1, 16, [77], [(0, 77, [0])]),
    Geometry("tensor", "f16", 128, 28, 4, 16, [257, 300], [(0, 256, _upto(2)), (256, 300, _upto(2))]),
    Geometry("tensor", "bf16", 128, 12, 2, 16, [300, 350, 420], [(171, 256, _upto(2)), (256, 420, _upto(3))], window=129),
    Geometry("tensor", "f16", 96, 32, 32, 16, [640, 641], [(385, 512, _upto(2)), (512, 641, _upto(2))], window=256),
    Geometry("tensor", "f16", 64, 14, 2, 64, [70 + i for i in range(9)], [(0, 78, _upto(9))]),
    Geometry("any", "f32", 128, 32, 8, 16, [65, 80], [(0, 80, _upto(2))]),
    Geometry("any", "bf16", 128, 71, 1, 16, [33], [(0, 33, [0])]),
    Geometry("any", "f32", 80, 20, 20, 16, [270], [(0, 256, [0]), (256, 270, [0])]),
]


def _cases_of(geometries, sets) -> list[Case]:
    return [Case(f"{g.kernel} {i}", (g.kernel, "attention_merge_f32"), g.shape(), _against_reference(g), sets)
            for i, g in enumerate(geometries)]


def cases(on_card: bool) -> list[Case]:
    """All cases of attention."""
    found = _cases_of(QUICK, ("small", "quick", "full", "real")) + [
        Case(f"{g.kernel} geometry {i}", (g.kernel, "attention_merge_f32"), g.shape(), _against_reference(g),
             ("quick", "full", "real") if on_card else ("quick", "full")) for i, g in enumerate(GEOMETRIES)]
    # 3, 6 and 12 queries of each row: four, two and one way beside four alone
    for number, head_dim, heads, kv_heads, rows in (("bf16", 128, 6, 1, 5), ("f16", 64, 7, 1, 7), ("bf16", 96, 4, 2, 6)):
        geometry = Geometry("tensor", number, head_dim, heads, kv_heads, 16, [61 + 2 * i for i in range(rows)],
                            [(0, 61 + 2 * (rows - 1), _upto(rows))])
        found.append(Case(f"{geometry.kernel} company", (geometry.kernel,), geometry.shape(), _company(geometry), ("small", "quick", "full", "real")))
    cut = QUICK[1]
    found += [Case(f"{cut.kernel} sums of an {card}", (cut.kernel,), cut.shape(), _against_reference(cut), sums=sums) for card, sums in CARDS.items()]
    for number in ("f32", "bf16", "f16"):
        for heads, head_dim in ((3, 96), (5, 40), (28, 128)):
            sets = ("quick", "full", "real") if heads == 28 else ("small", "quick", "full", "real")
            found.append(Case(f"attention_merge_{number} {heads}x{head_dim}", (f"attention_merge_{number}",), "3, 0, 1, 9 parts",
                              _merge(number, heads, head_dim), sets))
    return found
