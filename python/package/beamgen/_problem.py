"""Problems, and the types that can be given as a problem."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from beamgen import _beamgen
from beamgen._errors import InputError


class Frame(Protocol):
    """A data frame of pandas, Polars or PyArrow."""

    @property
    def columns(self) -> Any: ...


@dataclass(frozen=True)
class Problem:
    """A problem to solve. Its id, text and context decide the random numbers of its search.

    A search with given steps continues them:

    >>> import beamgen
    >>> text = "Mia has 4 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?"
    >>> problem = beamgen.Problem(text, id="pens", answer="6", steps=["Mia has 4 pens: 4."])
    >>> result = beamgen.Solver().solve(problem)
    >>> result.id, result.given, result.correct
    ('pens', 1, True)
    """

    text: str
    id: str = "1"
    answer: str | None = None
    """The reference answer, if it is known. The search never uses it."""
    steps: Sequence[str] = ()
    """The first steps of every chain, which count exactly as sampled steps do."""
    context: Sequence[str] = ()
    """Documents from which the answer has to follow. Generator, scorers and judges read them before the text."""
    verifier: str | None = None
    """The name of the verifier that judges the chains, if it is not the solver's."""
    tests: Any = field(default=None, hash=False)
    """The data by which a verifier judges, such as the tests of a program, as JSON values. The search never uses them."""


# A file, a data set's name, a data frame, or anything that gives problems.
Problems = Iterable[str | Problem | Mapping[str, Any]] | str | os.PathLike[str] | Frame


def load_problems(
    name: str | os.PathLike[str],
    *,
    subset: str | None = None,
    split: str | None = None,
    problem_key: str | None = None,
    answer_key: str | None = None,
    solution_key: str | None = None,
) -> list[Problem]:
    r"""Reads the problems of a file, or of a data set on the Hugging Face hub.

    A file is JSON lines, a JSON array, CSV, TSV or Parquet, also compressed by gzip, zstd or xz, or plain text with a
    problem a line. ``ORG/NAME`` or ``ORG/NAME@REVISION`` is a data set; ``subset`` is by default ``default`` or the
    only one, ``split`` is ``test`` or the only one.

    The keys of published data sets are known; ``problem_key``, ``answer_key`` and ``solution_key`` (a worked solution
    whose box is the reference) name others.

    Raises :class:`InputError` if there is no such file or data set, or if a record is not a problem.

    >>> import pathlib, tempfile, beamgen
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "problems.csv")
    ...     _ = file.write_text("id,problem,answer\na,3 times 4?,12\nb,6 and 6?,12\n")
    ...     [(problem.id, problem.text, problem.answer) for problem in beamgen.load_problems(file)]
    [('a', '3 times 4?', '12'), ('b', '6 and 6?', '12')]
    """
    part, keys = (subset, split), (problem_key, answer_key, solution_key)
    return [_problem(line) for line in _beamgen.load_problems(name, part, keys)]


def sample_problems() -> list[Problem]:
    """Returns 40 sample problems with answers, of the kind that the bundled models know; none was used in training.

    >>> import beamgen
    >>> problem = beamgen.sample_problems()[0]
    >>> problem.text, problem.answer
    ('Ana has 16 shells. Kim has 1 more shells than Ana. Ben has 10 fewer shells than Kim. How many shells does Ben have?', '7')
    """
    return [_problem(line) for line in _beamgen.sample_problems()]


def _problem(line: str) -> Problem:
    fields = json.loads(line)
    steps, context = (tuple(fields.pop(name, ())) for name in ("steps", "context"))
    return Problem(steps=steps, context=context, **fields)


def with_context(problem: Problem) -> str:
    """Returns the text as scorers read it."""
    context = [problem.context] if isinstance(problem.context, str) else problem.context
    return "\n\n".join([*context, problem.text])


def refuse_table(given: object, name: str, instead: str) -> None:
    """Raises for a data frame or a mapping in place of a list: iterating over it would give names of columns."""
    if isinstance(given, Mapping) or hasattr(given, "columns"):
        kind = type(given).__name__
        raise TypeError(f"{name}: a {kind} gives the names of its columns, not what stands there: give {instead}")


def rows_of(given: Any) -> Any:
    """Returns the rows of a data frame of pandas, Polars or PyArrow as mappings, and anything else as it is."""
    for method, arguments in (("to_dicts", ()), ("to_pylist", ()), ("to_dict", ("records",))):
        if hasattr(given, "columns") and hasattr(given, method):
            return [_without_gaps(row) for row in getattr(given, method)(*arguments)]
    return given


def _without_gaps(row: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out what a data frame has in place of a missing value, and makes NumPy's scalars Python's."""
    values = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
    # NaN and NaT differ from themselves.
    return {name: value for name, value in values.items() if value is not None and value == value}


def as_lines(problems: Any) -> str | None:
    """Converts problems to the lines of a problem file. Returns ``None`` for a file, a data set or nothing."""
    if problems is None or isinstance(problems, str | os.PathLike):
        return None
    rows = rows_of(problems)
    refuse_table(rows, "problems", "a list of mappings")
    return "\n".join(as_line(problem, str(number), f"problem {number}") for number, problem in enumerate(rows, 1))


def as_line(problem: str | Problem | Mapping[str, Any], id: str, name: str) -> str:
    """Converts a problem to the line of a problem file."""
    if isinstance(problem, str):
        fields: dict[str, Any] = {"id": id, "problem": problem}
    elif isinstance(problem, Problem):
        fields = {"id": problem.id, "problem": problem.text, "answer": problem.answer}
        for key, texts in (("steps", problem.steps), ("context", problem.context)):
            if texts:
                fields[key] = texts if isinstance(texts, str) else list(texts)
        for key, value in (("verifier", problem.verifier), ("tests", problem.tests)):
            if value is not None:
                fields[key] = value
    elif isinstance(problem, Mapping):
        fields = {"id": id, **problem}
    else:
        raise TypeError(f"{name}: a problem is a string, a beamgen.Problem or a mapping, not {type(problem).__name__}")
    try:
        return json.dumps(fields)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}") from error
