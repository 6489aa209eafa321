//! Writes a model's outputs for given tokens, to compare them with another implementation's
//! (`benches/peers/agree.py`).
//!
//!     cargo run --release -p beamgen-engine --example logits -- MODEL DTYPE COMPUTE IDS OUT [hidden]
//!
//! `IDS` has a JSON array of token numbers on each line. `OUT` gets the logits of all positions
//! `[tokens, vocabulary]`, or with `hidden` the last hidden states `[tokens, hidden]`, as
//! little-endian float32, one line's after the other's.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use beamgen_engine::{
    Append, Compute, Engine, EngineConfig, Model, ModelConfig, Output, Precision, ThreadPool, Want,
};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, dtype, compute, ids, out, rest @ ..] = &args[..] else {
        return Err("use: logits MODEL DTYPE COMPUTE IDS OUT [hidden]".into());
    };
    let output = match rest {
        [] => Output::Logits,
        [word] if word == "hidden" => Output::Hidden,
        other => return Err(format!("{other:?}: use hidden, or nothing").into()),
    };
    let precision = Precision {
        weights: dtype.parse()?,
        compute: compute.parse()?,
    };
    let (config, weights) = ModelConfig::load_with_weights(Path::new(model))?;
    let pool = ThreadPool::new(0);
    let model = Model::on(&Compute::Cpu, config, &weights, precision, &pool)?;
    let mut engine = Engine::with_pool(Arc::new(model), EngineConfig::default(), pool)?;
    let mut out = BufWriter::new(File::create(out)?);
    for line in std::fs::read_to_string(ids)?.lines() {
        let tokens: Vec<u32> = serde_json::from_str(line)?;
        let seq = engine.create();
        let item = Append {
            seq,
            tokens: &tokens,
            want: Want::All,
        };
        let rows = engine.forward(&[item], output)?;
        for value in rows.iter().flatten() {
            out.write_all(&value.to_le_bytes())?;
        }
        engine.free(seq);
    }
    Ok(out.flush()?)
}
