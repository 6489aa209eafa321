"""Runs a script of the peers (in $BIN, see run.sh) on the card: make_models or sal_pipeline, with its own arguments.

The scripts name no device, so everything that they make is made on the default one.
"""

import os
import pathlib
import runpy
import sys

import torch

scripts = pathlib.Path(os.environ["BIN"])
sys.path.insert(0, str(scripts))
name, *sys.argv[1:] = sys.argv[1:]
if name == "make_models":
    import make_models

    # hidden, layers, heads, kv heads, intermediate, vocabulary, tied embeddings, rope base
    make_models.PRESETS["qwen7b"] = (3584, 28, 28, 4, 18944, 152064, False, 1e6)
    make_models.main()
else:
    torch.set_default_device("cuda")
    runpy.run_path(str(scripts / f"{name}.py"), run_name="__main__")
