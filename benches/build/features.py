#!/usr/bin/env python3
"""Measures what each feature of the program costs: seconds of compilation and bytes of the program.

    python3 benches/build/features.py [--target-dir DIR] [FEATURE ...]

The default program is built from nothing, with `cargo build --release --timings`. Then each feature is
taken away, or added if it is not a default one, in the same folder. The seconds of a feature are those of
the crates that only it needs, and the difference in the crates that are compiled otherwise with it. They
are seconds of one compiler at work beside another, as cargo reports them: with two cores, halve them for
the time that one waits. Nothing else should run meanwhile.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

DEFAULT = ["cuda", "serve", "remote"]
OTHERS = ["candle", "data", "structured", "train"]


Unit = tuple[str, str, str]
"""A crate with its version, the target in it, and what cargo does with it."""


def build(folder: Path, features: list[str]) -> tuple[dict[Unit, float], int]:
    """Builds the program. Returns the seconds of each unit, 0 if it was there already, and the program's bytes."""
    options = ["--no-default-features", "--features", ",".join(features)]
    command = ["cargo", "build", "--release", "--timings", "--target-dir", str(folder), *options]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    newest = max(glob.glob(str(folder / "cargo-timings" / "cargo-timing-*.html")), key=os.path.getmtime)
    units = json.loads(re.search(r"UNIT_DATA = (\[.*?\]);", Path(newest).read_text(), re.S).group(1))
    names = ((f"{unit['name']} {unit['version']}", unit["target"], unit["mode"]) for unit in units)
    seconds = dict(zip(names, (unit["duration"] for unit in units), strict=True))
    return seconds, (folder / "release" / "beamgen").stat().st_size


def crates(features: list[str]) -> set[str]:
    """Returns the crates of a program with these features."""
    options = ["--no-default-features", "--features", ",".join(features)]
    command = ["cargo", "tree", "-e", "normal,build", "--prefix", "none", "--format", "{p}", *options]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {f"{name} {version.lstrip('v')}" for name, version, *_ in (line.split() for line in lines if line)}


def main() -> int:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", nargs="*", default=DEFAULT + OTHERS)
    parser.add_argument("--target-dir", type=Path, default=Path("target/build-cost"))
    args = parser.parse_args()
    unknown = set(args.features) - set(DEFAULT + OTHERS)
    if unknown:
        print(f"no feature {', '.join(sorted(unknown))}: use {', '.join(DEFAULT + OTHERS)}", file=sys.stderr)
        return 2
    shutil.rmtree(args.target_dir, ignore_errors=True)
    base, size = build(args.target_dir, DEFAULT)
    print("| feature | default | crates | seconds of compilation | MB |\n|---|---|---:|---:|---:|", flush=True)
    print(f"| all default ones | | {len(crates(DEFAULT))} | {sum(base.values()):.0f} | {size / 1e6:.2f} |", flush=True)
    for feature in args.features:
        is_default = feature in DEFAULT
        others = [name for name in DEFAULT if name != feature] if is_default else [*DEFAULT, feature]
        other, bytes_ = build(args.target_dir, others)
        ours, theirs = crates(DEFAULT), crates(others)
        with_, without = (base, other) if is_default else (other, base)
        own = ours - theirs if is_default else theirs - ours
        # Crates that only the feature needs, and units that were compiled in both builds, but otherwise.
        cost = sum(seconds for unit, seconds in with_.items() if unit[0] in own)
        both = [unit for unit in with_ if unit[0] not in own and other.get(unit)]
        cost += sum(with_[unit] - without[unit] for unit in both if unit in without)
        grown = size - bytes_ if is_default else bytes_ - size
        mark = "yes" if is_default else "no"
        print(f"| `{feature}` | {mark} | {len(own)} | {cost:.0f} | {grown / 1e6:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
