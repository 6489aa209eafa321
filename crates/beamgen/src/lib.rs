//! PRM-guided search decoding: a generator proposes reasoning steps, a process reward model scores
//! each one, and the search drops weak chains before they cost tokens.
//!
//! ```
//! let mut solver = beamgen::Solver::builder().build()?;
//! let result = solver.ask(
//!     "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?",
//! )?;
//! for step in result.steps() {
//!     println!("{:.3}  {}", step.score.unwrap_or_default(), step.text.trim_end());
//! }
//! assert_eq!(result.answer.as_deref(), Some("21"));
//! # Ok::<(), beamgen::Error>(())
//! ```
//!
//! That solver has the models that every build carries ([`bundled`]) and the default settings. They
//! know problems like this one only ([`Solver::is_foreign`]).
//! Others are folders in Hugging Face layout, GGUF files, or names on a [`hub`]:
//!
//! ```no_run
//! use beamgen::{Config, Solver};
//!
//! let mut config = Config::load("configs/search/wide-beam.toml".as_ref())?;
//! config.models.generator = Some("models/my-generator".into());
//! config.models.prm = Some("models/my-prm".into());
//! let mut solver = Solver::builder().config(config).build()?;
//! # Ok::<(), beamgen::Error>(())
//! ```
//!
//! Pairs of published models have a name, under which their settings are known, too ([`Pair`]):
//!
//! ```no_run
//! use beamgen::Solver;
//! use beamgen::hub::{Hub, HubConfig};
//!
//! let hub = Hub::new(HubConfig::from_lookup(|name| std::env::var(name).ok())?)?;
//! let mut solver = Solver::builder()
//!     .pair("qwen2.5-math-1.5b")?
//!     .hub(hub, |_, _| ())
//!     .build()?;
//! # Ok::<(), beamgen::Error>(())
//! ```
//!
//! [`Solver::solve_all`] fills the forward passes with many problems at once, [`Solver::run`] also
//! shows what happens as it happens ([`Event`]). A problem's result is the same alone and among
//! hundreds.
//!
//! This crate names both models, as does `remote` for those that servers run. It reads files and
//! the clock; it never prints and never looks at the environment.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod builder;
pub mod bundled;
mod calibrated;
mod candle;
mod checkers_config;
mod config;
mod engine_bench;
mod error;
mod exact;
mod fingerprint;
mod judge_config;
mod known;
mod long_texts;
mod memory;
mod nearest;
mod own;
mod pair;
mod pair_header;
mod prepare;
mod progress;
mod request;
#[cfg(feature = "remote")]
mod served;
#[cfg(not(feature = "remote"))]
#[path = "not_served.rs"]
mod served;
mod server_config;
mod service;
mod set_key;
mod size;
mod solver;
mod source;
mod word;
mod words;

/// Checkers of steps: those that are built in, and external programs.
pub use beamgen_checkers as checkers;
pub use beamgen_engine::{
    Checkpoint, Compute, DeviceChoice, EngineConfig, KvType, MachineRates, SamplingParams,
    WeightType, parse_size,
};
/// Problem files, grading, metrics and run files.
pub use beamgen_eval as eval;
pub use beamgen_generator::{sampling_params, sampling_settings};
/// Models by name, on a hub and in its cache.
pub use beamgen_hub as hub;
/// Starts other programs, and ends them with this one.
pub use beamgen_launcher as launcher;
pub use beamgen_prm::{PrmSpec, QuantileReader, RewardModel, StepReading};
/// Generators and reward models on vLLM, SGLang or llama.cpp.
#[cfg(feature = "remote")]
pub use beamgen_remote as remote;
/// Strategies: the table of them, their keys, and what a strategy of one's own implements.
pub use beamgen_search::strategy::*;
pub use beamgen_search::{
    Aggregation, Answer, AnswerVotes, Answers, BatchId, Border, CancelToken, Cause, ChainId,
    ChainTree, Choose, Combine, ConfigError, Event, Finish, FinishedChain, GenError, Generator,
    GeneratorConfig, Judge, JudgeScores, JudgeSpent, Judges, Ledger, Memory, Node, NodeId,
    OpenedProblem, Opinion, PassOutput, PerStep, Problem, ProblemResult, PruneReason, Pruned,
    RunSummary, SamplingSettings, ScoreError, ScoreId, ScoreItem, ScoreResult, Scored, Scorer,
    SearchConfig, SearchError, Seconds, Settings, Source, State, StepOutput, StepPlan, StepRef,
    StepScorer, Stopped, Submitted, score_chains,
};
pub use builder::SolverBuilder;
pub use calibrated::ScoreAs;
pub use checkers_config::CheckersConfig;
pub use config::{Config, ModelsConfig, ScorerKind, lay_over};
pub use engine_bench::{DecodeBench, EngineBench, Measured};
pub use error::Error;
pub use exact::ExactScorer;
pub use judge_config::JudgeConfig;
pub use known::{KNOWN_MODELS, KnownModel, ModelKind, Recognised, Shape, recognise};
pub use memory::{MemoryPlan, ModelMemory};
pub use nearest::nearest;
pub use pair::Pair;
pub use pair_header::{Fits, PairMemory};
pub use prepare::Prepared;
pub use progress::Progress;
pub use request::Request;
pub use server_config::ServerConfig;
pub use service::{Service, ServiceError, ServiceOptions, ServiceStats, Ticket};
pub use set_key::set_key;
pub use size::human_size;
pub use solver::{IntoRequest, Solver, search_name};
pub use word::is_word;
