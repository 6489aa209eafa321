//! Compares the count of floating-point operations with a count by loops over the weights and the
//! attended positions.

use beamgen_engine::ModelConfig;

use crate::common::{random_model, random_weights, tiny_config};

/// Counts the operations of each multiply-add, as the arithmetic is written down.
fn counted(config: &ModelConfig, before: usize, tokens: usize, logits: usize) -> u64 {
    let mut multiply_adds = 0_u64;
    for (name, tensor) in random_weights(config) {
        let shape = &tensor.shape;
        let rows = match name.as_str() {
            // Each token takes a row of the embedding; with a tied head it is multiplied by, too.
            "model.embed_tokens.weight" if config.tie_word_embeddings => logits,
            "model.embed_tokens.weight" => 0,
            "lm_head.weight" => logits,
            _ if shape.len() == 2 => tokens,
            _ => 0,
        };
        multiply_adds += (rows * shape.iter().product::<usize>()) as u64;
    }
    for layer in 0..config.num_hidden_layers {
        let window = config.windows.get(layer).copied().flatten();
        for token in before..before + tokens {
            for position in 0..=token {
                if window.is_none_or(|window| token - position < window) {
                    // The score and the weighted sum, for each head.
                    multiply_adds += 2 * (config.num_attention_heads * config.head_dim) as u64;
                }
            }
        }
    }
    2 * multiply_adds
}

#[test]
fn operations_are_those_of_a_plain_count() {
    let untied = ModelConfig {
        tie_word_embeddings: false,
        fused_projections: false,
        ..tiny_config()
    };
    for config in [tiny_config(), untied] {
        let model = random_model(config.clone());
        for (before, tokens, logits) in [
            (0, 0, 0),
            (0, 1, 1),
            (0, 40, 1),
            (22, 1, 1),
            (23, 1, 0),
            (17, 9, 9),
            (100, 30, 2),
        ] {
            assert_eq!(
                model.flops(before, tokens, logits),
                counted(&config, before, tokens, logits),
                "{tokens} tokens after {before}"
            );
        }
    }
}
