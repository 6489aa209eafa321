"""Measured times of kernels beside the model's, sorted by the milliseconds that they lose in a pass over all layers.

    python3 benches/gpu/compare.py time.json [CARD]

CARD is one of the model's, if the device's own name is none of them.
"""

import json
import sys

import model
from report import print_table


HEAD = ["kernel", "shape", "rows", "us", "model us", "GB/s", "of a copy", "TFLOP/s", "lost ms a pass"]


def table(report, named=None):
    """Title, head and rows."""
    card = model.card_named(named or report["device"]["device"])
    rows = sorted((beside(row, report["device"]["copy_gb_per_s"], card) for row in report["kernels"]), key=lambda row: -row[-1])
    title = "kernels beside the model" if card else f"kernels ({report['device']['device']} is not in the model)"
    return title, HEAD, rows


def beside(row, copied, card):
    """A kernel's time, the model's, the rates, and what the difference makes in a pass over all layers."""
    rate, tera = row["bytes"] / row["us"] / 1e3, row["flops"] / row["us"] / 1e6
    expected = model.kernel(card, row) if card else None
    lost = model.launches(row) * (row["us"] - expected) / 1e3 if card else 0.0
    return [row["kernel"], row["shape"], row["rows"], row["us"], expected or "-", rate, f"{100 * rate / copied:.0f} %", tera or "-", lost]


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print_table(*table(json.load(file), *sys.argv[2:3]))
