//! Generators and classifiers on `candle-transformers`, for families that the engine does not have.
//!
//! [`CandleModel::load`] returns a generator that uses the code of the local engine for chat
//! template, tokenizer, step boundaries, sampling and random numbers. Each chain has a model of its
//! own, which shares weights and cached tensors with the chains that branch from it. Chains are
//! decoded one after the other in float32 on the CPU, much slower than by the engine.
//!
//! [`CandleClassifier::load`] returns a scorer from an encoder that classifies a pair of texts: the
//! problem, and the steps up to the one that is scored.
//!
//! A new family is a new row in `families.rs` or in `classifiers.rs`.
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
