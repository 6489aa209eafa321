//! PRM-guided search decoding: a generator proposes reasoning steps, a process reward model scores
//! each one, and the search drops weak chains before they cost tokens.
//!
//! ```
//! let result = beamgen::solve(
//!     "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?",
//! )?;
//! for step in result.steps() {
//!     println!("{:.3}  {}", step.score.unwrap_or_default(), step.text.trim_end());
//! }
//! assert_eq!(result.answer.as_deref(), Some("21"));
//! # Ok::<(), beamgen::Error>(())
//! ```
//!
//! That has the models that every build carries ([`bundled`]) and the default settings. They know
//! problems like this one only ([`Solver::is_foreign`]). A [`Solver`] keeps its models loaded; they
//! are folders in Hugging Face layout, GGUF files, or names on a [`hub`]:
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
//! Own parts are a function each: [`StepGenerator`], [`StepScorer`]; the modules [`generator`],
//! [`scorer`] and [`strategy`] have the traits below them.
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
pub mod mend;
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
pub mod service;
mod set_key;
pub mod settings;
mod size;
mod solver;
mod soundness;
mod source;

/// Checkers of steps: those that are built in, and external programs.
pub use beamgen_checkers as checkers;
/// Problem files, grading, metrics and run files.
pub use beamgen_eval as eval;
/// Models by name, on a hub and in its cache.
pub use beamgen_hub as hub;
/// Starts other programs, and ends them with this one.
pub use beamgen_launcher as launcher;
/// Generators and reward models on vLLM, `SGLang` or llama.cpp.
#[cfg(feature = "remote")]
pub use beamgen_remote as remote;
pub use beamgen_search::{
    Aggregation, ChainEvent, Choose, Event, Problem, ProblemResult, RunSummary, Settings,
    StepGenerator, StepScorer, StrategyKind,
};
pub use builder::SolverBuilder;
pub use config::Config;
pub use error::Error;
pub use pair::Pair;
pub use progress::Progress;
pub use request::Request;
pub use service::{Service, Ticket};
pub use solver::{IntoRequest, Solver, solve};

/// Generators of steps: the traits, what they are asked and what they give.
pub mod generator {
    pub use beamgen_search::{
        Border, ChainId, GenError, Generator, GeneratorConfig, GivenStep, Memory, OpenedProblem,
        PassOutput, SamplingSettings, Source, StepByStep, StepGenerator, StepOutput, StepPlan,
    };
}

/// Models: where they are, how their weights and caches are kept, and the memory that they need.
pub mod models {
    pub use beamgen_engine::{Checkpoint, Compute, DeviceChoice, EngineConfig, KvType, WeightType};
    pub use beamgen_prm::{PrmSpec, RewardModel};

    pub use crate::config::ModelsConfig;
    pub use crate::memory::{MemoryPlan, ModelMemory};
    pub use crate::prepare::Prepared;
    pub use crate::server_config::ServerConfig;
}

/// Results: answers, and what they cost.
pub mod result {
    pub use beamgen_search::{
        Answer, AnswerVotes, Answers, Evidence, FinishedChain, JudgeSpent, Ledger, Seconds,
        Stopped, Unsound,
    };

    pub use crate::soundness::Auditor;
}

/// Scorers of steps: the traits, what they are asked, several judges as one.
pub mod scorer {
    pub use beamgen_search::{
        BatchId, Combine, Judge, JudgeScores, Judges, Memory, Opinion, PerStep, ScoreError,
        ScoreId, ScoreItem, ScoreResult, Scored, Scorer, StepRef, StepScorer, Submitted,
        score_chains,
    };

    pub use crate::calibrated::ScoreAs;
    pub use crate::checkers_config::CheckersConfig;
    pub use crate::config::ScorerKind;
    pub use crate::exact::ExactScorer;
    pub use crate::judge_config::JudgeConfig;
}

/// Strategies: the table of them, their keys, and what one of your own sees and answers.
pub mod strategy {
    pub use beamgen_search::strategy::*;
    pub use beamgen_search::{
        ChainTree, ConfigError, Finish, Node, NodeId, PruneReason, Pruned, SearchConfig,
        SearchError, State,
    };
}

/// Parts that only the programs of this repository need. They may change at any time.
#[doc(hidden)]
pub mod program {
    pub use beamgen_engine::{MachineRates, SamplingParams, parse_size};
    pub use beamgen_generator::{sampling_params, sampling_settings};
    pub use beamgen_prm::{QuantileReader, StepReading};

    pub use crate::config::lay_over;
    pub use crate::engine_bench::{DecodeBench, EngineBench, Measured};
    pub use crate::judge_config::is_word;
    pub use crate::known::{KNOWN_MODELS, KnownModel, ModelKind, Recognised, Shape, recognise};
    pub use crate::nearest::nearest;
    pub use crate::pair_header::{Fits, PairMemory};
    pub use crate::set_key::set_key;
    pub use crate::size::human_size;
    pub use crate::solver::search_name;
}
