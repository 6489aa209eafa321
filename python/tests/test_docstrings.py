"""Every public name has a docstring, and the examples of docstrings run."""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import io
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import beamgen
import pytest

# Names that have to have an example.
MAIN = [
    "InputError",
    "Problem",
    "Result",
    "Result.from_dict",
    "Result.to_dict",
    "Result.tree",
    "RewardModel.score",
    "Solver",
    "Solver.__init__",
    "Solver.asolve",
    "Solver.asolve_all",
    "Solver.guard",
    "Solver.refine",
    "Solver.score",
    "Solver.settings",
    "Solver.solve",
    "Solver.solve_all",
    "Solver.stream",
    "annotate",
    "bench",
    "evaluate_prm",
    "load_problems",
    "monitor",
    "rerank",
    "sample_problems",
    "score",
]
# Values of other people's types, which cannot have a docstring of their own.
VALUES = {"Event", "__version__"}


def modules() -> Iterator[ModuleType]:
    yield beamgen
    for module in pkgutil.iter_modules(beamgen.__path__):
        yield importlib.import_module(f"beamgen.{module.name}")


def examples() -> dict[str, doctest.DocTest]:
    """Returns the examples of each object that has some, by its name without the module's."""
    finder, found = doctest.DocTestFinder(exclude_empty=True), {}
    for module in modules():
        tests = finder.find(module)
        # Python before 3.12 does not look into cached properties.
        for name, kind in inspect.getmembers(module, inspect.isclass):
            for attribute, value in vars(kind).items():
                if isinstance(value, functools.cached_property) and kind.__module__ == module.__name__:
                    tests += finder.find(value.func, f"{module.__name__}.{name}.{attribute}", module, vars(module))
        for test in tests:
            if test.examples:
                found[test.name.removeprefix(module.__name__).removeprefix(".") or "beamgen"] = test
    return found


EXAMPLES = examples()


@pytest.mark.filterwarnings("error::beamgen.ForeignProblemWarning")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    done = doctest.DocTestRunner(verbose=False).run(EXAMPLES[name], out=said.write)
    assert done.failed == 0, said.getvalue()
    assert not list(tmp_path.iterdir())


def test_the_main_names_have_examples() -> None:
    assert [name for name in MAIN if name not in EXAMPLES] == []


def documented(kind: type) -> Iterator[tuple[str, Any]]:
    """Yields the public methods and properties that a class defines itself."""
    for name, value in vars(kind).items():
        if isinstance(value, functools.cached_property):
            value = value.func
        elif isinstance(value, classmethod | staticmethod):
            value = value.__func__
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield name, value


@pytest.mark.parametrize("name", sorted(set(beamgen.__all__) - VALUES))
def test_a_public_name_has_a_docstring(name: str) -> None:
    value = getattr(beamgen, name)
    # A dataclass without a docstring gets its signature in place of one.
    assert value.__doc__ and not value.__doc__.startswith(f"{name}("), name
    if inspect.isclass(value):
        assert [member for member, own in documented(value) if not own.__doc__] == []


def test_names_without_a_docstring_are_values() -> None:
    for name in VALUES:
        value = getattr(beamgen, name)
        assert not inspect.isclass(value) and not inspect.isroutine(value)
