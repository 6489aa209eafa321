//! A decoder-only transformer over a paged key-value cache whose sequences fork for free.
//!
//! The crate has sequences and rows of results. Steps, scores and search belong to other crates.
//!
//! * [`Checkpoint`]: the files of a model, from a Hugging Face directory or a GGUF file.
//! * [`Model`]: packed weights of a Llama, Mistral, Qwen2, Qwen3 or Phi-3 checkpoint, immutable,
//!   shared.
//! * [`Engine`]: sequences in pages of a fixed size. Prefill, decoding and scoring are one call,
//!   [`Engine::forward`], which appends tokens to sequences and returns the wanted rows.
//! * [`sample`]: samples a token from a row of logits, with random numbers from a counter
//!   ([`rng`]). A chain depends neither on other chains of the batch nor on the order of
//!   computation.
//! * [`Tokenizer`]: text to tokens and back, checked against the model.
//!
//! ```no_run
//! use std::{path::Path, sync::Arc};
//! use beamgen_engine::{Append, Engine, EngineConfig, Model, Output, Want};
//!
//! # fn main() -> Result<(), beamgen_engine::Error> {
//! let model = Arc::new(Model::load(Path::new("models/abacus/generator"))?);
//! let mut engine = Engine::new(model, EngineConfig::default())?;
//! let prompt = engine.create();
//! let item = Append { seq: prompt, tokens: &[0, 5, 7], want: Want::Last };
//! let rows = engine.forward(&[item], Output::Logits)?;
//! assert_eq!(rows.len(), 1);
//! let branch = engine.fork(prompt); // shares every page
//! # engine.free(branch);
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod account;
mod buffers;
mod byte_level;
mod bytes;
mod chat;
mod checkpoint;
mod chunk;
mod chunks;
mod config;
mod decoder;
mod device;
mod device_head;
mod encoding;
mod engine;
mod engine_config;
mod error;
mod footprint;
mod generation;
mod gguf;
mod idle;
mod jinja;
mod json_file;
mod kv_type;
mod logits;
mod model;
mod names;
mod pages;
mod precision;
mod prefixes;

pub mod rng;
mod rows;
mod runner;
mod sampling;
#[cfg(feature = "cuda")]
mod self_test;
mod sequences;
mod size;
mod tokenizer;
mod vocabulary_files;
#[cfg(feature = "cuda")]
mod warm_up;
mod weight_type;
mod weights;

pub use account::{Account, Entry, Operation, Work};
pub use beamgen_kernels::{MachineRates, ThreadPool};
pub use chat::{ChatTemplate, Ending, Message};
pub use checkpoint::Checkpoint;
pub use config::{ModelConfig, Rope, RopeScaling};
pub use device::{Compute, DeviceChoice};
pub use device_head::DeviceHead;
pub use encoding::Encoding;
pub use engine::{Computed, Engine, KvStats};
pub use engine_config::{EngineConfig, IsaChoice};
pub use error::Error;
pub use footprint::Footprint;
pub use generation::{GenerationDefaults, SamplingSettings};
pub use idle::IdleKv;
pub use jinja::{Template, TemplateError};
pub use kv_type::KvType;
pub use logits::Logits;
pub use model::Model;
pub use names::UnknownName;
pub use precision::{ComputeType, Precision};
pub use rows::{Append, Output, Rows, Want};
pub use sampling::{
    RowEdits, SampleRequest, SampleRow, Sampled, Sampler, SamplingParams, log_prob, sample,
};
pub use sequences::SeqId;
pub use size::{SizeError, parse_size};
pub use tokenizer::{TextLimit, TokenPair, Tokenizer};
pub use weight_type::WeightType;
pub use weights::{Tensor, Weights};
