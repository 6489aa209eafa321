//! Tests weights in narrow types, and the computed memory of a model.

use std::sync::Arc;

use crate::common::{
    PAIRS, TILES, append, assert_same_bits, engine, even_config, fixture, random_model_as,
    random_weights, tiny_config, tokens,
};
use beamgen_engine::{
    Compute, Engine, EngineConfig, Error, KvType, Model, ModelConfig, Precision, Rows, Tensor,
    Want, WeightType, Weights,
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

const KV_TYPES: [KvType; 6] = [
    KvType::F32,
    KvType::Bf16,
    KvType::F16,
    KvType::Bf16,
    KvType::F32,
    KvType::Bf16,
];

const TYPES: [WeightType; 5] = [
    WeightType::Auto,
    WeightType::F32,
    WeightType::Bf16,
    WeightType::F16,
    WeightType::Int8,
];

fn logits(model: Model) -> Rows {
    let vocab = model.config().vocab_size;
    let mut engine = engine(&Arc::new(model), |_| ());
    let seq = engine.create();
    append(&mut engine, seq, &tokens(45, vocab, 1), Want::All)
}

#[track_caller]
fn assert_same(a: &Rows, b: &Rows) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert_same_bits(a, b);
    }
}

#[test]
fn auto_keeps_the_bits_in_half_the_memory() {
    for (name, narrow) in [
        ("qwen2", WeightType::Bf16),
        ("mistral", WeightType::Bf16),
        ("phi3-partial", WeightType::Bf16),
        ("qwen3", WeightType::F16),
        ("llama-linear", WeightType::F16),
    ] {
        let load = |kind| Model::load_as(&fixture(name), kind).unwrap();
        let (auto, f32, same) = (load(WeightType::Auto), load(WeightType::F32), load(narrow));
        assert_eq!(auto.bytes(), same.bytes());
        assert!(auto.bytes() * 100 < f32.bytes() * 52, "{name}");
        let wide = logits(f32);
        assert_same(&logits(auto), &wide);
        assert_same(&logits(same), &wide);
    }
    let load = |kind| Model::load_as(&fixture("llama"), kind).unwrap().bytes();
    assert_eq!(load(WeightType::Auto), load(WeightType::F32));
}

/// Loads the random model after `change` of every value.
fn tiny(weight_type: WeightType, change: impl Fn(&str, &mut f32)) -> Result<Model, Error> {
    let mut tensors = random_weights(&tiny_config());
    for (name, Tensor { data, .. }) in &mut tensors {
        for x in data.iter_mut() {
            change(name, x);
        }
    }
    Model::from_weights(tiny_config(), &Weights::from_tensors(tensors)?, weight_type)
}

#[test]
fn narrowing_rounds_matrices_to_the_nearest() {
    type Round = fn(f32) -> f32;
    let bf16: Round = |x| half::bf16::from_f32(x).to_f32();
    let f16: Round = |x| half::f16::from_f32(x).to_f32();
    for (kind, round) in [(WeightType::Bf16, bf16), (WeightType::F16, f16)] {
        let narrow = tiny(kind, |_, _| ()).unwrap();
        let rounded = tiny(WeightType::F32, |name, x| {
            // Norms and biases stay float32.
            if name.ends_with(".weight") && !name.contains("norm") {
                *x = round(*x);
            }
        })
        .unwrap();
        let narrow = logits(narrow);
        assert_same(&narrow, &logits(rounded));
        let whole = logits(tiny(WeightType::F32, |_, _| ()).unwrap());
        assert_ne!(narrow, whole);
    }
}

/// The root mean square of the differences, relative to the root mean square of `exact`.
fn relative_error(found: &Rows, exact: &Rows) -> f64 {
    let square = |values: &mut dyn Iterator<Item = f32>| -> f64 {
        values.map(|x| f64::from(x).powi(2)).sum()
    };
    let pairs = found.iter().flatten().zip(exact.iter().flatten());
    let error = square(&mut pairs.map(|(a, b)| a - b));
    (error / square(&mut exact.iter().flatten().copied())).sqrt()
}

#[test]
fn int8_stays_near_float32_in_a_quarter_of_the_memory() {
    let load = |kind| random_model_as(even_config(), kind);
    let (int8, f32) = (load(WeightType::Int8), load(WeightType::F32));
    // The ratio is above a quarter, because the vocabulary of 67 is padded to 96 rows, and norms
    // and biases stay float32.
    assert!(int8.bytes() * 100 < f32.bytes() * 31);
    let run = |model| {
        let mut engine = engine(model, |_| ());
        let seq = engine.create();
        append(&mut engine, seq, &tokens(45, 67, 1), Want::All)
    };
    let (int8, f32) = (run(&int8), run(&f32));
    let error = relative_error(&int8, &f32);
    println!("relative error of the logits with int8: {error:.2e}");
    // One matrix of noise has an error of 0.6 %, and 13 matrices follow each other.
    assert!((1e-3..0.03).contains(&error), "{error}");
}

#[test]
fn int8_leaves_embeddings_that_are_only_looked_up_as_they_are() {
    for tied in [true, false] {
        let config = ModelConfig {
            tie_word_embeddings: tied,
            ..even_config()
        };
        let bytes = |kind| random_model_as(config.clone(), kind).bytes();
        let saved = bytes(WeightType::F32) - bytes(WeightType::Int8);
        // The matrices of a layer are queries, keys and values; attention's output; gate and up;
        // down.
        let (hidden, q, kv, intermediate) = (64, 96, 32, 96);
        let layer = (q + 2 * kv) * hidden + q * hidden + 3 * intermediate * hidden;
        let head = 96 * hidden;
        assert_eq!(saved, (3 * layer + head) / 32 * (4 * 32 - 34));
    }
}

#[test]
fn values_out_of_range_name_the_tensor() {
    let tensor = "model.layers.1.self_attn.k_proj.weight";
    let with = |kind, value: f32| {
        tiny(kind, |name, x| {
            if name == tensor {
                *x = value;
            }
        })
    };
    let error = with(WeightType::F16, -65_520.0).unwrap_err();
    assert!(matches!(&error, Error::WeightRange { name, .. } if name == tensor));
    let message = error.to_string();
    assert!(
        message.contains(tensor) && message.contains("f16"),
        "{message}"
    );
    assert!(with(WeightType::F16, 65_519.0).is_ok());
    let error = with(WeightType::Bf16, f32::MAX).unwrap_err();
    assert!(matches!(&error, Error::WeightRange { name, .. } if name == tensor));
    assert!(with(WeightType::F32, f32::MAX).is_ok());
    // An infinity in the checkpoint is not an overflow by rounding.
    assert!(with(WeightType::F16, f32::INFINITY).is_ok());
}

/// Copies a bfloat16 checkpoint, with the weights of the keys' projections as float32.
fn mixed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let source = fixture("qwen2");
    std::fs::copy(source.join("config.json"), dir.path().join("config.json")).unwrap();
    let bytes = std::fs::read(source.join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = file
        .iter()
        .map(|(name, view)| {
            let shape = view.shape().to_vec();
            if !name.ends_with("k_proj.weight") {
                return (name.to_owned(), view.dtype(), shape, view.data().to_vec());
            }
            // A bfloat16 becomes a float32 by two zero bytes in front (little endian).
            let pairs = view.data().as_chunks::<2>().0;
            let wide = pairs.iter().flat_map(|[a, b]| [0, 0, *a, *b]).collect();
            (name.to_owned(), Dtype::F32, shape, wide)
        })
        .collect();
    let views = tensors.iter().map(|(name, dtype, shape, data)| {
        let view = TensorView::new(*dtype, shape.clone(), data).unwrap();
        (name.as_str(), view)
    });
    let path = dir.path().join("model.safetensors");
    safetensors::serialize_to_file(views, None, &path).unwrap();
    dir
}

#[test]
fn a_matrix_of_tensors_of_several_types_is_float32() {
    let dir = mixed();
    let bytes = |kind| Model::load_as(dir.path(), kind).unwrap().bytes();
    let model = Model::load(dir.path()).unwrap();
    // The matrix in each of the two layers has 128 outputs and 64 inputs, and two more bytes per
    // value.
    assert_eq!(model.bytes(), bytes(WeightType::Bf16) + 2 * 2 * 128 * 64);
    assert_same(
        &logits(model),
        &logits(Model::load(&fixture("qwen2")).unwrap()),
    );
}

#[test]
fn the_footprint_is_what_is_taken() {
    let dir = mixed();
    let mut folders = vec![dir.path().to_owned()];
    let names = [
        "llama",
        "llama-dynamic",
        "mistral",
        "qwen2-yarn",
        "qwen3",
        "phi3-partial",
    ];
    folders.extend(names.map(fixture));
    for folder in folders {
        let config = ModelConfig::load(folder.as_path()).unwrap();
        let weights = Weights::load(folder.as_path()).unwrap();
        let settings = EngineConfig {
            max_rows: 37,
            threads: 1,
            ..EngineConfig::default()
        };
        let types = TYPES.into_iter().map(Precision::from).chain([PAIRS, TILES]);
        for (kind, kv_dtype) in types.zip(KV_TYPES.into_iter().cycle()) {
            let settings = EngineConfig {
                kv_dtype,
                ..settings.clone()
            };
            let footprint = config
                .footprint(&weights, kind, &settings, &Compute::Cpu)
                .unwrap();
            let model = Model::from_weights(config.clone(), &weights, kind).unwrap();
            assert_eq!(footprint.weights, model.bytes(), "{folder:?} {kind:?}");
            let mut engine = Engine::new(model.into(), settings.clone()).unwrap();
            let page = engine.kv().page_bytes;
            assert_eq!(footprint.kv_per_token * settings.page_size, page);
            assert_eq!(footprint.kv_per_token, engine.kv().token_bytes);
            let bytes = if kv_dtype == KvType::F32 { 4 } else { 2 };
            let values =
                2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim;
            assert_eq!(footprint.kv_per_token, bytes * values);
            assert!(engine.buffer_bytes() <= footprint.buffers);
            let seq = engine.create();
            let all = vec![0; config.max_position_embeddings];
            append(&mut engine, seq, &all, Want::None);
            assert_eq!(footprint.buffers, engine.buffer_bytes(), "{folder:?}");
        }
    }
}

/// Arithmetic in bfloat16 rounds the inputs of every matrix, too. The error must be of the size
/// that rounding the weights alone has.
#[test]
fn bf16_arithmetic_errs_as_much_as_rounded_weights_do() {
    let mut wide = even_config();
    wide.hidden_size = 256;
    let model = |precision: Precision| {
        let weights = Weights::from_tensors(random_weights(&wide)).unwrap();
        logits(Model::from_weights(wide.clone(), &weights, precision).unwrap())
    };
    let exact = model(WeightType::F32.into());
    let weights = relative_error(&model(WeightType::Bf16.into()), &exact);
    for precision in [PAIRS, TILES] {
        let arithmetic = relative_error(&model(precision), &exact);
        println!("{weights:.1e} with rounded weights, {arithmetic:.1e} with bfloat16 arithmetic");
        assert!(arithmetic > weights, "inputs are rounded, too");
        assert!(arithmetic < 2.5 * weights && arithmetic < 0.02);
        let auto = Precision {
            weights: WeightType::Auto,
            ..precision
        };
        assert_same(&model(auto), &model(precision));
    }
}

/// An embedding that is not also the head is only looked up, so bfloat16 arithmetic does not round
/// it; `dtype bf16` does.
#[test]
fn an_embedding_of_its_own_is_rounded_by_dtype_alone() {
    let config = ModelConfig {
        tie_word_embeddings: false,
        ..even_config()
    };
    let weights = Weights::from_tensors(random_weights(&config)).unwrap();
    let model = |weights_as| {
        let precision = Precision {
            weights: weights_as,
            ..PAIRS
        };
        logits(Model::from_weights(config.clone(), &weights, precision).unwrap())
    };
    let (auto, rounded) = (model(WeightType::Auto), model(WeightType::Bf16));
    let error = relative_error(&auto, &rounded);
    assert!(0.0 < error && error < 0.02, "{error}");
}

#[test]
fn types_that_contradict_each_other_are_refused() {
    let precision = Precision {
        weights: WeightType::F16,
        ..PAIRS
    };
    let weights = Weights::from_tensors(random_weights(&tiny_config())).unwrap();
    let error = Model::from_weights(tiny_config(), &weights, precision).unwrap_err();
    assert!(error.to_string().contains("dtype f16"), "{error}");
    let settings = EngineConfig::default();
    let planned = tiny_config().footprint(&weights, precision, &settings, &Compute::Cpu);
    assert_eq!(planned.unwrap_err().to_string(), error.to_string());
}

#[test]
fn a_footprint_needs_all_tensors() {
    let mut tensors = random_weights(&tiny_config());
    let name = "model.layers.2.mlp.down_proj.weight";
    tensors.retain(|(n, _)| n != name);
    let weights = Weights::from_tensors(tensors).unwrap();
    let settings = EngineConfig::default();
    let error = tiny_config()
        .footprint(&weights, WeightType::Auto, &settings, &Compute::Cpu)
        .unwrap_err();
    assert!(matches!(&error, Error::MissingTensor { name: n } if n == name));
}

/// Random models do not compensate errors, and the attention of `qwen2` is sharp, so a fixed
/// tolerance does not fit. The errors are compared with those of plain code that rounds only the
/// weights.
#[test]
fn int8_errs_on_the_fixtures_as_much_as_rounded_weights_do() {
    for name in ["qwen2", "qwen2-yarn", "qwen3", "phi3"] {
        let folder = fixture(name);
        let f32 = logits(Model::load_as(&folder, WeightType::F32).unwrap());
        let int8 = logits(Model::load_as(&folder, WeightType::Int8).unwrap());
        let weights = Weights::load(folder.as_path()).unwrap();
        let rounded = weights.names().map(|name| {
            let mut tensor = weights.tensor(name).unwrap();
            if tensor.shape.len() == 2 && tensor.shape[1].is_multiple_of(32) {
                for group in tensor.data.chunks_mut(32) {
                    let largest = group.iter().fold(0.0f32, |max, x| max.max(x.abs()));
                    let scale = largest / 127.0;
                    for x in group.iter_mut() {
                        *x = (*x / scale).round() * scale;
                    }
                }
            }
            (name.to_owned(), tensor)
        });
        let rounded = Weights::from_tensors(rounded).unwrap();
        let config = ModelConfig::load(folder.as_path()).unwrap();
        let rounded = logits(Model::from_weights(config, &rounded, WeightType::F32).unwrap());
        let (int8, rounded) = (relative_error(&int8, &f32), relative_error(&rounded, &f32));
        println!("{name}: {int8:.1e} with int8, {rounded:.1e} with rounded weights");
        assert!(int8 < 2.5 * rounded && int8 < 0.1, "{name}");
    }
}
