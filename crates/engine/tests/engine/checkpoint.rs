//! Tests checkpoints that are broken, or that contradict their configuration.

use std::fs;
use std::path::Path;

use crate::common::{append, engine, fixture, random_weights, tiny_config, tokens};
use beamgen_engine::{
    Append, Compute, Engine, EngineConfig, Error, Model, ModelConfig, Output, Tensor, Want,
    WeightType, Weights,
};

fn copy(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

#[track_caller]
fn refused(dir: &Path, words: &[&str]) -> Error {
    let error = Model::load(dir).unwrap_err();
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
    error
}

#[test]
fn missing_files() {
    let dir = tempfile::tempdir().unwrap();
    refused(dir.path(), &["config.json"]);
    fs::copy(
        fixture("llama").join("config.json"),
        dir.path().join("config.json"),
    )
    .unwrap();
    let error = refused(dir.path(), &["model.safetensors"]);
    assert!(matches!(error, Error::NoCheckpoint { .. }));
    refused(Path::new("/nowhere/at/all"), &["/nowhere/at/all"]);
}

/// Reading mapped bytes beyond the end of the file would kill the process.
#[test]
fn a_file_that_is_shortened_while_it_is_read() {
    let dir = copy("llama");
    let path = dir.path().join("model.safetensors");
    let weights = Weights::load(dir.path()).unwrap();
    weights.tensor("model.norm.weight").unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let error = weights.tensor("model.norm.weight").unwrap_err();
    assert!(matches!(error, Error::Shortened { .. }), "{error}");
}

/// Opening a FIFO would wait for its writer, and a device has no end.
#[cfg(unix)]
#[test]
fn devices_are_no_files_of_a_checkpoint() {
    for file in ["config.json", "model.safetensors"] {
        for device in ["/dev/zero", "/dev/full"] {
            let dir = copy("llama");
            fs::remove_file(dir.path().join(file)).unwrap();
            std::os::unix::fs::symlink(device, dir.path().join(file)).unwrap();
            refused(dir.path(), &[file, "not a regular file"]);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    refused(&path, &["m.gguf", "not a regular file"]);
}

#[test]
fn truncated_and_corrupt_files_at_every_kind_of_place() {
    let dir = copy("llama");
    let path = dir.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    for len in [
        0,
        1,
        7,
        8,
        9,
        8 + header / 2,
        8 + header,
        9 + header,
        whole.len() - 1,
    ] {
        fs::write(&path, &whole[..len]).unwrap();
        let error = refused(dir.path(), &["model.safetensors", "truncated or corrupt"]);
        assert!(matches!(error, Error::Checkpoint { .. }), "{len} bytes");
    }
    let mut longer = whole.clone();
    longer.push(0);
    let mut huge = whole.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut scribbled = whole.clone();
    scribbled[20] = b'}';
    for bytes in [
        longer,
        huge,
        scribbled,
        b"not a checkpoint, surely".to_vec(),
    ] {
        fs::write(&path, bytes).unwrap();
        refused(dir.path(), &["model.safetensors", "truncated or corrupt"]);
    }
}

#[test]
fn broken_shards() {
    let dir = copy("qwen3");
    let index = dir.path().join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();

    fs::write(
        &index,
        text.replace("model.norm.weight", "model.enorm.weight"),
    )
    .unwrap();
    refused(dir.path(), &["index.json", "model.enorm.weight"]);
    fs::write(&index, text.replace("model-00001-of", "../model-00001-of")).unwrap();
    refused(dir.path(), &["index.json", "not a plain file name"]);
    fs::write(&index, "{").unwrap();
    refused(dir.path(), &["index.json"]);

    fs::write(&index, text).unwrap();
    let shard = dir.path().join("model-00002-of-00002.safetensors");
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes[..bytes.len() - 2]).unwrap();
    refused(
        dir.path(),
        &["model-00002-of-00002.safetensors", "truncated"],
    );
    fs::remove_file(&shard).unwrap();
    refused(dir.path(), &["model-00002-of-00002.safetensors"]);
}

#[test]
fn configurations_that_ask_for_more_name_file_and_field() {
    let dir = copy("phi3");
    let path = dir.path().join("config.json");
    let text = fs::read_to_string(&path).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let longrope =
        serde_json::json!({"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]});
    for (field, value, words) in [
        ("model_type", "phimoe".into(), ["model_type", "phimoe"]),
        ("model_type", "gemma2".into(), ["model_type", "mistral"]),
        ("hidden_act", "gelu".into(), ["hidden_act", "silu"]),
        (
            "rope_parameters",
            longrope.clone(),
            ["rope_parameters.type", "longrope"],
        ),
        ("rope_scaling", longrope, ["rope_scaling.type", "longrope"]),
        (
            "quantization_config",
            serde_json::json!({}),
            ["quantization_config", "{}"],
        ),
        (
            "sliding_window",
            "wide".into(),
            ["sliding_window", "whole number"],
        ),
        (
            "num_key_value_heads",
            3.into(),
            ["num_key_value_heads", "divisor"],
        ),
        ("head_dim", 7.into(), ["head_dim", "even"]),
    ] {
        let mut changed = config.clone();
        changed[field] = value;
        fs::write(&path, changed.to_string()).unwrap();
        let error = refused(dir.path(), &words);
        let file = path.display().to_string();
        assert!(error.to_string().starts_with(&file), "{error}");
    }
}

/// A family's tensors under another family's name: some are unexpected, and some are missing.
#[test]
fn tensors_of_another_family() {
    let dir = copy("phi3");
    let path = dir.path().join("config.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("\"phi3\"", "\"llama\"")
            .replace("sliding_window", "w"),
    )
    .unwrap();
    refused(
        dir.path(),
        &["model.layers.0.self_attn.q_proj.weight", "missing"],
    );
    let dir = copy("llama");
    let path = dir.path().join("config.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"llama\"", "\"mistral\"")).unwrap();
    refused(dir.path(), &["bias", "no use for it"]);
}

fn changed(
    config: ModelConfig,
    change: impl FnOnce(&mut Vec<(String, Tensor)>),
) -> Result<Model, Error> {
    let mut tensors = random_weights(&config);
    change(&mut tensors);
    Model::from_weights(config, &Weights::from_tensors(tensors)?, WeightType::Auto)
}

#[test]
fn tensors_missing_misshapen_or_left_over() {
    assert!(changed(tiny_config(), |_| ()).is_ok());
    for i in 0..random_weights(&tiny_config()).len() {
        let mut name = String::new();
        let error = changed(tiny_config(), |t| name = t.remove(i).0).unwrap_err();
        assert!(
            matches!(&error, Error::MissingTensor { name: n } if *n == name),
            "{error}"
        );
    }
    for i in 0..random_weights(&tiny_config()).len() {
        let mut name = String::new();
        let error = changed(tiny_config(), |t| {
            let (n, tensor) = &mut t[i];
            name.clone_from(n);
            tensor.shape.push(1);
        })
        .unwrap_err();
        let message = error.to_string();
        assert!(
            matches!(error, Error::Shape { .. }) && message.contains(&name),
            "{message}"
        );
    }
    let stray = Tensor {
        shape: vec![2],
        data: vec![0.0; 2],
    };
    for name in [
        "model.layers.3.mlp.up_proj.weight",
        "model.layers.0.self_attn.o_proj.bias",
        "lm_head.bias",
    ] {
        let error = changed(tiny_config(), |t| t.push((name.into(), stray.clone()))).unwrap_err();
        assert!(
            matches!(&error, Error::UnexpectedTensor { name: n } if n == name),
            "{error}"
        );
    }
    for name in [
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "score.weight",
    ] {
        assert!(changed(tiny_config(), |t| t.push((name.into(), stray.clone()))).is_ok());
    }
    let short = Tensor {
        shape: vec![3],
        data: vec![0.0; 2],
    };
    assert!(Weights::from_tensors([("x".to_owned(), short)]).is_err());
}

#[test]
fn reads_no_integers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    let view =
        safetensors::tensor::TensorView::new(safetensors::Dtype::I64, vec![1], &[0; 8]).unwrap();
    safetensors::serialize_to_file([("ids", view)], None, &path).unwrap();
    let weights = Weights::load(dir.path()).unwrap();
    let error = weights.tensor("ids").unwrap_err();
    assert!(error.to_string().contains("I64"), "{error}");
}

#[test]
fn a_reward_model_has_no_head_but_its_own_tensors() {
    let mut config = tiny_config();
    config.tie_word_embeddings = false;
    config.causal_lm = false;
    let mut tensors = random_weights(&config);
    tensors.retain(|(name, _)| name != "lm_head.weight");
    tensors.push((
        "score.weight".into(),
        Tensor {
            shape: vec![1, 40],
            data: vec![0.5; 40],
        },
    ));
    let weights = Weights::from_tensors(tensors).unwrap();
    let model = Model::from_weights(config, &weights, WeightType::Auto).unwrap();
    assert!(!model.has_head());
    assert_eq!(weights.tensor("score.weight").unwrap().shape, [1, 40]);

    let mut engine = Engine::new(model.into(), EngineConfig::default()).unwrap();
    let seq = engine.create();
    let item = Append {
        seq,
        tokens: &[1, 2],
        want: Want::Last,
    };
    assert!(matches!(
        engine.forward(&[item], Output::Logits),
        Err(Error::NoHead)
    ));
    assert_eq!(engine.len(seq), 0);
    assert_eq!(engine.forward(&[item], Output::Hidden).unwrap().width(), 40);
}

#[test]
fn names_without_the_model_prefix() {
    let with = changed(tiny_config(), |_| ()).unwrap();
    let without = changed(tiny_config(), |t| {
        for (name, _) in t {
            *name = name.trim_start_matches("model.").into();
        }
    })
    .unwrap();
    let logits = [with, without].map(|model| {
        let mut engine = engine(&model.into(), |_| ());
        let seq = engine.create();
        append(&mut engine, seq, &tokens(9, 67, 1), Want::All)
    });
    assert_eq!(logits[0], logits[1]);
}

#[test]
fn tied_and_untied_heads_agree() {
    let tied = tiny_config();
    let mut untied = tiny_config();
    untied.tie_word_embeddings = false;
    let a = changed(tied, |_| ()).unwrap();
    let b = changed(untied, |t| {
        let embedding = t
            .iter()
            .find(|(n, _)| n == "model.embed_tokens.weight")
            .unwrap()
            .1
            .clone();
        t.iter_mut().find(|(n, _)| n == "lm_head.weight").unwrap().1 = embedding;
    })
    .unwrap();
    let logits = [a, b].map(|model| {
        let mut engine = engine(&model.into(), |_| ());
        let seq = engine.create();
        append(&mut engine, seq, &tokens(9, 67, 1), Want::All)
    });
    assert_eq!(logits[0], logits[1]);
}

/// `transformers` 5 ties a head only if the file has no other values for it.
#[test]
fn a_head_of_its_own_goes_before_a_configuration_that_ties_it() {
    let dir = copy("qwen3");
    let path = dir.path().join("config.json");
    let text = fs::read_to_string(&path).unwrap();
    let untied = "\"tie_word_embeddings\": false";
    assert!(text.contains(untied));
    fs::write(&path, text.replace(untied, "\"tie_word_embeddings\": true")).unwrap();
    let rows = [fixture("qwen3").as_path(), dir.path()].map(|folder| {
        let (config, weights) = ModelConfig::load_with_weights(folder).unwrap();
        assert!(!config.tie_word_embeddings);
        let footprint = config.footprint(
            &weights,
            WeightType::Auto,
            &EngineConfig::default(),
            &Compute::Cpu,
        );
        let model = Model::load(folder).unwrap();
        assert_eq!(footprint.unwrap().weights, model.bytes());
        (model.bytes(), logits(model))
    });
    assert_eq!(rows[0], rows[1]);
    // Without `settle_head` it is undecided whether the tied or the separate head is right.
    let config = ModelConfig::load(dir.path()).unwrap();
    let weights = Weights::load(dir.path()).unwrap();
    let error = Model::from_weights(config, &weights, WeightType::Auto).unwrap_err();
    assert!(error.to_string().contains("lm_head.weight"), "{error}");
}

#[test]
fn a_tied_head_may_be_written_out_or_stand_for_the_embedding() {
    let tied = tiny_config();
    let plain = random_weights(&tied);
    let head = |tensors: &[(String, Tensor)]| {
        let embedding = tensors.iter().find(|(name, _)| name == EMBEDDING);
        ("lm_head.weight".to_owned(), embedding.unwrap().1.clone())
    };
    let mut twice = plain.clone();
    twice.push(head(&plain));
    let mut alone = twice.clone();
    alone.retain(|(name, _)| name != EMBEDDING);
    let rows = [plain, twice, alone].map(|tensors| {
        let mut config = tied.clone();
        let mut weights = Weights::from_tensors(tensors).unwrap();
        config.settle_head(&mut weights).unwrap();
        let model = Model::from_weights(config, &weights, WeightType::Auto).unwrap();
        (model.bytes(), logits(model))
    });
    assert_eq!(rows[0], rows[1]);
    assert_eq!(rows[0], rows[2]);
}

const EMBEDDING: &str = "model.embed_tokens.weight";

fn logits(model: Model) -> beamgen_engine::Rows {
    let mut engine = engine(&model.into(), |_| ());
    let seq = engine.create();
    append(&mut engine, seq, &tokens(9, 67, 1), Want::All)
}
