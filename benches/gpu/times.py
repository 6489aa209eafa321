"""Times of every kernel and of decoding, beside the model's."""

import sys
from pathlib import Path

import compare
import model
from report import objects, run

HERE = Path(__file__).parent


def times(report, world):
    report.attempt(kernels, world)
    report.attempt(library, world)
    for shape in ("1.5b", "7b"):
        report.attempt(decode, world, shape)


def kernels(report, world):
    if not report.has_time("kernels", "all", 20):
        return
    ran = run([world.programs["kernels"], "--json", *world.kernel_sizes], world.programs.card(), min(200, report.left() - 5))
    told = objects(ran.output)
    measured = [row for row in told if "us" in row]
    result = ran.result if ran.result != "ok" or measured else "fails"
    report.add("kernels", "all", result, f"{len(measured)} times" if result == "ok" else ran.says(), ran.seconds)
    # also what was measured before a failure
    if measured:
        report.head |= {"device": next(row for row in told if "device" in row), "kernels": measured}
        report.table(*compare.table(report.head))


def library(report, world):
    """What a library's product of large matrices reaches, for rows enough."""
    if not report.has_time("library", "product", 15):
        return
    ran = run([sys.executable, HERE / "ceiling.py"], world.programs.card(), 60)
    known = ran.result == "ok" or "No module named" in ran.output or "no card" in ran.output
    report.add("library", "product", ran.result if ran.result == "ok" or not known else "left out", ran.says(), ran.seconds)


def decode(report, world, shape):
    """Tokens a second at 1, 16, 64 and 256 rows."""
    what = f"{shape}, 1 to 256 rows"
    if not report.has_time("decode", what, world.decode_needs[shape]):
        return
    ran = run([world.programs["beamgen"], "bench-engine", *world.decoded(shape), "--device", "cuda", "--json"], world.programs.card(), report.left() - 5)
    measured = objects(ran.output)
    result = ran.result if ran.result != "ok" or measured else "fails"
    report.add("decode", what, result, f"{len(measured)} times" if result == "ok" else ran.says(), ran.seconds, measured=measured)
    card = model.card_named(measured[0]["device"]) if measured else None
    rows = []
    for row in measured:
        expected = model.decode(card, model.SHAPES[shape], row["batch"], row["prompt"], row["new"] / 2) if card else None
        rate = row["device_copy_gb_per_s"]
        rows.append([row["batch"], row["prompt"], row["decode_tokens_per_s_median"], row["step_ms_median"], expected or "-", row["weights_gb_per_s"], rate])
    report.table(f"decoding, {shape}", ["rows", "shared", "tokens/s", "ms a step", "model", "weights GB/s", "copy GB/s"], rows)

