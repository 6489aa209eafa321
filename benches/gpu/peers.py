"""Runs a script of the peers (in $BIN, see search.py) on the card, or on $DEVICE: make_models or sal_pipeline, with its own arguments.

The scripts name no device, so what they make is made on the default one: random weights in seconds, a search by `transformers`.
"""

import functools
import os
import pathlib
import runpy
import sys

import torch

DEVICE = os.environ.get("DEVICE", "cuda")


class OnCard:
    """torch, whose random numbers come from the card, where the matrices are."""

    Generator = staticmethod(functools.partial(torch.Generator, device=DEVICE))

    def __getattr__(self, name):
        return getattr(torch, name)


EVALUATED = torch.nn.Module.eval


def evaluated_on_card(module):
    """The scripts evaluate what they have loaded, wherever transformers put it."""
    return EVALUATED(module.to(DEVICE))


scripts = pathlib.Path(os.environ["BIN"])
sys.path.insert(0, str(scripts))
name, *sys.argv[1:] = sys.argv[1:]
torch.set_default_device(DEVICE)
if name == "make_models":
    import make_models

    make_models.torch = OnCard()
    # hidden, layers, heads, kv heads, intermediate, vocabulary, tied embeddings, rope base
    make_models.PRESETS["qwen7b"] = (3584, 28, 28, 4, 18944, 152064, False, 1e6)
    make_models.main()
else:
    torch.nn.Module.eval = evaluated_on_card
    runpy.run_path(str(scripts / f"{name}.py"), run_name="__main__")
