//! PRM-guided search decoding: a generator proposes reasoning steps, a process reward model scores
//! each step, and the search drops weak chains early, which saves tokens.
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
//! [`solve`] uses the [`bundled`] models and the default settings. The bundled models know only
//! problems of this kind ([`Solver::is_foreign`]). A [`Solver`] keeps its models loaded. Models are
//! folders in Hugging Face layout, GGUF files, or names on a [`hub`]:
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
//! A [`Pair`] consists of two published models and the settings that suit them:
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
//! [`Solver::solve_all`] processes many problems at the same time, so that forward passes are full.
//! [`Solver::run`] also reports [`Event`]s during the search. A problem's result does not depend on
//! the other problems.
//!
//! A generator or scorer of your own can be a function: [`StepGenerator`], [`StepScorer`]. The full
//! traits are in the modules [`generator`], [`scorer`] and [`strategy`].
//!
//! This crate reads files and the clock. It never prints, and never reads environment variables.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod builder;
pub mod bundled;
mod calibrated;
mod candle;
mod checkers_config;
mod config;
mod data;
mod engine_bench;
mod error;
mod exact;
mod fingerprint;
mod forecast;
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
mod recipe;
mod request;
mod rollout_scores;
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
mod verifier_config;

/// Checkers, which prove steps wrong: built-in ones, and external programs.
pub use beamgen_checkers as checkers;
/// Problem files, grading, metrics and run files.
pub use beamgen_eval as eval;
/// Models by name, on a hub and in its cache.
pub use beamgen_hub as hub;
/// Starts external programs, and ends them when this program ends.
pub use beamgen_launcher as launcher;
/// Generators and reward models on vLLM, `SGLang` or llama.cpp.
#[cfg(feature = "remote")]
pub use beamgen_remote as remote;
pub use beamgen_search::{
    Aggregation, ChainEvent, Choose, Event, Most, Problem, ProblemResult, Role, RunSummary,
    Settings, StepGenerator, StepScorer, StrategyKind, Turn,
};
pub use builder::SolverBuilder;
pub use config::Config;
pub use data::{FoundData, find_data, may_be_data_set};
pub use error::Error;
pub use forecast::{Forecast, Pace};
pub use pair::Pair;
pub use progress::Progress;
pub use recipe::{RECIPE_KEYS, Recipe, RecipeData, RecipeKey};
pub use request::Request;
pub use service::{Service, Ticket};
pub use solver::{IntoRequest, Solver, solve};

/// The traits of generators, and the types of their arguments and results.
pub mod generator {
    pub use beamgen_generator::check_grammar;
    pub use beamgen_search::{
        Border, ChainId, GenError, Generator, GeneratorConfig, GivenStep, Grammar, Memory,
        OpenedProblem, PassOutput, SamplingSettings, Source, StepByStep, StepGenerator, StepOutput,
        StepPlan, TokenLogprob, TokenLogprobs,
    };
}

/// Types about models: their files, number types and devices, and the memory that they need.
pub mod models {
    pub use beamgen_engine::{
        Checkpoint, Compute, ComputeType, DeviceChoice, EngineConfig, KvType, WeightType, Work,
    };
    pub use beamgen_prm::{PrmSpec, RewardModel};

    pub use crate::config::ModelsConfig;
    pub use crate::memory::{MemoryPlan, ModelMemory};
    pub use crate::prepare::Prepared;
    pub use crate::server_config::ServerConfig;
}

/// Types of results: answers, votes and costs.
pub mod result {
    pub use beamgen_search::{
        Answer, AnswerVotes, Answers, Evidence, Executed, FinishedChain, Flops, JudgeSpent, Ledger,
        Outcome, OutcomeKind, Seconds, Stopped, Unsound, Verifier, WholeChain, Width,
    };

    pub use crate::soundness::Auditor;
    pub use crate::verifier_config::VerifierConfig;
}

/// The traits of scorers, the types of their arguments, and rules that combine several judges.
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

/// Search strategies: the table of all strategies, their settings, and the traits for a strategy of
/// your own.
pub mod strategy {
    pub use beamgen_search::strategy::*;
    pub use beamgen_search::{
        ChainTree, ConfigError, Finish, Node, NodeId, PruneReason, Pruned, RolloutValue,
        RolloutsConfig, SearchConfig, SearchError, State,
    };
}

/// Parts for the programs of this repository only. They may change in any release.
#[doc(hidden)]
pub mod program {
    pub use beamgen_engine::{MachineRates, SamplingParams, parse_size};
    pub use beamgen_generator::{sampling_params, sampling_settings};
    pub use beamgen_prm::{QuantileReader, StepReading};
    pub use beamgen_search::{Standing, child_stream};

    pub use crate::config::lay_over;
    pub use crate::engine_bench::{DecodeBench, EngineBench, Measured, Phase};
    pub use crate::judge_config::is_word;
    pub use crate::known::{
        KNOWN_MODELS, KnownModel, ModelKind, Recognised, Shape, base_of, recognise,
    };
    pub use crate::nearest::nearest;
    pub use crate::pair_header::{Fits, PairMemory};
    pub use crate::set_key::set_key;
    pub use crate::size::human_size;
    pub use crate::solver::search_name;
}
