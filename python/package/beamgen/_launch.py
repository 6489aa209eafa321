"""Starts the programs of checkers in a separate process, which ends them when this process ends.

The interpreter runs this file with the path of the package's part in Rust, and a launcher's instructions after it. It
imports nothing else of the package, so it starts at once and is the same whatever folder it is started in.
"""

from __future__ import annotations

import sys


def command(extension: str) -> list[str]:
    """Returns the command line of a launcher, without its instructions; empty if the interpreter's path is unknown."""
    return [sys.executable, "-I", "-S", __file__, extension] if sys.executable else []


def main() -> None:
    from importlib.machinery import ExtensionFileLoader, ModuleSpec

    loader = ExtensionFileLoader("beamgen._beamgen", sys.argv[1])
    module = loader.create_module(ModuleSpec("beamgen._beamgen", loader, origin=sys.argv[1]))
    loader.exec_module(module)
    own = len(sys.orig_argv) - len(sys.argv) + 2
    sys.exit(module.launch(sys.orig_argv, own))


if __name__ == "__main__":
    main()
