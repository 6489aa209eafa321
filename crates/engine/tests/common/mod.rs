//! A small model with random weights, and ways to run it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use beamgen_engine::{
    Append, ComputeType, Engine, EngineConfig, Model, ModelConfig, Output, Precision, Rope, Rows,
    SeqId, Tensor, Want, WeightType, Weights,
};
pub(crate) use beamgen_test_support::numbers::noise;

/// Folders of the fixtures. Together they have untied and tied heads, all biases, grouped heads,
/// heads narrower and wider than `hidden_size / heads`, per-head norms, windows in all or in some
/// layers, fused projections, partial rotation, every scaled rotation, single files and shards, and
/// float32, bfloat16 and float16.
pub(crate) const FAMILIES: [&str; 10] = [
    "llama",
    "llama-linear",
    "llama-dynamic",
    "llama-llama3",
    "mistral",
    "qwen2",
    "qwen2-yarn",
    "qwen3",
    "phi3",
    "phi3-partial",
];

/// Adapters of two of them, which `peft` merged for the expected values.
pub(crate) const ADAPTERS: [&str; 2] = ["qwen2-lora", "qwen3-lora"];

/// Returns `n` tokens less than `vocab`. Equal seeds give equal tokens.
pub(crate) fn tokens(n: usize, vocab: usize, seed: u64) -> Vec<u32> {
    noise(n, seed)
        .iter()
        .map(|x| ((x + 1.0) * 0.5 * vocab as f32) as u32 % vocab as u32)
        .collect()
}

pub(crate) fn tiny_config() -> ModelConfig {
    ModelConfig {
        model_type: "qwen3".into(),
        vocab_size: 67,
        hidden_size: 40,
        intermediate_size: 56,
        num_hidden_layers: 3,
        num_attention_heads: 6,
        num_key_value_heads: 2,
        head_dim: 12,
        rms_norm_eps: 1e-6,
        rope: Rope::plain(10_000.0),
        max_position_embeddings: 400,
        // The second layer has a window, and its neighbours attend to all positions.
        windows: vec![None, Some(23)],
        tie_word_embeddings: true,
        qkv_bias: true,
        o_bias: false,
        mlp_bias: false,
        qk_norm: true,
        fused_projections: false,
        causal_lm: true,
    }
}

/// Creates all tensors of a model. Each tensor's seed comes from its name.
pub(crate) fn random_weights(config: &ModelConfig) -> Vec<(String, Tensor)> {
    let c = config;
    let mut all = Vec::new();
    let mut add = |name: &str, shape: &[usize]| {
        let n: usize = shape.iter().product();
        let scale = if shape.len() > 1 {
            1.7 / (shape[1] as f32).sqrt()
        } else {
            0.5
        };
        let shift = if name.ends_with("norm.weight") {
            1.0
        } else {
            0.0
        };
        let seed = name
            .bytes()
            .fold(1, |h: u64, b| h.wrapping_mul(31) + u64::from(b));
        let data = noise(n, seed).iter().map(|x| x * scale + shift).collect();
        all.push((
            name.to_owned(),
            Tensor {
                shape: shape.to_vec(),
                data,
            },
        ));
    };
    let (q, kv) = (
        c.num_attention_heads * c.head_dim,
        c.num_key_value_heads * c.head_dim,
    );
    add("model.embed_tokens.weight", &[c.vocab_size, c.hidden_size]);
    add("model.norm.weight", &[c.hidden_size]);
    if !c.tie_word_embeddings {
        add("lm_head.weight", &[c.vocab_size, c.hidden_size]);
    }
    for i in 0..c.num_hidden_layers {
        let mut layer =
            |part: &str, shape: &[usize]| add(&format!("model.layers.{i}.{part}"), shape);
        layer("input_layernorm.weight", &[c.hidden_size]);
        layer("post_attention_layernorm.weight", &[c.hidden_size]);
        for (part, outputs) in [("q", q), ("k", kv), ("v", kv)] {
            layer(
                &format!("self_attn.{part}_proj.weight"),
                &[outputs, c.hidden_size],
            );
            if c.qkv_bias {
                layer(&format!("self_attn.{part}_proj.bias"), &[outputs]);
            }
        }
        if c.qk_norm {
            layer("self_attn.q_norm.weight", &[c.head_dim]);
            layer("self_attn.k_norm.weight", &[c.head_dim]);
        }
        layer("self_attn.o_proj.weight", &[c.hidden_size, q]);
        layer(
            "mlp.gate_proj.weight",
            &[c.intermediate_size, c.hidden_size],
        );
        layer("mlp.up_proj.weight", &[c.intermediate_size, c.hidden_size]);
        layer(
            "mlp.down_proj.weight",
            &[c.hidden_size, c.intermediate_size],
        );
    }
    all
}

/// The configuration [`tiny_config`] with multiples of 32 as inputs, so that every matrix can be
/// int8.
pub(crate) fn even_config() -> ModelConfig {
    ModelConfig {
        hidden_size: 64,
        intermediate_size: 96,
        head_dim: 16,
        ..tiny_config()
    }
}

pub(crate) fn random_model(config: ModelConfig) -> Arc<Model> {
    random_model_as(config, WeightType::Auto)
}

pub(crate) fn random_model_as(config: ModelConfig, precision: impl Into<Precision>) -> Arc<Model> {
    let weights = Weights::from_tensors(random_weights(&config)).unwrap();
    Arc::new(Model::from_weights(config, &weights, precision).unwrap())
}

/// Weights and arithmetic in bfloat16.
pub(crate) const PAIRS: Precision = Precision {
    weights: WeightType::Bf16,
    compute: ComputeType::Bf16Pairs,
};
pub(crate) const TILES: Precision = Precision {
    compute: ComputeType::Bf16Tiles,
    ..PAIRS
};

pub(crate) fn engine(model: &Arc<Model>, change: impl FnOnce(&mut EngineConfig)) -> Engine {
    let mut config = EngineConfig {
        threads: 1,
        // A test that reads the same tokens twice compares two computations.
        prefix_cache: false,
        ..EngineConfig::default()
    };
    change(&mut config);
    Engine::new(Arc::clone(model), config).unwrap()
}

pub(crate) fn append(engine: &mut Engine, seq: SeqId, tokens: &[u32], want: Want<'_>) -> Rows {
    engine
        .forward(&[Append { seq, tokens, want }], Output::Logits)
        .unwrap()
}

/// Computes the logits of all `tokens` in one call of a new engine.
pub(crate) fn fresh(model: &Arc<Model>, page_size: usize, tokens: &[u32]) -> Rows {
    let mut engine = engine(model, |c| c.page_size = page_size);
    let seq = engine.create();
    append(&mut engine, seq, tokens, Want::All)
}

#[track_caller]
pub(crate) fn assert_same_bits(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "at {i}: {a} instead of {b}");
    }
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}
