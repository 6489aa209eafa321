//! Changes every field of `config.json` in turn. The change must change logits, be refused, or be
//! listed as inert.

use std::sync::Arc;

use crate::common::{FAMILIES, engine, fixture, tokens};
use crate::fields::{DECODERS, EVERYWHERE, Inert, Tally};
use beamgen_engine::{Append, Model, ModelConfig, Output, Want, WeightType, Weights};
use serde_json::Value;

#[rustfmt::skip]
const INERT: &[Inert] = &[
    Inert { of: &[], reason: "a head that is there is used in any case", fields: &["architectures"] },
    Inert { of: &["phi3*"], reason: "used in training only", fields: &["resid_pdrop", "embd_pdrop"] },
    Inert { of: &["phi3*"], reason: "used by LongRoPE only, which is refused", fields: &["original_max_position_embeddings"] },
    Inert { of: &["llama*"], reason: "sums are cut, without another result", fields: &["pretraining_tp"] },
    Inert { of: &["qwen2", "qwen3"], reason: "use_sliding_window is false", fields: &["sliding_window", "max_window_layers"] },
    Inert { of: &["qwen2", "qwen3"], reason: "there is no sliding_window", fields: &["use_sliding_window"] },
    Inert { of: &["llama", "mistral", "qwen2", "qwen3", "phi3*"], reason: "without a factor nothing is scaled", fields: &["rope_parameters.rope_type=\"yarn\""] },
    Inert { of: &["llama-dynamic"], reason: "what it is scaled for is refused: a longer context", fields: &["rope_parameters.factor"] },
    Inert { of: &["qwen2-yarn"], reason: "the factor times the original context is longer", fields: &["max_position_embeddings"] },
];

/// Returns the longest sequence, and the bits of all logits of a text that is longer than every
/// window.
fn read(config: &Value, weights: &Weights) -> Result<(usize, Vec<u32>), String> {
    let config = ModelConfig::from_json(&config.to_string(), "config.json".as_ref())
        .map_err(|error| error.to_string())?;
    let context = config.max_position_embeddings;
    let tokens = tokens(40, config.vocab_size, 1);
    let model = Model::from_weights(config, weights, WeightType::Auto)
        .map_err(|error| error.to_string())?;
    let mut engine = engine(&Arc::new(model), |config| config.kv_bytes = 1 << 20);
    let seq = engine.create();
    let all = Append {
        seq,
        tokens: &tokens,
        want: Want::All,
    };
    let rows = engine
        .forward(&[all], Output::Logits)
        .map_err(|error| error.to_string())?;
    Ok((
        context,
        rows.iter().flatten().map(|logit| logit.to_bits()).collect(),
    ))
}

#[test]
fn no_field_is_passed_over() {
    let mut tally = Tally::default();
    for name in FAMILIES {
        let text = std::fs::read_to_string(fixture(name).join("config.json")).unwrap();
        let config = serde_json::from_str(&text).unwrap();
        let weights = Weights::load(&fixture(name)).unwrap();
        tally.add(name, &config, &[EVERYWHERE, DECODERS, INERT], |config| {
            read(config, &weights)
        });
    }
    tally.check(&[EVERYWHERE, DECODERS, INERT]);
}
