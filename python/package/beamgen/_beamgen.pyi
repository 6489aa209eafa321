"""The package's extension module in Rust. Its settings and problems are JSON; the rest of the package has objects."""

import os
from collections.abc import Callable
from typing import final

__all__ = [
    "Annotation",
    "Engine",
    "Outcome",
    "Requests",
    "RewardModel",
    "__version__",
    "bench",
    "calibrate",
    "check",
    "evaluate_prm",
    "label",
    "launch",
    "monitor",
    "load_problems",
    "plan",
    "rerank",
    "sample_problems",
]

__version__: str

@final
class Engine:
    def __new__(
        cls,
        wanted: str,
        own: tuple[Callable[..., str] | None, Callable[..., float] | None, Callable[[str], str] | None],
        judges: list[tuple[str, bool, Callable[[str, str, str | None, list[str]], float | None]]],
        download: Callable[[str, str, int, int | None], object] | None,
        launcher: list[str],
    ) -> Engine: ...
    def requests(self, /, events: bool, tree: bool) -> Requests: ...
    def score(self, /, problem: str, steps: list[str]) -> list[float]: ...
    def refine(self, /, answers: list[str], wanted: str, how: str) -> list[str]: ...
    def guard(self, /, answers: list[str], wanted: str, how: str) -> list[str]: ...
    def settings(self, /) -> str: ...
    @property
    def notes(self) -> list[str]: ...
    def is_foreign(self, /, problem: str) -> bool: ...
    def close(self, /) -> None: ...
    def is_here(self, /) -> bool: ...

@final
class Requests:
    def submit(self, /, position: int, problem: str, name: str, wanted: str, timeout: float | None) -> bool: ...
    def next(self, /) -> str | Outcome | None: ...
    def cancel(self, /) -> None: ...
    def __len__(self, /) -> int: ...

@final
class Outcome:
    @property
    def position(self) -> int: ...
    @property
    def record(self) -> str: ...
    @property
    def tree(self) -> str | None: ...
    @property
    def stopped(self) -> str | None: ...
    @property
    def error(self) -> BaseException | None: ...

@final
class Annotation:
    def __new__(
        cls,
        chains: str | os.PathLike[str],
        out: str | os.PathLike[str],
        rater: str,
        order: str,
        seed: int,
        through: bool,
    ) -> Annotation: ...
    def act(self, /, act: str) -> str: ...

@final
class RewardModel:
    def __new__(cls, wanted: str, download: Callable[[str, str, int, int | None], object] | None) -> RewardModel: ...
    def score(self, /, problem: str, steps: list[str]) -> list[float]: ...
    def is_foreign(self, /, problem: str) -> bool: ...

def bench(
    keywords: str,
    lines: str | None,
    wanted: str,
    launcher: list[str],
    download: Callable[[str, str, int, int | None], object] | None,
    progress: Callable[[int, int], object] | None,
) -> tuple[str, str, str, bool]: ...
def evaluate_prm(
    keywords: str,
    chains: str | None,
    model: RewardModel | None,
    wanted: str,
    download: Callable[[str, str, int, int | None], object] | None,
    progress: Callable[[int, int], object] | None,
) -> tuple[str, str, bool]: ...
def calibrate(
    keywords: str,
    chains: str | None,
    wanted: str,
    download: Callable[[str, str, int, int | None], object] | None,
    progress: Callable[[int, int], object] | None,
) -> tuple[str, bool]: ...
def check(
    keywords: str,
    chains: str | None,
    wanted: str,
    launcher: list[str],
    progress: Callable[[int, int], object] | None,
) -> str: ...
def label(
    keywords: str,
    lines: str | None,
    wanted: str,
    launcher: list[str],
    download: Callable[[str, str, int, int | None], object] | None,
    progress: Callable[[int, int], object] | None,
) -> tuple[str, bool]: ...
def launch(arguments: list[str], at: int) -> int: ...
def monitor(reference: str | os.PathLike[str], runs: list[str | os.PathLike[str]]) -> tuple[str, list[str]]: ...
def plan(
    keywords: str,
    lines: str | None,
    wanted: str,
    launcher: list[str],
    download: Callable[[str, str, int, int | None], object] | None,
) -> tuple[str, bool]: ...
def load_problems(
    name: str | os.PathLike[str],
    part: tuple[str | None, str | None],
    keys: tuple[str | None, str | None, str | None],
) -> list[str]: ...
def rerank(
    keywords: str,
    lines: str | None,
    wanted: str,
    launcher: list[str],
    download: Callable[[str, str, int, int | None], object] | None,
    progress: Callable[[int, int], object] | None,
) -> tuple[str, bool]: ...
def sample_problems() -> list[str]: ...
