//! Compares GGUF files and files of `torch.save` with the values that Python reads from them
//! (`tests/fixtures/make_format_fixtures.py`).

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::fixture;
use beamgen_engine::{
    Append, Checkpoint, Encoding, Engine, EngineConfig, Error, Model, ModelConfig, Output,
    Tokenizer, Want, WeightType, Weights,
};
use safetensors::SafeTensors;
use serde_json::Value;

fn file(name: &str) -> PathBuf {
    fixture("formats").join(name)
}

/// The largest difference between two float32 implementations of the same sums.
const TOLERANCE: f32 = 1e-4;

fn logits_agree(name: &str) {
    let model = Model::load(&file(&format!("{name}.gguf"))).unwrap();
    let mut engine = Engine::new(Arc::new(model), EngineConfig::default()).unwrap();
    let expected = fs::read(file(&format!("{name}.expected.safetensors"))).unwrap();
    let expected = SafeTensors::deserialize(&expected).unwrap();
    let words = |name: &str| {
        let tensor = expected.tensor(name).unwrap();
        tensor.data().as_chunks::<4>().0.to_vec()
    };
    let mut largest = 0.0f32;
    for i in 0..2 {
        let tokens: Vec<u32> = words(&format!("tokens.{i}"))
            .into_iter()
            .map(u32::from_le_bytes)
            .collect();
        let seq = engine.create();
        let item = Append {
            seq,
            tokens: &tokens,
            want: Want::All,
        };
        let rows = engine.forward(&[item], Output::Logits).unwrap();
        let wanted = words(&format!("logits.{i}"));
        let mut wanted = wanted.iter().map(|w| f32::from_le_bytes(*w));
        for row in words(&format!("rows.{i}")) {
            for got in rows.row(u32::from_le_bytes(row) as usize) {
                let want = wanted.next().unwrap();
                assert!(
                    (got - want).abs() <= TOLERANCE * (1.0 + want.abs()),
                    "{got}, not {want}"
                );
                largest = largest.max(want.abs());
            }
        }
        assert!(wanted.next().is_none());
    }
    assert!(largest > 1.0, "logits that say something");
}

#[test]
fn llama_with_permuted_rows_biases_and_rescaled_rotation() {
    logits_agree("llama");
    let weights = Weights::load(&file("llama.gguf")).unwrap();
    let encodings: Vec<Encoding> = weights
        .names()
        .map(|n| weights.encoding(n).unwrap())
        .collect();
    for encoding in [Encoding::Q8_0, Encoding::Q4_0, Encoding::F32] {
        assert!(encodings.contains(&encoding));
    }
}

/// Blocks are kept unchanged in both orders of rows. The results are near those of the exact
/// values, because only activations are rounded. Blocks of four bits that were rounded again to
/// eight bits would give other results.
#[test]
fn int8_keeps_blocks() {
    let weights = Weights::load(&file("llama.gguf")).unwrap();
    let widened = Weights::from_tensors(
        weights
            .names()
            .map(|name| (name.to_owned(), weights.tensor(name).unwrap())),
    )
    .unwrap();
    let config = ModelConfig::load(&file("llama.gguf")).unwrap();
    let run = |weights, weight_type| {
        let model = Model::from_weights(config.clone(), weights, weight_type).unwrap();
        let bytes = model.bytes();
        let mut engine = Engine::new(model.into(), EngineConfig::default()).unwrap();
        let seq = engine.create();
        let rows = crate::common::append(&mut engine, seq, &[3, 1, 4, 1, 5, 9, 2, 6], Want::All);
        let logits: Vec<f32> = rows.iter().flatten().copied().collect();
        (logits, bytes)
    };
    let (kept, kept_bytes) = run(&weights, WeightType::Int8);
    let (rounded, rounded_bytes) = run(&widened, WeightType::Int8);
    let (exact, _) = run(&weights, WeightType::Auto);
    assert!(kept_bytes < rounded_bytes);
    assert!(kept != rounded && kept != exact);
    let error = |found: &[f32]| {
        let square = |x: f32| f64::from(x).powi(2);
        let error: f64 = found.iter().zip(&exact).map(|(a, b)| square(a - b)).sum();
        (error / exact.iter().copied().map(square).sum::<f64>()).sqrt()
    };
    let (kept, rounded) = (error(&kept), error(&rounded));
    println!("relative error of the logits: {kept:.1e} with blocks kept, {rounded:.1e} rounded");
    assert!(kept < 1.5 * rounded && kept < 0.05, "{kept} {rounded}");
}

#[test]
fn phi3_with_fused_projections() {
    logits_agree("phi3");
}

#[test]
fn qwen2() {
    logits_agree("qwen2");
}

#[test]
fn tokens_are_those_of_transformers() {
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(file("tokens.json")).unwrap()).unwrap();
    for name in ["llama", "qwen2", "phi3", "sentencepiece"] {
        let tokenizer = Tokenizer::load(&file(&format!("{name}.gguf"))).unwrap();
        let config = ModelConfig::load(&file(&format!("{name}.gguf"))).unwrap();
        tokenizer.check(&config).unwrap();
        for pair in expected[name].as_array().unwrap() {
            let text = pair[0].as_str().unwrap();
            let tokens: Vec<u32> = serde_json::from_value(pair[1].clone()).unwrap();
            assert_eq!(
                tokenizer.encode(text, true).unwrap(),
                tokens,
                "{name}: {text:?}"
            );
            // SentencePiece adds a space before a text, and decoding strips one leading space, so a
            // text that begins with a space loses that space.
            if name != "sentencepiece" {
                assert_eq!(tokenizer.decode(&tokens, false).unwrap(), text, "{name}");
            }
        }
    }
}

#[test]
fn what_the_metadata_says_of_the_tokens() {
    let tokenizer = Tokenizer::load(&file("llama.gguf")).unwrap();
    assert_eq!(tokenizer.special_token("bos_token"), Some("<|begin|>"));
    assert_eq!(tokenizer.special_token("eos_token"), Some("<|end|>"));
    assert_eq!(tokenizer.special_token("pad_token"), Some("<|end|>"));
    assert_eq!(tokenizer.eos_ids(), [1]);
    assert!(tokenizer.is_special(3) && !tokenizer.is_special(4));
    assert!(tokenizer.chat_template().unwrap().starts_with("{% for m"));
    let sentencepiece = Tokenizer::load(&file("sentencepiece.gguf")).unwrap();
    assert_eq!(sentencepiece.token_bytes(3 + u32::from(b'\n')), b"\n");
    assert_eq!(sentencepiece.eos_ids(), [2]);
}

/// Checks that `weights` has the tensors of `twin`, to the bit.
#[track_caller]
fn assert_same(weights: &Weights, twin: &Weights) {
    for name in twin.names() {
        let (got, want) = (weights.tensor(name).unwrap(), twin.tensor(name).unwrap());
        assert_eq!(got.shape, want.shape, "{name}");
        assert_eq!(
            weights.encoding(name).unwrap(),
            twin.encoding(name).unwrap(),
            "{name}"
        );
        for (got, want) in got.data.iter().zip(&want.data) {
            assert_eq!(got.to_bits(), want.to_bits(), "{name}");
        }
    }
}

#[test]
fn state_dicts_of_torch_equal_their_safetensors_twin() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("model.safetensors");
    std::fs::copy(file("torch/twin.safetensors"), copy).unwrap();
    let twin = Weights::load(folder.path()).unwrap();
    for folder in ["torch", "torch/sharded"] {
        let weights = Weights::load(&file(folder)).unwrap();
        assert_same(&weights, &twin);
        assert_eq!(weights.names().count(), twin.names().count() + 1);
        // The file has an integer tensor, which is an error only when it is read.
        let error = weights.tensor("position_ids").unwrap_err();
        assert!(
            matches!(&error, Error::Dtype { dtype, .. } if dtype == "I64"),
            "{error}"
        );
        Model::load(&file(folder)).unwrap();
    }
}

#[test]
fn safetensors_go_before_torch() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("pytorch_model.bin"), "junk").unwrap();
    fs::copy(
        file("torch/twin.safetensors"),
        dir.path().join("model.safetensors"),
    )
    .unwrap();
    Weights::load(dir.path()).unwrap();
}

#[test]
fn a_gguf_file_stands_for_the_files_of_hugging_face() {
    let checkpoint = Checkpoint::from(&file("qwen2.gguf"));
    let config: Value =
        serde_json::from_str(&checkpoint.required_text("config.json").unwrap()).unwrap();
    for (field, value) in [
        ("model_type", Value::from("qwen2")),
        ("head_dim", 16.into()),
        ("num_key_value_heads", 2.into()),
        ("rope_theta", 1e6.into()),
        ("tie_word_embeddings", true.into()),
        ("eos_token_id", 1.into()),
    ] {
        assert_eq!(config[field], value, "{field}");
    }
    assert!(checkpoint.has("tokenizer.json") && !checkpoint.has("model.safetensors"));
    assert_eq!(checkpoint.text("chat_template.jinja").unwrap(), None);
    let missing = checkpoint
        .required_text("prm.toml")
        .unwrap_err()
        .to_string();
    assert!(missing.contains("qwen2.gguf"), "{missing}");
    let nowhere = Checkpoint::from(&file("nowhere.gguf"));
    let error = nowhere.text("config.json").unwrap_err().to_string();
    assert!(error.contains("nowhere.gguf"), "{error}");
}
