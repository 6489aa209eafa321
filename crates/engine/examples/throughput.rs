//! Times the forward pass on random weights of a given shape.
//!
//!     cargo run --release -p beamgen-engine --example throughput -- \
//!         hidden=128 layers=4 heads=4 kv=2 head_dim=32 intermediate=384 vocab=512 context=200 rows=256 dtype=bf16 kv_dtype=f32
//!
//! Every sequence holds `context` tokens; each pass appends one token to each of `rows`
//! sequences (decode), or `rows` tokens to one sequence (`prefill=1`). Warm-up apart; median
//! and the 10th and 90th percentile of the passes that fit into `seconds`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use beamgen_engine::{
    Append, Engine, EngineConfig, KvType, Model, ModelConfig, Output, Rope, SeqId, Tensor, Want,
    WeightType, Weights,
};

/// The arguments, `name=number`, `dtype=name` and `kv_dtype=name`.
struct Shape(BTreeMap<String, usize>, WeightType, KvType);

impl Shape {
    fn from_args() -> Result<Self, String> {
        let mut all: BTreeMap<String, usize> = [
            ("hidden", 128),
            ("layers", 4),
            ("heads", 4),
            ("kv", 2),
            ("head_dim", 32),
            ("intermediate", 384),
            ("vocab", 512),
            ("context", 200),
            ("rows", 256),
            ("prefill", 0),
            ("threads", 0),
            ("seconds", 3),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let (mut weight_type, mut kv_type) = (WeightType::Auto, KvType::F32);
        for arg in std::env::args().skip(1) {
            let (name, value) = arg
                .split_once('=')
                .ok_or(format!("{arg}: not name=number"))?;
            if name == "dtype" {
                weight_type = value.parse().map_err(|e| format!("{arg}: {e}"))?;
                continue;
            }
            if name == "kv_dtype" {
                kv_type = value.parse().map_err(|e| format!("{arg}: {e}"))?;
                continue;
            }
            let known = all
                .get_mut(name)
                .ok_or(format!("{name}: no such setting"))?;
            *known = value.parse().map_err(|e| format!("{arg}: {e}"))?;
        }
        Ok(Self(all, weight_type, kv_type))
    }

    fn get(&self, name: &str) -> usize {
        self.0[name]
    }

    fn config(&self) -> ModelConfig {
        ModelConfig {
            model_type: "llama".into(),
            vocab_size: self.get("vocab"),
            hidden_size: self.get("hidden"),
            intermediate_size: self.get("intermediate"),
            num_hidden_layers: self.get("layers"),
            num_attention_heads: self.get("heads"),
            num_key_value_heads: self.get("kv"),
            head_dim: self.get("head_dim"),
            rms_norm_eps: 1e-6,
            rope: Rope::plain(10_000.0),
            max_position_embeddings: 1 << 20,
            windows: Vec::new(),
            tie_word_embeddings: true,
            qkv_bias: false,
            o_bias: false,
            mlp_bias: false,
            qk_norm: false,
            fused_projections: false,
            causal_lm: true,
        }
    }
}

fn model(c: &ModelConfig, weight_type: WeightType) -> Result<Model, beamgen_engine::Error> {
    let mut seed = 1u32;
    let mut tensor = |shape: &[usize]| {
        let n: usize = shape.iter().product();
        let scale = if shape.len() > 1 {
            1.0 / (shape[1] as f32).sqrt()
        } else {
            1.0
        };
        let data = (0..n)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 8) as f32 / (1 << 23) as f32 * scale - scale
            })
            .collect();
        Tensor {
            shape: shape.to_vec(),
            data,
        }
    };
    let (h, i) = (c.hidden_size, c.intermediate_size);
    let (q, kv) = (
        c.num_attention_heads * c.head_dim,
        c.num_key_value_heads * c.head_dim,
    );
    let mut all = vec![
        (
            "model.embed_tokens.weight".to_owned(),
            tensor(&[c.vocab_size, h]),
        ),
        ("model.norm.weight".to_owned(), tensor(&[h])),
    ];
    for layer in 0..c.num_hidden_layers {
        for (name, shape) in [
            ("input_layernorm", &[h][..]),
            ("post_attention_layernorm", &[h]),
            ("self_attn.q_proj", &[q, h]),
            ("self_attn.k_proj", &[kv, h]),
            ("self_attn.v_proj", &[kv, h]),
            ("self_attn.o_proj", &[h, q]),
            ("mlp.gate_proj", &[i, h]),
            ("mlp.up_proj", &[i, h]),
            ("mlp.down_proj", &[h, i]),
        ] {
            all.push((format!("model.layers.{layer}.{name}.weight"), tensor(shape)));
        }
    }
    Model::from_weights(c.clone(), &Weights::from_tensors(all)?, weight_type)
}

/// Floating-point operations of one row at that context, the head included.
fn row_flops(c: &ModelConfig, context: usize) -> f64 {
    let qkv = (c.num_attention_heads + 2 * c.num_key_value_heads) * c.head_dim;
    let q = c.num_attention_heads * c.head_dim;
    let layer = c.hidden_size * (qkv + q + 3 * c.intermediate_size);
    let attention = 2 * context * q;
    2.0 * (c.num_hidden_layers * (layer + attention) + c.hidden_size * c.vocab_size) as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shape = Shape::from_args()?;
    let config = shape.config();
    let model = Arc::new(model(&config, shape.1)?);
    let settings = EngineConfig {
        threads: shape.get("threads"),
        kv_bytes: 8 << 30,
        kv_dtype: shape.2,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(Arc::clone(&model), settings)?;
    let (rows, context) = (shape.get("rows"), shape.get("context"));
    let prefill = shape.get("prefill") != 0;
    let vocab = config.vocab_size as u32;

    // As in a search: all sequences are forks of one prompt, with some tokens of their own.
    let prompt: Vec<u32> = (0..context as u32).map(|i| i * 7919 % vocab).collect();
    let root = engine.create();
    if context > 0 {
        engine.forward(
            &[Append {
                seq: root,
                tokens: &prompt,
                want: Want::None,
            }],
            Output::Logits,
        )?;
    }
    let sequences = if prefill { 1 } else { rows };
    let seqs: Vec<SeqId> = (0..sequences).map(|_| engine.fork(root)).collect();
    let tokens: Vec<u32> = (0..rows as u32).map(|i| i * 31 % vocab).collect();
    let pass = |engine: &mut Engine| -> Result<f64, beamgen_engine::Error> {
        let items: Vec<Append<'_>> = if prefill {
            vec![Append {
                seq: seqs[0],
                tokens: &tokens,
                want: Want::Last,
            }]
        } else {
            let one = |(i, seq): (usize, &SeqId)| Append {
                seq: *seq,
                tokens: &tokens[i..=i],
                want: Want::Last,
            };
            seqs.iter().enumerate().map(one).collect()
        };
        let start = Instant::now();
        let out = engine.forward(&items, Output::Logits)?;
        let seconds = start.elapsed().as_secs_f64();
        engine.recycle(out);
        for seq in &seqs {
            engine.truncate(*seq, context);
        }
        Ok(seconds)
    };
    for _ in 0..3 {
        pass(&mut engine)?;
    }
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < shape.get("seconds") as f64 || times.len() < 5 {
        times.push(pass(&mut engine)?);
    }
    times.sort_by(f64::total_cmp);
    let at = |fraction: f64| times[((times.len() - 1) as f64 * fraction) as usize];
    let last = if prefill { rows / 2 } else { 1 };
    let flops = rows as f64 * row_flops(&config, context + last);
    println!(
        "{} passes of {rows} rows at context {context}, {} threads, {:.1} MB of weights",
        times.len(),
        engine.pool().threads(),
        model.bytes() as f64 / 1e6,
    );
    println!(
        "pass: median {:.3} ms (p10 {:.3}, p90 {:.3}); {:.0} rows/s; {:.1} GFLOP/s",
        at(0.5) * 1e3,
        at(0.1) * 1e3,
        at(0.9) * 1e3,
        rows as f64 / at(0.5),
        flops / at(0.5) / 1e9,
    );
    Ok(())
}
