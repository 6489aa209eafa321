"""What two devices' kernels wrote (trace.cpp), compared: the first launch, row and column that differ."""

import numpy as np

# By how a kernel's name begins, the first that fits: its rows (the number of an argument, or the grid's x) and the width of
# a row from the arguments. The type of the numbers is that of the name's end, or float32.
SHAPES = [
    ("linear_silu_many_", 3, lambda a: a[5] // 2, None),
    ("linear_silu_", 5, lambda a: a[7] // 2, None),
    ("linear_many_", 4, lambda a: a[6], "f32"),
    ("linear_any_", 4, lambda a: a[6], "f32"),
    ("linear_", 6, lambda a: a[8], "f32"),
    ("attention_merge_", "grid", lambda a: a[4] * a[5], None),
    ("attention_any_", "all", lambda a: a[9] * (a[11] + 2), "f32"),
    ("attention_", "all", lambda a: a[9] * (a["head_dim"] + 2), "f32"),
    ("embed_", "grid", lambda a: a[3], "f32"),
    ("gather_rows", "grid", lambda a: a[5], "f32"),
    ("prm_head", 6, lambda a: a[8], "f64"),
    ("prm_layer", 4, lambda a: a[6], "f64"),
    ("rmsnorm_heads", "grid", lambda a: a[1], "f32"),
    ("rmsnorm_", "grid", lambda a: a[3], None),
    ("rope_angles", "grid", lambda a: 2 * a[4], "f32"),
    ("rope_kv_", "grid", lambda a: a[4], "f32"),
    ("sample", "grid", lambda a: 1, "u32"),
    ("log_prob", "grid", lambda a: 1, "f32"),
    ("silu_mul_", "grid", lambda a: a[2], None),
]
TYPES = {"f32": np.float32, "f64": np.float64, "u32": np.uint32, "f16": np.float16, "bf16": np.uint16}
SIXTEEN = ("f16", "bf16")


def launches(path):
    """Kernel, grid, arguments and content of each launch in a file; the last may have been cut off."""
    data, at = path.read_bytes(), 0
    while (end := data.find(b"\n", at)) >= 0:
        name, *words = data[at:end].decode().split()
        grid, count, arguments = words[:3], int(words[3]), [int(word) for word in words[4:]]
        if end + 1 + count > len(data):
            return
        yield name, tuple(map(int, grid)), arguments, data[end + 1 : end + 1 + count]
        at = end + 1 + count


def matrix(name, grid, arguments, content):
    """The results as rows of float64."""
    _, rows, width, kind = next(shape for shape in SHAPES if name.startswith(shape[0]))
    words = dict(enumerate(argument & 0xFFFFFFFF for argument in arguments))
    if name.split("_")[1:2] and name.split("_")[1].isdigit():
        words["head_dim"] = int(name.split("_")[1])
    width, kind = width(words), kind or name.rsplit("_", 1)[1]
    size = np.dtype(TYPES[kind]).itemsize * width
    most = len(content) // size
    rows = min(most, most if rows == "all" else grid[0] if rows == "grid" else words[rows])
    values = np.frombuffer(content[: rows * size], TYPES[kind]).reshape(rows, width)
    if kind == "bf16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64)


def differing(got, wanted, tolerance):
    """Row and column of the first value that is too far from what is wanted, relative to it and to its row's median. What the
    reference never wrote is NaN there."""
    unknown = np.isnan(wanted)
    usual = np.ma.median(np.ma.array(np.abs(wanted), mask=unknown), axis=1, keepdims=True).filled(0)
    with np.errstate(invalid="ignore"):
        near = np.abs(got - wanted) <= tolerance * np.maximum(np.abs(wanted), usual)
    wrong = np.argwhere(~unknown & ~near & (got != wanted))
    return tuple(map(int, wrong[0])) if len(wrong) else None


def tolerance(name, embedding):
    """Of a kernel, by the type of its numbers; after an embedding of a model, whose type is given, what its roundings make of it."""
    kind = embedding or name.rsplit("_", 1)[-1]
    if name.startswith("prm") and not embedding:
        return 1e-12
    return 1e-2 if kind in SIXTEEN else 1e-3


def first_difference(card, cpu):
    """The first launch of the trace `card` whose results are not those of the trace `cpu`; None if all are."""
    embedding = None
    number, compared = 0, 0
    for number, (ours, theirs) in enumerate(zip(launches(card), launches(cpu)), 1):
        name, grid, arguments, content = ours
        if (name, grid) != theirs[:2]:
            return {"launch": number, "kernel": name, "says": f"{name}{grid} where the cpu launches {theirs[0]}{theirs[1]}"}
        if name.startswith("embed_"):
            embedding = name.rsplit("_", 1)[1]
        compared += 1
        if content == theirs[3]:
            continue
        if name == "sample" and embedding in SIXTEEN:
            continue  # a draw may fall between two roundings
        got, wanted = (matrix(*launch) for launch in (ours, theirs))
        if place := differing(got, wanted, tolerance(name, embedding)):
            row, column = place
            values = float(got[place]), float(wanted[place])
            return {"launch": number, "kernel": name, "row": row, "column": column, "got": values[0], "wanted": values[1],
                    "says": f"launch {number}, {name}: row {row}, column {column}: {values[0]:.6g}, the cpu {values[1]:.6g}"}  # fmt: skip
    if compared == 0:
        return {"launch": 0, "kernel": None, "says": "nothing was launched"}
    return None
