//! `beamgen train abacus`: trains the bundled models from scratch, then measures them.

use std::io::Write;
use std::path::Path;

use beamgen::models::DeviceChoice;
use beamgen::scorer::ScorerKind;
use beamgen::{Choose, Config, Problem, Solver, StrategyKind};
use beamgen_train::abacus::config::TrainConfig;
use beamgen_train::abacus::{self, Evaluation, evaluation};
use beamgen_train::{Error, candle_core::Device};
use serde::Serialize;

use super::display::Display;
use super::failure;
use crate::args::{AbacusArgs, DeviceFlag};
use crate::bench::file::parse;
use crate::failure::Failure;
use crate::printable;
use crate::write::{failed, read_text};

pub(super) fn main(args: &AbacusArgs) -> Result<(), Failure> {
    let config = config(args)?;
    let work = args.out.join("work");
    if !args.resume && work.join("config.json").exists() {
        return Err(failure(Error::EarlierRun(work)));
    }
    let device = device(args.device)?;
    let mut display = Display::default();
    let evaluation = abacus::train(&config, &args.out, &device, &mut |report| {
        display.show(&report);
    })
    .map_err(failure)?;
    let searches = searches(&config, &args.out, config.evaluation_problems)?;
    report(&config, &args.out, &evaluation, &searches)
}

fn config(args: &AbacusArgs) -> Result<TrainConfig, Failure> {
    let mut config = match (&args.config, args.quick) {
        (Some(path), _) => parse(path, &read_text(path)?)?,
        (None, true) => TrainConfig::quick(),
        (None, false) => TrainConfig::default(),
    };
    if let Some(seed) = args.seed {
        config.seed = seed;
    }
    if let Some(count) = args.evaluation_problems {
        config.evaluation_problems = count;
    }
    config
        .check()
        .map_err(|error| Failure::Input(error.to_string()))?;
    Ok(config)
}

fn device(wanted: DeviceFlag) -> Result<Device, Failure> {
    match wanted {
        DeviceFlag::Cpu => Ok(Device::Cpu),
        DeviceFlag::Cuda => Device::new_cuda(0).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().next().unwrap_or_default();
            Failure::Input(format!(
                "--device cuda: {reason} (build with --no-default-features --features train-cuda on a machine with a GPU)"
            ))
        }),
    }
}

/// The maximum number of problems for searches with the PRM, which sample up to 64 chains for each.
const SEARCHED_WITH_PRM: usize = 250;

/// Accuracies of the trained generator with the exact checker as the scorer. No reward model can
/// reach more.
#[derive(Serialize)]
struct ExactSearches {
    problems: usize,
    beam_16: f64,
    best_of_16: f64,
}

/// Accuracies with the PRM as the scorer. More chains are not always better, because they include
/// more wrong answers that the PRM scores high.
#[derive(Serialize)]
struct PrmSearches {
    problems: usize,
    beam_16: f64,
    best_of_16: f64,
    best_of_64: f64,
    weighted_64: f64,
}

fn searches(
    config: &TrainConfig,
    out: &Path,
    count: usize,
) -> Result<(ExactSearches, PrmSearches), Failure> {
    use {Choose::*, ScorerKind::*};
    const BEAM: StrategyKind = StrategyKind::BEAM;
    const BEST_OF_N: StrategyKind = StrategyKind::BEST_OF_N;
    let problems: Vec<Problem> =
        evaluation::held_out(config.seed ^ 0x0a11, count, config.difficulty)
            .iter()
            .enumerate()
            .map(|(i, p)| Problem {
                id: i.to_string(),
                text: p.text(),
                answer: Some(p.answer().to_string()),
                ..Problem::default()
            })
            .collect();
    let fewer = &problems[..count.min(SEARCHED_WITH_PRM)];
    let solved = |scorer, strategy, choose, n| -> Result<f64, Failure> {
        let mut search = Config::default();
        // `auto` would choose a CUDA device, since these models are not bundled; but they are as
        // small, and faster on the CPU.
        search.engine.device = DeviceChoice::Cpu;
        search.models.generator = Some(out.join("generator"));
        search.models.scorer = scorer;
        search.search.strategy = strategy;
        search.search.choose = Some(choose);
        search.search.n = n;
        let mut problems = &problems[..];
        if scorer == ScorerKind::Prm {
            search.models.prm = Some(out.join("prm"));
            problems = fewer;
        }
        let mut solver = Solver::builder().config(search).build()?;
        let mut right = 0usize;
        solver.solve_all(problems.iter().cloned(), |result| {
            right += usize::from(result.answer.is_some() && result.answer == result.problem.answer);
        })?;
        Ok(right as f64 / problems.len().max(1) as f64)
    };
    let exact = ExactSearches {
        problems: problems.len(),
        beam_16: solved(Exact, BEAM, Best, 16)?,
        best_of_16: solved(Exact, BEST_OF_N, Best, 16)?,
    };
    let prm = PrmSearches {
        problems: fewer.len(),
        beam_16: solved(Prm, BEAM, Best, 16)?,
        best_of_16: solved(Prm, BEST_OF_N, Best, 16)?,
        best_of_64: solved(Prm, BEST_OF_N, Best, 64)?,
        weighted_64: solved(Prm, BEST_OF_N, Weighted, 64)?,
    };
    Ok((exact, prm))
}

fn report(
    config: &TrainConfig,
    out: &Path,
    evaluation: &Evaluation,
    (exact, prm): &(ExactSearches, PrmSearches),
) -> Result<(), Failure> {
    let unwritable = |error: serde_json::Error| Failure::Run(error.into());
    let mut json = serde_json::to_value(evaluation).map_err(unwritable)?;
    json["exact"] = serde_json::to_value(exact).map_err(unwritable)?;
    json["prm_search"] = serde_json::to_value(prm).map_err(unwritable)?;
    json["config"] = serde_json::to_value(config).map_err(unwritable)?;
    let path = out.join("evaluation.json");
    beamgen_files::write_json(&path, &json).map_err(|error| failed(&path, error))?;

    let percent = |x: f64| format!("{:5.1} %", 100.0 * x);
    let mut o = std::io::stdout().lock();
    writeln!(
        o,
        "Evaluation on {} held-out problems",
        evaluation.generator_greedy.problems
    )?;
    writeln!(
        o,
        "  generator, one sample at temperature 1  {}   (lines {})",
        percent(evaluation.sample_accuracy),
        percent(evaluation.sample_line_accuracy)
    )?;
    writeln!(
        o,
        "  generator, greedy                       {}",
        percent(evaluation.generator_greedy.solved)
    )?;
    writeln!(
        o,
        "  base model before its noisy solutions, greedy       {}   (lines {})",
        percent(evaluation.base_greedy.solved),
        percent(evaluation.base_greedy.lines)
    )?;
    writeln!(
        o,
        "  exact checker as scorer, beam 16        {}",
        percent(exact.beam_16)
    )?;
    writeln!(
        o,
        "  exact checker as scorer, best of 16     {}",
        percent(exact.best_of_16)
    )?;
    writeln!(
        o,
        "  PRM, area under ROC over lines           {:.4}   (generator's log-probability {:.4})",
        evaluation.prm.auc, evaluation.prm.auc_log_probability
    )?;
    for kind in &evaluation.prm_by_kind {
        writeln!(
            o,
            "    {:<20} {:>5} lines   caught {}   AUC {:.4}   log-probability {:.4}",
            kind.kind,
            kind.lines,
            percent(kind.caught),
            kind.auc,
            kind.auc_log_probability
        )?;
    }
    writeln!(
        o,
        "  PRM, first-error F1                     {}   (found {}, clean {})",
        percent(evaluation.prm.f1),
        percent(evaluation.prm.found),
        percent(evaluation.prm.clean)
    )?;
    writeln!(
        o,
        "  PRM as scorer, on {} of the problems      beam 16 {}   best of 16 {}   best of 64 {}   weighted vote of 64 {}",
        prm.problems,
        percent(prm.beam_16),
        percent(prm.best_of_16),
        percent(prm.best_of_64),
        percent(prm.weighted_64)
    )?;
    writeln!(
        o,
        "  ORM, area under ROC over chains          {:.4}",
        evaluation.orm_auc
    )?;
    let written = out.join("{generator,prm,orm}").display().to_string();
    writeln!(o, "Written: {}", printable::line(&written))?;
    Ok(o.flush()?)
}
