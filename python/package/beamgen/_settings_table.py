"""The keywords that are settings. `tests/settings_agree.rs` writes this file from `crates/beamgen/src/settings.rs`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict

_Path = str | os.PathLike[str]


class _Width(TypedDict, total=False):
    n: int | None
    """Chains per problem (N)."""
    strategy: str | None
    """Strategy: beam, dvts, ..."""


class _Search(TypedDict, total=False):
    m: int | None
    """Continuations of a kept chain (M)."""
    aggregation: str | None
    """Rule that turns step scores into a chain's score."""
    choose: str | None
    """Rule that chooses the answer among finished chains."""
    max_steps: int | None
    """Most steps of a chain."""
    budget_tokens: int | None
    """Most tokens sampled for a problem."""
    threshold: float | None
    """Withhold an answer whose chain scores less than SCORE, from 0 to 1."""
    confidence: float | None
    """Stop sampling chains at this probability of success, from 0 to 1."""
    consensus: bool | None
    """Stop a majority vote as soon as it is decided."""
    early_rejection: int | None
    """Score each step after TAU tokens, and reject the worst steps there."""
    rollouts: int | None
    """Complete each new step K times, and score its chain by how many completions agree with the vote."""
    speculate: bool | None
    """Continue chains whose step is finished while slower chains of the round still write theirs."""
    outcome_scores: bool | None
    """Score a complete chain 1 or 0 by the outcome of the verifier."""
    stop_when_verified: bool | None
    """End the search of a problem at the first chain that the verifier calls right."""
    seed: int | None
    """Seed of all random numbers."""
    temperature: float | None
    """Sampling temperature; 0 takes the likeliest token."""
    top_k: int | None
    """Sample among the K likeliest tokens; 0 among all tokens."""
    top_p: float | None
    """Sample among the likeliest tokens that have total probability P; 1 among all tokens."""
    min_p: float | None
    """Sample among tokens at least P times as likely as the likeliest token; 0 among all tokens."""
    thinking_budget: int | None
    """Most tokens of a thought before the answer; 0: no thought."""
    settings: Mapping[str, Any] | None
    """Any other key by its name in the TOML file: ``{"search.mcts.exploration": 2}``, or tables within tables."""


class SearchSettings(_Width, _Search, total=False):
    """Settings of a search, which each request may have of its own. ``None`` leaves a setting as it is."""


class BenchSettings(_Search, total=False):
    """Settings of all searches of a bench, which has strategies and numbers of chains of its own, and its models."""

    config: _Path | None
    """A TOML file of settings; other keywords win over it."""
    in_flight: int | None
    """Problems solved at the same time."""
    generator: _Path | None
    """Generator, which writes steps."""
    generator_url: str | list[str] | None
    """Servers that run the generator, e.g. http://HOST:8000."""
    tokenizer: _Path | None
    """Model whose tokenizer and chat template the generator uses [default: its own]."""
    judge: str | list[str] | None
    """Add a judge of the steps to the scorer; may be repeated."""
    combine: str | None
    """Rule that combines the scores of several judges into one."""
    calibration: _Path | None
    """Calibration of the reward model, a file of ``beamgen calibrate``."""
    score_as: str | None
    """Score of a step: raw, calibrated, median or lower."""
    max_error: float | None
    """Withhold answers so that at most this share of the returned answers is wrong, from 0 to 1."""
    checker: str | list[str] | None
    """Checkers that veto steps that they prove wrong: arithmetic, consistency, exact."""
    checker_command: str | list[str] | None
    """Run a checker of your own: a shell command that speaks JSON lines (docs/rewards/checkers.md)."""
    checker_timeout: float | None
    """Seconds after which a checker command that does not answer is killed."""
    audit: str | list[str] | None
    """Checkers that audit the chain of each answer: exact, arithmetic, ... or none."""
    sound_above: float | None
    """Count an answer as unsound if a step of its chain scores less than SCORE, from 0 to 1."""
    require_sound: bool | None
    """Withhold answers that are unsound by ``audit`` or ``sound_above``."""
    verifier: str | None
    """Rule that decides whether a chain is right: math, lean, or a shell command that speaks JSON lines."""
    lean_url: str | None
    """Address of the Kimina server that the verifier ``lean`` asks."""
    verifier_open: bool | None
    """Keep the reference answer and the tests from the verifier, which judges by the problem alone."""
    verifier_timeout: float | None
    """Seconds after which a verifier command that does not answer is killed."""
    pair: str | None
    """Published models by name, e.g. qwen2.5-math-1.5b."""
    prm: _Path | None
    """Process reward model (PRM)."""
    prm_url: str | list[str] | None
    """Servers that run the reward model, as for ``generator_url``."""
    prm_format: str | None
    """Format of the reward model: how its input is written and its scores are read."""
    prm_tokenizer: _Path | None
    """Model whose tokenizer and chat template the reward model uses [default: its own]."""
    prm_reference: _Path | None
    """Reference model of an implicit reward model, named as for ``prm``."""
    dtype: str | None
    """Weights: auto, f32, bf16, f16, int8."""
    compute: str | None
    """Arithmetic of float weights: auto, f32 or bf16."""
    device: str | None
    """Device that computes: auto, cpu, cuda or cuda:N."""
    kv_dtype: str | None
    """Number type of the KV cache: auto, f32, bf16 or f16."""
    kv_memory: str | int | None
    """Most memory for KV caches, e.g. 2GiB."""
    offline: bool | None
    """Use models from the hub's local cache only, never the network."""
    threads: int | None
    """Threads that compute."""


class Settings(_Width, BenchSettings, total=False):
    """Settings of a solver: those of its searches, and its models."""
