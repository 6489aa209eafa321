"""The keywords that are settings. `tests/settings_agree.rs` writes this file from `crates/beamgen/src/settings.rs`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict

_Path = str | os.PathLike[str]


class _Width(TypedDict, total=False):
    n: int | None
    """N, chains per problem."""
    strategy: str | None
    """beam, dvts, majority, ..."""


class _Search(TypedDict, total=False):
    m: int | None
    """M, the expansion factor."""
    aggregation: str | None
    """How step scores become a chain's score."""
    choose: str | None
    """How the answer is chosen among finished chains."""
    max_steps: int | None
    """Stop a chain after so many steps."""
    budget_tokens: int | None
    """Most tokens sampled for a problem."""
    threshold: float | None
    """Withhold answers whose chain scores less."""
    confidence: float | None
    """Sample as many chains as a problem needs for this probability of success."""
    consensus: bool | None
    """Stop a majority vote that is decided."""
    early_rejection: int | None
    """Score steps after TAU tokens and reject the worst there."""
    speculate: bool | None
    """Continue finished chains while a round's last ones are written."""
    seed: int | None
    """The seed of all random numbers."""
    temperature: float | None
    """Sampling temperature; 0 is greedy."""
    top_k: int | None
    """Sample among the K likeliest tokens; 0 among all."""
    top_p: float | None
    """Sample among the likeliest tokens with total probability P."""
    min_p: float | None
    """Sample among tokens at least P times as likely as the likeliest."""
    settings: Mapping[str, Any] | None
    """Any other key by its name in the TOML file: ``{"search.mcts.exploration": 2}``, or tables within tables."""


class SearchSettings(_Width, _Search, total=False):
    """Settings of a search, which each request may have of its own. ``None`` leaves a setting as it is."""


class BenchSettings(_Search, total=False):
    """Settings of all searches of a bench, which has strategies and numbers of chains of its own, and its models."""

    config: _Path | None
    """A TOML file of settings; other keywords win over it."""
    in_flight: int | None
    """Problems worked on at once."""
    generator: _Path | None
    """The generator."""
    generator_url: str | list[str] | None
    """Servers that run the generator, e.g. http://HOST:8000."""
    judge: str | list[str] | None
    """Another judge of the steps, next to the scorer; may be repeated."""
    combine: str | None
    """How the scores of several judges become one."""
    calibration: _Path | None
    """The calibration of the reward model."""
    score_as: str | None
    """The score of a step: raw, calibrated, median or lower."""
    max_error: float | None
    """Withhold answers so that at most this share of the given ones is wrong."""
    checker: str | list[str] | None
    """Checkers that veto steps that they prove wrong: arithmetic, consistency, exact."""
    checker_command: str | list[str] | None
    """An own checker: a shell command that speaks JSON lines (docs/rewards/checkers.md)."""
    checker_timeout: float | None
    """Seconds after which a command that answers nothing is ended."""
    audit: str | list[str] | None
    """Checkers that audit the chain of each answer: exact, arithmetic, ... or none."""
    sound_above: float | None
    """Count an answer as unsound if the scorer puts a step below this."""
    require_sound: bool | None
    """Withhold unsound answers, as ``audit`` and ``sound_above`` find them."""
    pair: str | None
    """Published models by name, e.g. qwen2.5-math-1.5b."""
    prm: _Path | None
    """The process reward model."""
    prm_url: str | list[str] | None
    """Servers that run the reward model, as ``generator_url``."""
    prm_format: str | None
    """How the reward model's input and scores are read."""
    prm_reference: _Path | None
    """The reference model of an implicit reward model."""
    dtype: str | None
    """Weights: auto, f32, bf16, f16, int8."""
    device: str | None
    """Compute on auto, cpu, cuda or cuda:N."""
    kv_dtype: str | None
    """Keys and values as auto, f32, bf16 or f16."""
    kv_memory: str | int | None
    """Most memory for KV caches, e.g. 2GiB."""
    offline: bool | None
    """Never ask the hub; take models from its cache."""
    threads: int | None
    """Threads to compute with."""


class Settings(_Width, BenchSettings, total=False):
    """Settings of a solver: those of its searches, and its models."""
