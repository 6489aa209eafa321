//! Prints the effective settings in five lines before a run. Effective settings result from
//! defaults, files, flags and the values in checkpoints.

use std::io::{self, Write};

use beamgen::Config;
use beamgen::models::{KvType, MemoryPlan};

use crate::plan;
use crate::table::counted;

/// Writes the block. `config` is the loaded solver's, `chat` whether the generator has a chat
/// template.
pub(crate) fn write(
    out: &mut dyn Write,
    config: &Config,
    plan: &MemoryPlan,
    chat: bool,
) -> io::Result<()> {
    writeln!(out, "search    {}", search(config))?;
    writeln!(out, "sampling  {}", sampling(config))?;
    writeln!(out, "prompt    {}", prompt(config, chat))?;
    writeln!(out, "numbers   {}", numbers(config, plan))?;
    plan::write_line(out, plan)
}

fn search(config: &Config) -> String {
    let search = &config.search;
    let mut text = format!("{}, N {}", search.strategy, search.chains());
    if search.strategy.spec().uses_m {
        text += &format!(", M {}", search.m);
    }
    let scorer = if config.uses_scorer() {
        scorer(config)
    } else {
        "none".to_owned()
    };
    text += &format!(
        "; choose {}, aggregation {}, scorer {scorer}; at most {}",
        search.choosing(),
        search.aggregation,
        counted(search.max_steps, "step", "steps")
    );
    if search.budget_tokens > 0 {
        text += &format!(", {}", counted(search.budget_tokens, "token", "tokens"));
    }
    text
}

/// Formats the names of the scorer and its judges.
fn scorer(config: &Config) -> String {
    let (name, judges) = (config.models.scorer.name(), &config.models.judges);
    if judges.is_empty() {
        return name.to_owned();
    }
    let judges = judges.iter().map(|judge| judge.judge.display().to_string());
    let judges: Vec<String> = judges.collect();
    let rule = config.models.combine;
    format!("{name} with {} by {rule}", judges.join(", "))
}

fn sampling(config: &Config) -> String {
    let sampling = beamgen::program::sampling_params(config.generator.sampling);
    if config.search.strategy.spec().is_greedy {
        return "always the likeliest token, whatever the temperature".to_owned();
    }
    if sampling.temperature == 0.0 {
        return "always the likeliest token (temperature 0)".to_owned();
    }
    let mut text = format!("temperature {}", sampling.temperature);
    for (name, value, off) in [
        ("top-p", sampling.top_p, 1.0),
        ("min-p", sampling.min_p, 0.0),
        ("repetition penalty", sampling.repetition_penalty, 1.0),
    ] {
        if value == off {
            text += &format!(", {name} off");
        } else {
            text += &format!(", {name} {value}");
        }
    }
    match sampling.top_k {
        0 => text += ", top-k off",
        k => text += &format!(", top-k {k}"),
    }
    text + &format!("; seed {}", config.generator.seed)
}

fn prompt(config: &Config, chat: bool) -> String {
    let template = if chat {
        "the checkpoint's chat template"
    } else {
        "the problem's text, unchanged (the checkpoint has no chat template)"
    };
    let system = match &config.generator.system_prompt {
        None => "no system prompt".to_owned(),
        Some(text) => {
            let start: String = text.chars().take(40).collect();
            let more = if start.len() < text.len() { "..." } else { "" };
            format!("system prompt {start:?}{more}")
        }
    };
    format!("{template}; {system}")
}

fn numbers(config: &Config, plan: &MemoryPlan) -> String {
    let weights = plan.models.iter().map(|model| match model.weights {
        0 => format!("{} shares the generator's", model.role),
        _ => format!("{} {}", model.role, model.kept_as),
    });
    let weights: Vec<String> = weights.collect();
    let kv = match (config.engine.kv_dtype, plan.device.as_str()) {
        (KvType::Auto, "cpu") => "f32".to_owned(),
        (KvType::Auto, _) => "as the weights".to_owned(),
        (kv, _) => kv.to_string(),
    };
    let arithmetic = match plan.arithmetic {
        compute if compute.is_bf16() => format!("; arithmetic: {compute}"),
        _ => String::new(),
    };
    format!(
        "weights: {}{arithmetic}; keys and values: {kv}; device: {}",
        weights.join(", "),
        plan.device
    )
}
