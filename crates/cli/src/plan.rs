//! The memory plan, printed for people.

use std::io::{self, Write};

use beamgen::models::MemoryPlan;
pub(crate) use beamgen::program::human_size as size;

use crate::table::{Table, grouped};

/// Writes the totals of a memory plan in one line.
pub(crate) fn write_line(out: &mut dyn Write, plan: &MemoryPlan) -> io::Result<()> {
    let weights: u64 = plan.models.iter().map(|model| model.weights).sum();
    let buffers = plan.fixed() - weights;
    let (weights, buffers, kv) = (size(weights), size(buffers), size(plan.kv));
    let free = free(plan);
    writeln!(
        out,
        "memory    weights {weights}, buffers {buffers}, KV caches up to {kv} (--kv-memory){free}"
    )
}

fn free(plan: &MemoryPlan) -> String {
    match plan.available {
        Some(bytes) => format!(", {} are free", size(bytes)),
        None => String::new(),
    }
}

/// Writes a memory plan as a table with one row per model, and the totals. `thought` is the most
/// tokens of a thought before an answer.
pub(crate) fn write(
    out: &mut dyn Write,
    plan: &MemoryPlan,
    thought: Option<usize>,
) -> io::Result<()> {
    let mut table = Table::new(&[
        "memory",
        "weights",
        "buffers",
        "KV cache",
        "KV per token",
        "context",
    ]);
    for model in &plan.models {
        table.row(vec![
            format!("{} {}", model.role, model.name),
            match model.weights {
                0 => "shared".to_owned(),
                bytes => size(bytes),
            },
            size(model.buffers),
            match (model.role.as_str(), model.kv) {
                // The plan includes the cache of a reference model in its reward model's.
                ("reference", 0) => "the prm's".to_owned(),
                (role, 0) if role.ends_with(" reference") => "the judge's".to_owned(),
                (_, bytes) => size(bytes),
            },
            size(model.kv_per_token),
            grouped(model.context as u64),
        ]);
    }
    table.write(out)?;
    if plan.models.len() > 1 {
        let lends = if plan.lends {
            ": the prm may use what the generator leaves of its share"
        } else {
            ""
        };
        let kv = size(plan.kv);
        writeln!(out, "  KV caches together up to {kv} (--kv-memory){lends}")?;
    }
    let generator = plan.models.iter().find(|model| model.role == "generator");
    if let (Some(tokens), Some(generator)) = (thought, generator) {
        let kv = size(tokens as u64 * generator.kv_per_token);
        let tokens = grouped(tokens as u64);
        writeln!(
            out,
            "  thoughts of up to {tokens} tokens before an answer (--thinking-budget): {kv} of KV cache for a chain"
        )?;
    }
    let free = free(plan);
    writeln!(
        out,
        "  on {}: {} at least, {} at most{free}",
        plan.device,
        size(plan.fixed()),
        size(plan.most())
    )
}
