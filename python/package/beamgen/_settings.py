"""Settings as keywords: the names of ``beamgen solve``'s flags and of the keys in configs/search/default.toml."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from beamgen._errors import InputError

_Path = str | os.PathLike[str]


class SearchSettings(TypedDict, total=False):
    """Settings of a search, which each request may have of its own. What is ``None`` is left as it is."""

    strategy: str | None
    """beam, dvts, best-of-n, majority, and the others that ``beamgen solve --help`` lists."""
    n: int | None
    """Chains per problem."""
    m: int | None
    """The expansion factor: a beam keeps n/m chains and expands each of them m times."""
    seed: int | None
    temperature: float | None
    """0 takes the likeliest token."""
    top_k: int | None
    top_p: float | None
    min_p: float | None
    aggregation: str | None
    """How step scores become a chain's score: min, product, mean, last, max, soft-min:T or likely-min:W."""
    choose: str | None
    """The answer among finished chains: best, majority or weighted."""
    max_steps: int | None
    budget_tokens: int | None
    """Most tokens to sample for one problem."""
    threshold: float | None
    """Answers whose chain scores less are withheld."""
    early_rejection: int | None
    """Steps are scored after so many tokens, and the worst rejected there."""
    consensus: bool | None
    """A majority vote stops when it is decided."""
    speculate: bool | None
    settings: Mapping[str, Any] | None
    """Any other key by its name in the TOML file: ``{"search.mcts.exploration": 2}``, or tables within tables."""


class Settings(SearchSettings, total=False):
    """Settings of a solver: those of its searches, and its models."""

    pair: str | None
    """Published models by name, with the settings that suit them, or a TOML file."""
    config: _Path | None
    """A TOML file of settings; what is given beside it wins."""
    generator: _Path | None
    """A folder in Hugging Face layout, a GGUF file, ``ORG/NAME[@REVISION][:FILE.gguf|:QUANT]`` of a hub, or ``bundled``."""
    prm: _Path | None
    """The process reward model, likewise, or ``none``."""
    prm_format: str | None
    prm_reference: _Path | None
    generator_url: str | list[str] | None
    """Servers that run the generator (in a build with the feature ``remote``)."""
    prm_url: str | list[str] | None
    dtype: str | None
    """Weights as auto, f32, bf16, f16 or int8."""
    device: str | None
    """auto, cpu, cuda or cuda:N, the fastest card first unless CUDA_DEVICE_ORDER is PCI_BUS_ID."""
    kv_dtype: str | None
    kv_memory: str | int | None
    """Most memory for KV caches of both models: "2GiB", or bytes."""
    threads: int | None
    offline: bool | None
    """Models of the hub come from its cache only."""
    in_flight: int | None
    """Problems worked on at once: the speed, never the results."""


_SEARCH_KEYS = {
    "n": "search.n",
    "m": "search.m",
    "seed": "generator.seed",
    "temperature": "generator.sampling.temperature",
    "top_k": "generator.sampling.top_k",
    "top_p": "generator.sampling.top_p",
    "min_p": "generator.sampling.min_p",
    "aggregation": "search.aggregation",
    "max_steps": "search.max_steps",
    "budget_tokens": "search.budget_tokens",
    "threshold": "search.threshold",
    "early_rejection": "search.early_rejection",
    "consensus": "search.consensus",
    "speculate": "search.speculate",
}
_SOLVER_KEYS = {
    "generator": "models.generator",
    "prm": "models.prm",
    "prm_format": "models.prm_format",
    "prm_reference": "models.prm_reference",
    "generator_url": "models.generator_server.urls",
    "prm_url": "models.prm_server.urls",
    "scorer": "models.scorer",
    "dtype": "models.dtype",
    "offline": "models.offline",
    "device": "engine.device",
    "kv_dtype": "engine.kv_dtype",
    "kv_memory": "engine.kv_bytes",
    "threads": "engine.threads",
    "in_flight": "search.in_flight",
}
# Keywords that are no keys.
_SEARCH_WORDS = ["strategy", "choose", "settings"]
_SOLVER_WORDS = ["pair", "config"]


def for_request(keywords: Mapping[str, Any]) -> str:
    """What the engine is told of a request's settings."""
    return _wanted(keywords, _SEARCH_KEYS, _SEARCH_WORDS)


def for_solver(keywords: Mapping[str, Any]) -> str:
    """What the engine is told of a solver's settings."""
    return _wanted(keywords, _SEARCH_KEYS | _SOLVER_KEYS, _SEARCH_WORDS + _SOLVER_WORDS)


def _wanted(keywords: Mapping[str, Any], keys: Mapping[str, str], words: list[str]) -> str:
    given = {name: value for name, value in keywords.items() if value is not None}
    for name in given:
        if name not in keys and name not in words:
            raise TypeError(_unexpected(name, [*keys, *words]))
    # Keywords win over the keys in `settings`, as flags do over --set.
    settings = list(_flat(given.pop("settings", {}), ""))
    for name, value in given.items():
        if name in keys:
            urls = isinstance(value, str) and name.endswith("_url")
            settings.append((keys[name], value.split(",") if urls else value))
    wanted = {name: value for name, value in given.items() if name in words} | {"settings": settings}
    try:
        return json.dumps(wanted, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"settings: {error}") from error


def _unexpected(name: str, known: list[str]) -> str:
    if name in _SOLVER_KEYS or name in _SOLVER_WORDS:
        return f"{name!r} belongs to the solver: give it to beamgen.Solver"
    near = difflib.get_close_matches(name, known, 1)
    advice = f"did you mean {near[0]!r}?" if near else "any key of the configuration goes into settings={...}"
    return f"there is no keyword {name!r}: {advice}"


def _flat(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    """Tables within tables as keys with dots."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        elif value is not None:
            yield f"{above}{name}", value


def _plain(value: object) -> object:
    """A path, or a number of numpy, for JSON."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no value of a setting")
