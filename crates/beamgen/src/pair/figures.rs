//! Tests the figures in the pairs' files. The memory plan computes each figure again from sparse
//! files, whose tensors have the published models' names, shapes and types, but no values.

use std::fs::File;
use std::io::Write;

use beamgen_engine::{Compute, ModelConfig, WeightType, Weights};
use serde_json::json;

use super::*;
use crate::known::{KNOWN_MODELS, KnownModel, ModelKind};
use crate::memory::MemoryPlan;
use crate::prepare::plan::{Returned, longest_chain, memory};
use crate::size::human_size;

fn known(name: &Path) -> &'static KnownModel {
    let name = name.to_str().unwrap();
    let model = KNOWN_MODELS.iter().find(|model| model.name == name);
    model.unwrap_or_else(|| panic!("{name} is not among KNOWN_MODELS"))
}

/// Returns the configuration of a model, built from the dimensions in its table row.
fn shape(model: &KnownModel) -> ModelConfig {
    let decoder = match (model.kind, model.read_as) {
        (ModelKind::Generator, family) => family,
        (ModelKind::Prm, "math-shepherd") => "mistral",
        (ModelKind::Prm, "rlhflow-llama3.1") => "llama",
        (ModelKind::Prm, _) => "qwen2",
    };
    let mut config = serde_json::to_value(model.shape).unwrap();
    config["model_type"] = decoder.into();
    config["max_position_embeddings"] = model.context.into();
    ModelConfig::from_json(&config.to_string(), Path::new(model.name)).unwrap()
}

/// Returns the name and shape of each tensor of a decoder.
fn tensors(c: &ModelConfig) -> Vec<(String, Vec<usize>)> {
    let (q, kv) = (
        c.num_attention_heads * c.head_dim,
        c.num_key_value_heads * c.head_dim,
    );
    let (hidden, wide) = (c.hidden_size, c.intermediate_size);
    let mut all = vec![
        (
            "model.embed_tokens.weight".to_owned(),
            vec![c.vocab_size, hidden],
        ),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ];
    if !c.tie_word_embeddings {
        all.push(("lm_head.weight".to_owned(), vec![c.vocab_size, hidden]));
    }
    for layer in 0..c.num_hidden_layers {
        let mut put = |name: &str, shape: &[usize]| {
            all.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
        };
        for (name, outputs) in [("q", q), ("k", kv), ("v", kv)] {
            put(&format!("self_attn.{name}_proj.weight"), &[outputs, hidden]);
            if c.qkv_bias {
                put(&format!("self_attn.{name}_proj.bias"), &[outputs]);
            }
        }
        put("self_attn.o_proj.weight", &[hidden, q]);
        put("mlp.gate_proj.weight", &[wide, hidden]);
        put("mlp.up_proj.weight", &[wide, hidden]);
        put("mlp.down_proj.weight", &[hidden, wide]);
        put("input_layernorm.weight", &[hidden]);
        put("post_attention_layernorm.weight", &[hidden]);
    }
    all
}

/// Writes a safetensors file in bfloat16. The values are a hole in the file, so it takes no disk
/// space.
fn safetensors(tensors: &[(String, Vec<usize>)], path: &Path) -> u64 {
    let (mut header, mut at) = (serde_json::Map::new(), 0);
    for (name, shape) in tensors {
        let end = at + 2 * shape.iter().product::<usize>();
        let entry = json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, end]});
        header.insert(name.clone(), entry);
        at = end;
    }
    let header = json!(header).to_string();
    let mut file = File::create(path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    file.write_all(header.as_bytes()).unwrap();
    let len = 8 + header.len() as u64 + at as u64;
    file.set_len(len).unwrap();
    len
}

/// Writes a GGUF file of a Qwen2, with matrices in `Q8_0` and the rest in float32. The values are a
/// hole in the file.
fn q8_0(c: &ModelConfig, tensors: &[(String, Vec<usize>)], path: &Path) -> u64 {
    let mut bytes = b"GGUF".to_vec();
    let string = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    let integers = [
        ("embedding_length", c.hidden_size),
        ("block_count", c.num_hidden_layers),
        ("attention.head_count", c.num_attention_heads),
    ];
    bytes.extend(3u32.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((1 + integers.len() as u64).to_le_bytes());
    string(&mut bytes, "general.architecture");
    bytes.extend(8u32.to_le_bytes());
    string(&mut bytes, "qwen2");
    for (key, value) in integers {
        string(&mut bytes, &format!("qwen2.{key}"));
        bytes.extend(4u32.to_le_bytes());
        bytes.extend((value as u32).to_le_bytes());
    }
    let mut at = 0u64;
    for (name, shape) in tensors {
        let mut name = name.replace("model.layers.", "blk.");
        for (from, to) in [
            ("model.embed_tokens", "token_embd"),
            ("model.norm", "output_norm"),
            ("lm_head", "output"),
            ("self_attn.o_proj", "attn_output"),
            ("self_attn.", "attn_"),
            ("mlp.", "ffn_"),
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "ffn_norm"),
            ("_proj", ""),
        ] {
            name = name.replace(from, to);
        }
        string(&mut bytes, &name);
        bytes.extend((shape.len() as u32).to_le_bytes());
        for size in shape.iter().rev() {
            bytes.extend((*size as u64).to_le_bytes());
        }
        let values = shape.iter().product::<usize>() as u64;
        let (kind, size) = match shape.len() {
            2 => (8u32, values / 32 * 34),
            _ => (0, values * 4),
        };
        bytes.extend(kind.to_le_bytes());
        bytes.extend(at.to_le_bytes());
        at = (at + size).next_multiple_of(32);
    }
    let len = (bytes.len() as u64).next_multiple_of(32) + at;
    let mut file = File::create(path).unwrap();
    file.write_all(&bytes).unwrap();
    file.set_len(len).unwrap();
    len
}

/// Returns the bytes to download, and the bytes of memory if the weights are kept as `dtype`.
fn figures(pair: &Pair, dtype: WeightType) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = pair.config().unwrap();
    config.models.dtype = dtype;
    let mut plan = MemoryPlan::new(&Compute::Cpu, &config).unwrap();
    let mut download = 0;
    for (role, name) in [("generator", &pair.generator), ("prm", &pair.prm)] {
        let model = known(name);
        let mut shape = shape(model);
        let tensors = tensors(&shape);
        let path = if name.extension().is_some_and(|e| e == "gguf") {
            let path = dir.path().join("model.gguf");
            download += q8_0(&shape, &tensors, &path);
            path
        } else {
            let folder = dir.path().join(role);
            std::fs::create_dir(&folder).unwrap();
            download += safetensors(&tensors, &folder.join("model.safetensors"));
            folder
        };
        let mut weights = Weights::load(path.as_path()).unwrap();
        // The other formats have a head of their own, so the language model's head is not loaded.
        if role == "prm" && !["math-shepherd", "rlhflow-llama3.1"].contains(&model.read_as) {
            weights.remove("lm_head.weight");
            shape.causal_lm = false;
        }
        let memory = memory(
            role,
            &shape,
            &weights,
            &config,
            &Compute::Cpu,
            Returned::Hidden,
        )
        .unwrap();
        plan.models.push(memory);
    }
    let (longest, spare) = longest_chain(&config);
    (download, plan.needed(longest, spare))
}

/// Returns the bytes of a machine that models and caches may use.
fn may_take(fits: Fits) -> u64 {
    match fits {
        Fits::Laptop => 12_000_000_000,
        Fits::OneCard => 22_000_000_000,
        Fits::TwoCards => 44_000_000_000,
    }
}

#[test]
fn download_and_memory_are_what_the_plan_computes() {
    let mut wrong = Vec::new();
    for pair in Pair::all() {
        let (download, bf16) = figures(&pair, WeightType::Bf16);
        let (_, int8) = figures(&pair, WeightType::Int8);
        let by_default = match pair.config().unwrap().models.dtype {
            WeightType::Int8 => int8,
            _ => bf16,
        };
        let fits = Fits::ALL
            .into_iter()
            .find(|fits| by_default <= may_take(*fits));
        let computed = (
            fits,
            Some(human_size(download)),
            Some([bf16, int8].map(human_size)),
        );
        let written = (
            pair.fits,
            pair.download.map(human_size),
            pair.memory
                .map(|memory| [memory.bf16, memory.int8].map(human_size)),
        );
        if computed != written {
            wrong.push(format!(
                "{}: written {written:?}, computed {computed:?}",
                pair.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
