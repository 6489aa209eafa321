//! `beamgen train abacus`: makes the bundled models, shows how it goes, and evaluates them.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use beamgen::{
    Choose, Config, DeviceChoice, ExactScorer, Problem, ScorerKind, Solver, StrategyKind,
};
use beamgen_train::config::TrainConfig;
use beamgen_train::pipeline::{self, Evaluation, Folders, Report};
use beamgen_train::trainer::Progress;
use beamgen_train::{Error, candle_core::Device, evaluation};
use indicatif::{ProgressBar, ProgressStyle};

use super::failure;
use crate::args::{AbacusArgs, DeviceFlag};
use crate::failure::Failure;
use crate::output;
use crate::printable;
use crate::table::grouped;
use crate::write::write_file;

/// How often a line appears where there is no terminal.
const LINE: Duration = Duration::from_secs(20);

/// The largest settings file read.
const MAX_BYTES: u64 = 1 << 20;

pub fn main(args: &AbacusArgs) -> Result<(), Failure> {
    let config = config(args)?;
    let folders = Folders {
        out: args.out.clone(),
        work: args.out.join("work"),
    };
    if !args.resume && folders.work.join("config.json").exists() {
        return Err(failure(Error::EarlierRun(folders.work)));
    }
    let device = device(args.device)?;
    let mut display = Display::new();
    let evaluation = pipeline::train(&config, &folders, &device, &mut |report| {
        display.show(&report)
    })
    .map_err(failure)?;
    display.end();
    let searches = searches(
        &config,
        &folders.out,
        args.evaluation_problems
            .unwrap_or(config.evaluation_problems),
    )?;
    report(&config, &folders.out, &evaluation, &searches)
}

fn config(args: &AbacusArgs) -> Result<TrainConfig, Failure> {
    let mut config = match (&args.config, args.quick) {
        (Some(path), _) => {
            let text = beamgen_files::read_text_file(path, MAX_BYTES)
                .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
            toml::from_str(&text).map_err(|error| {
                let before = error
                    .span()
                    .map_or("", |span| text.get(..span.start).unwrap_or(""));
                let line = before.matches('\n').count() + 1;
                let reason = error.message();
                Failure::Input(format!("{}:{line}: {reason}", path.display()))
            })?
        }
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

/// Problems that the search with the PRM is measured on, at most: it reads 64 chains of each.
const SEARCHED_WITH_PRM: usize = 250;

/// What the search makes of the fresh models on held-out problems.
struct Searches {
    /// With the exact checker as scorer: the ceiling of any reward model.
    exact_problems: usize,
    exact_beam_16: f64,
    exact_best_of_16: f64,
    /// With the PRM. More chains find more of what it wrongly takes for right.
    prm_problems: usize,
    prm_beam_16: f64,
    prm_best_of_16: f64,
    prm_best_of_64: f64,
    prm_weighted_64: f64,
}

fn searches(config: &TrainConfig, out: &Path, count: usize) -> Result<Searches, Failure> {
    let problems: Vec<Problem> =
        evaluation::held_out(config.seed ^ 0x0a11, count, config.difficulty)
            .iter()
            .enumerate()
            .map(|(i, p)| Problem {
                id: i.to_string(),
                text: p.text(),
                answer: Some(p.answer().to_string()),
            })
            .collect();
    let fewer = &problems[..count.min(SEARCHED_WITH_PRM)];
    let solved = |scorer, strategy, choose, n| -> Result<f64, Failure> {
        let mut search = Config::default();
        search.engine.device = DeviceChoice::Cpu;
        search.models.generator = Some(out.join("generator"));
        search.models.scorer = scorer;
        search.search.strategy = strategy;
        search.search.choose = Some(choose);
        search.search.n = n;
        let (solver, problems) = match scorer {
            ScorerKind::Exact => (
                Solver::builder().custom_scorer("exact", ExactScorer::default()),
                &problems[..],
            ),
            _ => {
                search.models.prm = Some(out.join("prm"));
                (Solver::builder(), fewer)
            }
        };
        let mut solver = solver.config(search).build()?;
        let mut right = 0usize;
        solver.solve_all(problems.iter().cloned(), |result| {
            right += usize::from(result.answer.is_some() && result.answer == result.problem.answer);
        })?;
        Ok(right as f64 / problems.len().max(1) as f64)
    };
    use {Choose::*, ScorerKind::*};
    const BEAM: StrategyKind = StrategyKind::BEAM;
    const BEST_OF_N: StrategyKind = StrategyKind::BEST_OF_N;
    Ok(Searches {
        exact_problems: problems.len(),
        exact_beam_16: solved(Exact, BEAM, Best, 16)?,
        exact_best_of_16: solved(Exact, BEST_OF_N, Best, 16)?,
        prm_problems: fewer.len(),
        prm_beam_16: solved(Prm, BEAM, Best, 16)?,
        prm_best_of_16: solved(Prm, BEST_OF_N, Best, 16)?,
        prm_best_of_64: solved(Prm, BEST_OF_N, Best, 64)?,
        prm_weighted_64: solved(Prm, BEST_OF_N, Weighted, 64)?,
    })
}

fn report(
    config: &TrainConfig,
    out: &Path,
    evaluation: &Evaluation,
    searches: &Searches,
) -> Result<(), Failure> {
    let mut json = serde_json::to_value(evaluation)
        .context("evaluation")
        .map_err(Failure::Run)?;
    json["exact"] = serde_json::json!({
        "problems": searches.exact_problems,
        "beam_16": searches.exact_beam_16,
        "best_of_16": searches.exact_best_of_16,
    });
    json["prm_search"] = serde_json::json!({
        "problems": searches.prm_problems,
        "beam_16": searches.prm_beam_16,
        "best_of_16": searches.prm_best_of_16,
        "best_of_64": searches.prm_best_of_64,
        "weighted_64": searches.prm_weighted_64,
    });
    json["config"] = serde_json::to_value(config)
        .context("configuration")
        .map_err(Failure::Run)?;
    let path = out.join("evaluation.json");
    let text = serde_json::to_string_pretty(&json)
        .context("evaluation")
        .map_err(Failure::Run)?;
    write_file(&path, (text + "\n").as_bytes())?;

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
        percent(searches.exact_beam_16)
    )?;
    writeln!(
        o,
        "  exact checker as scorer, best of 16     {}",
        percent(searches.exact_best_of_16)
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
        searches.prm_problems,
        percent(searches.prm_beam_16),
        percent(searches.prm_best_of_16),
        percent(searches.prm_best_of_64),
        percent(searches.prm_weighted_64)
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

/// A bar on a terminal, now and then a line elsewhere; all on stderr.
struct Display {
    bar: Option<ProgressBar>,
    shown: Instant,
}

impl Display {
    fn new() -> Self {
        Self {
            bar: None,
            shown: Instant::now(),
        }
    }

    fn show(&mut self, report: &Report<'_>) {
        match report {
            Report::Stage(name) => {
                self.end();
                output::note(name);
            }
            Report::Step(progress) => self.step(progress),
        }
    }

    fn step(&mut self, p: &Progress<'_>) {
        let rate = grouped(p.tokens_per_second as u64);
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| {
                let bar = ProgressBar::new(p.steps as u64);
                if let Ok(style) =
                    ProgressStyle::with_template("  {bar:30} {pos}/{len}  {wide_msg}")
                {
                    bar.set_style(style);
                }
                bar
            });
            bar.set_position(p.step as u64);
            let left = Duration::from_secs(p.seconds_left as u64);
            bar.set_message(format!(
                "loss {:.4}  {rate} tokens/s  {left:?} left",
                p.loss
            ));
        } else if self.shown.elapsed() > LINE || p.step == p.steps {
            self.shown = Instant::now();
            output::note(format_args!(
                "  {} {}/{}  loss {:.4}  {rate} tokens/s  {:.0} s left",
                p.stage, p.step, p.steps, p.loss, p.seconds_left
            ));
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
