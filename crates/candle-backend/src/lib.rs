//! Generators and classifiers of families that our own decoder does not have, on
//! `candle-transformers`.
//!
//! [`CandleModel::load`] gives a search what the local engine's generator gives it, by the same rules:
//! chat template, tokenizer, step boundaries, sampling and random numbers are the same code. Each
//! chain is a model of its own that shares weights and what is cached with the chains that branch
//! from it, and chains are decoded one after the other: much slower than the engine. All is computed
//! in float32 on the CPU.
//!
//! [`CandleClassifier::load`] makes a scorer of an encoder that classifies a pair of texts: the
//! problem, and the steps up to the one that is scored.
//!
//! One more family is one row in `families.rs`, or in `classifiers.rs`.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod classifier;
mod classifier_config;
mod classifiers;
mod config;
mod decoder;
mod error;
mod families;
mod fields;
mod generator;
mod layers;
mod model;
mod weights;

pub use classifier::CandleClassifier;
pub use error::Error;
pub use generator::CandleGenerator;
pub use model::CandleModel;
