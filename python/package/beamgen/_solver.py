"""The solver: a generator and a scorer, and the search that uses them."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from beamgen import _beamgen, _launch
from beamgen._asyncio import in_thread
from beamgen._errors import InputError, RunError
from beamgen._events import Event, reader
from beamgen._foreign import warn_foreign
from beamgen._mend import Guarded, Refined
from beamgen._problem import Problem, Problems, as_line, load_problems, refuse_table, rows_of
from beamgen._result import Outcome, Result
from beamgen._reward_model import checked
from beamgen._settings import for_request, for_solver
from beamgen._settings_table import SearchSettings, Settings

if TYPE_CHECKING:
    if sys.version_info >= (3, 11):
        from typing import Self, Unpack
    else:
        from typing_extensions import Self, Unpack


# Callables that see a problem and the steps so far, and judge the last step.
Scorer = Callable[[Problem, list[str]], float]
Judge = Callable[[Problem, list[str]], float | None]
Checker = Callable[[Problem, list[str]], bool | str | None]

# Solvers that are there, to be closed before the interpreter is: their threads may call Python.
_solvers: weakref.WeakSet[Solver] = weakref.WeakSet()


class Results(Iterator[Result]):
    """An iterator of the results of many problems: see :meth:`Solver.solve_all`. It has a length if the problems have one.

    ``next`` raises :class:`InputError` if the settings or a problem are at fault, :class:`RunError` if the solver is closed.
    """

    def __init__(
        self, results: Generator[Result, None, None], count: int | None, stop: Callable[[], None], bar: Any = None
    ) -> None:
        self._results = results
        self._count = count
        self._stop = stop
        self._bar = bar

    def __next__(self) -> Result:
        try:
            result = next(self._results)
        except StopIteration:
            if self._bar is not None:
                self._bar.close()
            raise
        if self._bar is not None:
            self._bar.update()
        return result

    def __len__(self) -> int:
        if self._count is None:
            raise TypeError("the problems have no length, so their results have none")
        return self._count

    def close(self) -> None:
        """Cancels the running searches. There are no more results after that."""
        self._stop()
        if self._bar is not None:
            self._bar.close()
        # Python raises if another thread waits for the next result: then that one ends the generator.
        with contextlib.suppress(ValueError):
            self._results.close()


class Solver:
    """Solves problems by step-wise search: a generator, a scorer, and the search between them.

    The models run on a thread of their own. Any number of threads may use a solver at once: their problems share
    forward passes, and every result is the same as alone. A process that was forked has to make its own.

    >>> import beamgen
    >>> with beamgen.Solver(strategy="dvts", n=8, seed=1) as solver:
    ...     solver.solve(beamgen.sample_problems()[0]).answer
    '7'
    """

    def __init__(
        self,
        *,
        step_generator: Callable[[Problem, list[str], int], str] | None = None,
        scorer: str | Scorer | Sequence[str | Judge] | None = None,
        step_checker: Checker | Sequence[Checker] | None = None,
        chain_verifier: Callable[[Problem, list[str], str | None], bool | str | Outcome | None] | None = None,
        on_download: Callable[[str, str, int, int | None], object] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Loads the models that the settings name, or the bundled pair.

        ``scorer`` is ``"prm"`` (the default), ``"orm"``, ``"exact"``, ``"none"``, a reward model's name, a list of
        these, of which the others are judges, or a callable: given the problem and
        the steps so far it says how likely the last one is right, from 0 to 1. It is called on the engine's thread;
        what it raises ends the problem. A callable may be in the list, too; a judge returns ``None`` to abstain.
        A reward model of one's own is loaded if these settings score with it.
        ``step_checker`` (one or a list) proves steps wrong: given the problem and the steps so far it returns ``False`` or
        the reason why the last step is wrong, ``True`` if it is right, ``None`` if nothing is proved. A step that is
        wrong scores 0, and so do all after it.
        ``step_generator`` writes the chains in place of a model: given the problem, the steps so far and a seed it
        returns the next step; an empty one ends the chain. All that is random has to come from the seed.
        ``chain_verifier`` says whether a whole chain is right, in place of ``verifier``: given the problem, the steps
        and the answer that was found in them it returns ``True`` or ``False``, the reason why the chain is wrong,
        ``None`` if it cannot tell, or an :class:`Outcome`. If it raises, the outcome is lost. With
        ``verifier_open=True`` it gets neither the problem's answer nor its tests, and may guide searches
        (``outcome_scores``, ``stop_when_verified``).
        ``on_download`` hears of downloads: model, file, bytes so far, bytes of all or ``None``.

        The other keywords are :class:`Settings`: the flags of ``beamgen solve``, and ``settings={...}`` for any key.

        Raises :class:`InputError` if the settings are at fault or if a model cannot be found, downloaded or loaded, and
        ``TypeError`` if a keyword is unknown or excludes another.

        >>> import beamgen
        >>> def scorer(problem, steps):
        ...     return 0.9 if "=" in steps[-1] else 0.5
        >>> solver = beamgen.Solver(scorer=scorer, n=4, settings={"generator.max_step_tokens": 100})
        >>> [round(step.score, 1) for step in solver.solve(beamgen.sample_problems()[0]).steps]
        [0.5, 0.9, 0.9, 0.5]
        """
        if step_generator is not None and settings.get("generator") is not None:
            raise TypeError("generator and step_generator exclude each other: leave one of them out")
        if chain_verifier is not None and settings.get("verifier") is not None:
            raise TypeError("verifier and chain_verifier exclude each other: leave one of them out")
        scorers = [scorer] if isinstance(scorer, str) or callable(scorer) else list(scorer or [])
        names, call = [each for each in scorers if isinstance(each, str)], None
        own: dict[str, Any] = {"scorer": names or None, **settings}
        if scorers and not isinstance(scorers[0], str):
            call = _with_problem(scorers[0])
            del scorers[0]
            # The scorer is not a name, so all names in the list are judges.
            judge = settings.get("judge") or []
            own = {**settings, "judge": names + ([judge] if isinstance(judge, str) else list(judge)) or None}
        judges = [(_name(each), False, _with_problem(each)) for each in scorers if not isinstance(each, str)]
        checkers = [step_checker] if callable(step_checker) else step_checker or []
        judges += [(_name(checker), True, _with_problem(_as_score(checker))) for checker in checkers]
        write = None if step_generator is None else _with_problem(step_generator)
        wanted, launcher = for_solver(own), _launch.command(_beamgen.__file__)
        verify = None if chain_verifier is None else _with_chain(chain_verifier)
        self._engine = _beamgen.Engine(wanted, (write, call, verify), judges, on_download, launcher)
        _solvers.add(self)

    def solve(
        self,
        problem: str | Problem | Mapping[str, Any],
        *,
        timeout: float | None = None,
        tree: bool = True,
        **settings: Unpack[SearchSettings],
    ) -> Result:
        """Solves a problem. The keywords win over the solver's settings.

        After ``timeout`` seconds the search ends with what it has. Ctrl-C cancels it. ``tree=False`` leaves the tree
        out of the result.

        Raises :class:`InputError` if the settings or the problem are at fault, :class:`RunError` if the run is. Warns with
        :class:`ForeignProblemWarning` if the bundled models do not know such problems.

        >>> import beamgen
        >>> result = beamgen.Solver().solve(beamgen.sample_problems()[0], n=8, seed=1)
        >>> result.answer, result.correct, result.steps[0].text
        ('7', True, 'Ana has 16 shells: 16.')
        """
        requests = self._engine.requests(False, tree)
        if _submit(requests, 0, problem, "the problem", for_request(settings), timeout):
            warn_foreign(2)
        return _result(_next(requests), raises=True)

    def solve_all(
        self,
        problems: Problems,
        *,
        timeout: float | None = None,
        tree: bool = True,
        as_completed: bool = False,
        progress: bool = False,
        **settings: Unpack[SearchSettings],
    ) -> Results:
        """Solves many problems together; the results are in the order of the problems.

        With ``as_completed=True`` each comes as soon as it is done; its ``index`` is the problem's position.

        ``problems`` is a file (a path), a data set ``ORG/NAME`` , a data frame
        (its columns are recognised as the keys of files are), or anything that gives problems; they are taken as there
        is room for them. ``progress=True`` shows a bar of ``tqdm``.
        One that cannot be solved stops nothing: its result has an ``error``. ``timeout`` is in seconds for each of
        them, ``tree=False`` spares the memory of their trees.

        Raises :class:`InputError` if the file or the data set cannot be read. The iterator raises it if the settings are at
        fault, or if one of ``problems`` has no text.

        >>> import beamgen
        >>> solver, problems = beamgen.Solver(), beamgen.sample_problems()[:3]
        >>> [result.answer for result in solver.solve_all(problems)]
        ['7', '20', '9']
        >>> sorted((result.index, result.answer) for result in solver.solve_all(problems, as_completed=True))
        [(0, '7'), (1, '20'), (2, '9')]
        """
        rows: Iterable[str | Problem | Mapping[str, Any]] | str | os.PathLike[str] = rows_of(problems)
        refuse_table(rows, "problems", "a list of mappings")
        requests, wanted = self._engine.requests(False, tree), for_request(settings)
        given = load_problems(rows) if isinstance(rows, str | os.PathLike) else rows
        count = len(given) if isinstance(given, Sized) else None
        bar = _bar(count) if progress else None
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            requests.cancel()

        # Twice what is worked on at once, so that the engine never waits for this side.
        most = 2 * int(self.settings["search"]["in_flight"])
        results = self._solve_all(requests, iter(given), wanted, timeout, most, not as_completed, stopped)
        return Results(results, count, stop, bar)

    async def asolve(
        self,
        problem: str | Problem | Mapping[str, Any],
        *,
        timeout: float | None = None,
        tree: bool = True,
        **settings: Unpack[SearchSettings],
    ) -> Result:
        """Solves a problem like :meth:`solve`, without blocking the event loop. Cancelling the task cancels the search.

        Any number of tasks may do so at once; their problems share forward passes. Raises as :meth:`solve` does.

        >>> import asyncio, beamgen
        >>> solver, problems = beamgen.Solver(), beamgen.sample_problems()[:2]
        >>> async def both():
        ...     return await asyncio.gather(*(solver.asolve(problem) for problem in problems))
        >>> [result.answer for result in asyncio.run(both())]
        ['7', '20']
        """
        requests = self._engine.requests(False, tree)
        try:
            if _submit(requests, 0, problem, "the problem", for_request(settings), timeout):
                warn_foreign(2)
            return _result(await in_thread(lambda: _next(requests)), raises=True)
        finally:
            requests.cancel()

    async def asolve_all(
        self,
        problems: Problems,
        *,
        timeout: float | None = None,
        tree: bool = True,
        as_completed: bool = False,
        progress: bool = False,
        **settings: Unpack[SearchSettings],
    ) -> AsyncGenerator[Result, None]:
        """Solves many problems like :meth:`solve_all`, for ``async for``. Leaving the loop cancels the searches.

        The generator has to be closed (``contextlib.aclosing``) if it is left before its end. Raises as :meth:`solve_all`
        and its iterator do.

        >>> import asyncio, beamgen
        >>> solver, problems = beamgen.Solver(), beamgen.sample_problems()[:2]
        >>> async def answers():
        ...     return [result.answer async for result in solver.asolve_all(problems)]
        >>> asyncio.run(answers())
        ['7', '20']
        """
        results = self.solve_all(
            problems, timeout=timeout, tree=tree, as_completed=as_completed, progress=progress, **settings
        )
        try:
            while (result := await in_thread(lambda: next(results, None))) is not None:
                yield result
        finally:
            results.close()

    def _solve_all(
        self,
        requests: _beamgen.Requests,
        problems: Iterator[str | Problem | Mapping[str, Any]],
        wanted: str,
        timeout: float | None,
        most: int,
        in_order: bool,
        stopped: threading.Event,
    ) -> Generator[Result, None, None]:
        taken, more = 0, True
        # Those that came before their turn, by index, and the index whose turn it is.
        waiting: dict[int, Result] = {}
        due = 0
        try:
            while True:
                while more and len(requests) < most and not stopped.is_set():
                    try:
                        problem = next(problems)
                    except StopIteration:
                        more = False
                        break
                    if _submit(requests, taken, problem, f"problem {taken + 1}", wanted, timeout):
                        warn_foreign(3)
                    taken += 1
                if len(requests) == 0:
                    return
                result = _result(_next(requests), raises=False)
                if not in_order:
                    yield result
                    continue
                waiting[result.index] = result
                while due in waiting:
                    yield waiting.pop(due)
                    due += 1
        finally:
            requests.cancel()

    def stream(
        self,
        problem: str | Problem | Mapping[str, Any],
        *,
        timeout: float | None = None,
        tree: bool = True,
        **settings: Unpack[SearchSettings],
    ) -> Iterator[Event | Result]:
        """Solves a problem and yields events while the search runs, and at the end the :class:`Result`.

        The search begins at once. It is cancelled when the iterator is closed or dropped before its end. Raises as
        :meth:`solve` does: at once if the settings or the problem's form are at fault, otherwise in place of the result.

        >>> import beamgen
        >>> *events, result = beamgen.Solver(n=4).stream(beamgen.sample_problems()[0])
        >>> [event.text for event in events if isinstance(event, beamgen.StepScored)][:2]
        ['Ana has 16 shells: 16.', 'Kim has 1 more shells than Ana: 16 + 1 = 17.']
        >>> result.answer
        '7'
        """
        requests = self._engine.requests(True, tree)
        if _submit(requests, 0, problem, "the problem", for_request(settings), timeout):
            warn_foreign(2)
        return self._stream(requests)

    @staticmethod
    def _stream(requests: _beamgen.Requests) -> Iterator[Event | Result]:
        read = reader()
        try:
            while True:
                news = _next(requests)
                if not isinstance(news, str):
                    yield _result(news, raises=True)
                    return
                yield read(news)
        finally:
            requests.cancel()

    def score(self, problem: str | Problem, steps: Sequence[str]) -> list[float]:
        """Returns the probability that each of the given steps is right, by the solver's scorer: a number from 0 to 1 a step.

        Raises :class:`InputError` if a step is blank or if the scorer cannot read the chain, :class:`RunError` if there is no
        scorer, if it fails, or if the solver is closed.

        >>> import beamgen
        >>> steps = ["Ana has 16 shells: 16.", "Kim has 1 more shells than Ana: 16 - 1 = 15."]
        >>> [round(score, 2) for score in beamgen.Solver().score(beamgen.sample_problems()[0], steps)]
        [1.0, 0.0]
        """
        text, given = checked(problem, steps)
        if self._engine.is_foreign(text):
            warn_foreign(2)
        return self._engine.score(text, given)

    def refine(
        self,
        answers: Iterable[Problem | Mapping[str, Any]],
        *,
        rounds: int = 1,
        below: float | None = None,
        **settings: Unpack[SearchSettings],
    ) -> list[Refined]:
        """Rewrites given answers from their weakest step, ``rounds`` times, and keeps the versions with higher scores.

        An answer is a :class:`Problem` with the ``steps`` of the answer, or a mapping with ``problem`` and ``steps``,
        or with its text as ``response``. ``below`` writes again from the first step that scores less, and not at all
        if there is none.

        Raises :class:`InputError` if the settings or an answer's form are at fault. An answer that cannot be rewritten, such
        as one without steps, stops nothing: it has an ``error``.

        >>> import beamgen
        >>> answer = {"problem": beamgen.sample_problems()[0].text, "response": "Ana has 16 shells: 16.\\nThe answer is 16."}
        >>> refined = beamgen.Solver().refine([answer])[0]
        >>> refined.before.answer, refined.after.answer, refined.rounds[0].step
        ('16', '7', 2)
        """
        _check("rounds", rounds, sys.maxsize)
        _check("below", 0 if below is None else below, 1)
        how, lines = {"rounds": rounds, "below": below}, _answers(answers)
        refined = self._engine.refine(lines, for_request(settings), json.dumps(how))
        return [Refined.from_dict(json.loads(line)) for line in refined]

    def guard(
        self,
        answers: Iterable[Problem | Mapping[str, Any]],
        *,
        bound: float = 0.5,
        samples: int = 8,
        rounds: int = 1,
        **settings: Unpack[SearchSettings],
    ) -> list[Guarded]:
        """Accepts, rewrites or withholds given answers, with reasons. Answers are given as for :meth:`refine`.

        An answer that scores less than ``bound`` is unsure; ``samples`` chains vote; an answer is written again up to
        ``rounds`` times before it is withheld.

        Raises :class:`InputError` if the settings or an answer's form are at fault. An answer that cannot be checked has an
        ``error``.

        >>> import beamgen
        >>> answer = {"problem": beamgen.sample_problems()[0].text, "response": "Ana has 16 shells: 16.\\nThe answer is 16."}
        >>> guarded = beamgen.Solver().guard([answer])[0]
        >>> guarded.verdict, guarded.answer, guarded.reasons[0].code
        ('mend', '7', 'unsound')
        """
        _check("bound", bound, 1)
        _check("samples", samples, sys.maxsize)
        _check("rounds", rounds, sys.maxsize)
        how, lines = {"bound": bound, "samples": samples, "rounds": rounds}, _answers(answers)
        guarded = self._engine.guard(lines, for_request(settings), json.dumps(how))
        return [Guarded.from_dict(json.loads(line)) for line in guarded]

    @property
    def settings(self) -> dict[str, Any]:
        """The effective settings, as the tables of a TOML file. They can be given to a solver again as ``settings=``.

        >>> import beamgen
        >>> beamgen.Solver(strategy="majority", n=8).settings["search"]["choose"]
        'majority'
        """
        settings: dict[str, Any] = json.loads(self._engine.settings())
        return settings

    @property
    def notes(self) -> list[str]:
        """Notes on the models, a line each."""
        return self._engine.notes

    def close(self) -> None:
        """Cancels running searches and frees the models' memory. Also called at the end of a ``with`` block.

        After that, every search and every scoring raises :class:`RunError`.
        """
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        settings = self.settings
        models, search = settings["models"], settings["search"]
        names = f"generator={models.get('generator', 'bundled')!r}, prm={models.get('prm', 'bundled')!r}"
        return f"<beamgen.Solver {names}, strategy={search['strategy']!r}, n={search['n']}, m={search['m']}>"


def _bar(count: int | None) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True shows a bar of tqdm: install it (pip install tqdm)") from error
    return tqdm(total=count, unit="problem")


def _with_problem(own: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a callable of a problem as one of its id, text, answer and context, which Rust calls."""

    def call(id: str, text: str, answer: str | None, context: list[str], *more: Any) -> Any:
        return own(Problem(text, id, answer, context=tuple(context)), *more)

    return call


def _as_score(checker: Checker) -> Judge:
    """Wraps a checker as a judge: 0 for a step that is proved wrong, 1 for one that is proved right."""

    def call(problem: Problem, steps: list[str]) -> float | None:
        found = checker(problem, steps)
        if found is not None and not isinstance(found, bool | str):
            raise TypeError(f"the checker returned {found!r}, which is not a bool, a reason or None")
        return None if found is None else float(found is True)

    return call


def _name(own: Callable[..., object]) -> str:
    """Returns the name under which trees and ledgers have the scores of a callable."""
    return getattr(own, "__name__", type(own).__name__)


def _with_chain(own: Callable[[Problem, list[str], str | None], Any]) -> Callable[[str], str]:
    """Wraps a verifier as a callable of the JSON of a chain, which returns the JSON of an outcome."""

    def call(asked: str) -> str:
        chain = json.loads(asked)
        problem = Problem(
            chain["text"], chain["id"], chain["answer"], context=tuple(chain["context"]), tests=chain["tests"]
        )
        found = own(problem, chain["steps"], chain["stated"])
        if isinstance(found, str):
            found = Outcome("wrong", found)
        elif not isinstance(found, Outcome):
            if found is not None and not isinstance(found, bool):
                raise TypeError(f"the verifier returned {found!r}, which is not a bool, a reason, an Outcome or None")
            found = Outcome("unknown" if found is None else "right" if found else "wrong")
        return json.dumps({name: value for name, value in vars(found).items() if value is not None})

    return call


def _check(name: str, value: float, most: int) -> None:
    if not 0 <= value <= most:
        raise InputError(f"{name} = {value}: use {'a number from 0 to 1' if most == 1 else '0 or more'}")


def _answers(answers: Iterable[Problem | Mapping[str, Any]]) -> list[str]:
    refuse_table(answers, "answers", "a list of mappings")
    return [as_line(answer, str(number), f"answer {number}") for number, answer in enumerate(answers, 1)]


def _submit(
    requests: _beamgen.Requests,
    position: int,
    problem: str | Problem | Mapping[str, Any],
    name: str,
    wanted: str,
    timeout: float | None,
) -> bool:
    """Submits a problem. Returns whether it is foreign to the bundled models."""
    return requests.submit(position, as_line(problem, str(position + 1), name), name, wanted, timeout)


def _next(requests: _beamgen.Requests) -> str | _beamgen.Outcome:
    """Waits for the next event or result. An exception during the wait, such as Ctrl-C, cancels all requests."""
    try:
        news = requests.next()
    except BaseException:
        requests.cancel()
        raise
    if news is None:
        raise RunError("the search gave no result")
    return news


def _result(outcome: str | _beamgen.Outcome, raises: bool) -> Result:
    if isinstance(outcome, str):
        raise RunError("the search gave an event in place of a result")
    if outcome.stopped == "cancelled":
        raise RunError("the search was cancelled: the solver was closed")
    if raises and outcome.error is not None:
        raise outcome.error
    result = Result.from_dict(json.loads(outcome.record))
    return replace(result, index=outcome.position, stopped=outcome.stopped, tree_json=outcome.tree)


@atexit.register
def _close_all() -> None:
    for solver in list(_solvers):
        if solver._engine.is_here():
            solver.close()
