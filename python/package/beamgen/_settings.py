"""Settings as keywords, with the names of ``beamgen solve``'s flags or of keys in configs/search/default.toml."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from beamgen._errors import InputError
from beamgen._settings_table import BenchSettings, SearchSettings, Settings

_SEARCH = frozenset(SearchSettings.__annotations__)
_SOLVER = frozenset(Settings.__annotations__) | {"scorer"}
_BENCH = frozenset(BenchSettings.__annotations__) | {"strategies", "scorers", "seeds", "limit"}
# Keywords that are more than one setting, or none.
_WORDS = ("strategy", "choose", "pair", "config")


def for_request(keywords: Mapping[str, Any]) -> str:
    """Converts the settings of a request to JSON."""
    return _wanted(keywords, _SEARCH)


def for_solver(keywords: Mapping[str, Any]) -> str:
    """Converts the settings of a solver to JSON."""
    return _wanted(keywords, _SOLVER)


def for_bench(keywords: Mapping[str, Any]) -> str:
    """Converts the settings of all runs of a bench to JSON."""
    return _wanted(keywords, _BENCH)


def _wanted(keywords: Mapping[str, Any], known: frozenset[str]) -> str:
    given = {name: value for name, value in keywords.items() if value is not None}
    for name in given:
        if name not in known:
            raise TypeError(_unexpected(name, known))
    wanted = {name: given.pop(name) for name in _WORDS if name in given}
    # Keywords win over the keys in `settings`, as flags do over --set.
    wanted["settings"] = list(_flat(given.pop("settings", {}), ""))
    wanted["named"] = list(given.items())
    return as_json(wanted, "settings")


def as_json(value: object, name: str) -> str:
    """Converts a value to JSON; ``name`` names it in messages."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}") from error


def called(name: str, keywords: Mapping[str, Any]) -> str:
    """Formats a call for a report, with the keywords that are not ``None``."""
    given = {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in keywords.items()}
    shown = (f"{key}={value!r}" for key, value in given.items() if not (value in (None, []) or value is False))
    return f"beamgen.{name}({', '.join(shown)})"


def _unexpected(name: str, known: Iterable[str]) -> str:
    if name in _SOLVER and known == _SEARCH:
        return f"{name!r} is a setting of the solver: give it to beamgen.Solver"
    near = difflib.get_close_matches(name, sorted(known), 1, 0.7)
    advice = f"did you mean {near[0]!r}?" if near else "any key of the configuration goes into settings={...}"
    return f"unknown keyword {name!r}: {advice}"


def _flat(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    """Flattens tables within tables to keys with dots."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        elif value is not None:
            yield f"{above}{name}", value


def _plain(value: object) -> object:
    """Converts a path or a NumPy number for JSON."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    if hasattr(value, "__call__"):
        own = "scorer=, step_checker=, step_generator= or chain_verifier= of beamgen.Solver"
        raise TypeError(f"a callable is no value of a setting: give it as {own}")
    raise TypeError(f"{type(value).__name__} is not a value of a setting")
