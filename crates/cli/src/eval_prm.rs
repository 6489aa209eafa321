//! `beamgen eval-prm`: how well a reward model finds the first wrong step, as ProcessBench measures
//! it, and in a report of much more; with probes, how it can be gamed.

mod data;
mod folder;
mod markdown;
mod plots;
mod probes;
mod results;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::Path;

use beamgen::eval::GivenChain;
use beamgen::eval::quality::{Measure, OverProblems, ScoredChain};
use beamgen::{Config, Scorer};
use beamgen_labels::Neutral;
use serde::Serialize;

use self::folder::{Calibrated, Outline};
use self::probes::SetProbes;
use self::results::SetReport;
use crate::args::EvalPrmArgs;
use crate::failure::Failure;
use crate::output;
use crate::printable;
use crate::progress::Progress;
use crate::report::about::About;
use crate::score;
use crate::settings;
use crate::table::{Table, grouped, percent};

/// One file's row.
#[derive(Serialize)]
struct Measured {
    data: String,
    chains: usize,
    /// Chains too long for the model; each counts as a miss.
    refused: usize,
    threshold: f32,
    accuracy_on_wrong: Option<f64>,
    accuracy_on_right: Option<f64>,
    f1: Option<f64>,
    f1_low: Option<f64>,
    f1_high: Option<f64>,
    /// The threshold with the highest F1 on these data, and that F1. As the threshold is chosen on
    /// the data that it is measured on, this is an upper bound and not a result.
    best_threshold: Option<f32>,
    best_f1: Option<f64>,
    /// Chains of the problem that has most.
    largest: usize,
    /// Means of the figures over problems.
    over_problems: OverProblems,
}

pub fn main(args: &EvalPrmArgs) -> Result<(), Failure> {
    if !(0.0..=1.0).contains(&args.threshold) {
        return Err(Failure::Input(format!(
            "--threshold {}: scores are 0 to 1, give a number between",
            args.threshold
        )));
    }
    let report = match &args.redraw {
        Some(folder) => folder::redraw(folder)?,
        None => reported(args, args.report.as_deref())?,
    };
    let threshold = report.outline.threshold;
    let rows = rows(&report);
    let mut out = io::stdout().lock();
    for (row, set) in rows.iter().zip(&report.sets).filter(|_| args.json) {
        let probes = set.probes.as_ref();
        output::json_line(&mut out, &JsonRow { row, probes })?;
    }
    if !args.json {
        table(&rows, threshold).write(&mut out)?;
        writeln!(
            out,
            "\n  A score below {threshold} flags a step. on wrong: chains whose first wrong step is the first flagged one;\n  \
             on right: chains without a flag; F1: harmonic mean, 95 % interval over problems.\n  \
             best: F1 at the threshold chosen on these very data, an upper bound."
        )?;
        for (row, set) in rows.iter().zip(&report.sets) {
            if let Some(lopsided) = set.lopsided() {
                writeln!(out, "  {}: {lopsided}.", printable::line(&row.data))?;
            }
            if let Some(probes) = &set.probes {
                terminal::write(&mut out, &row.data, probes)?;
            }
        }
        if let Some(folder) = args.report.as_ref().or(args.redraw.as_ref()) {
            let path = folder.join("report.md").display().to_string();
            writeln!(out, "  The whole report: {}", printable::line(&path))?;
        }
    }
    out.flush()?;
    let mut scored = report.rows.iter().flatten();
    match scored.any(|row| row.scores.is_some()) {
        true => Ok(()),
        false => {
            let message = "the reward model could not read any of the chains, see above";
            Err(Failure::Run(anyhow::anyhow!(message)))
        }
    }
}

/// A row as it is printed with `--json`.
#[derive(Serialize)]
struct JsonRow<'a> {
    #[serde(flatten)]
    row: &'a Measured,
    #[serde(flatten)]
    probes: Option<&'a SetProbes>,
}

/// Scores the files, with the probes if they are asked for, and writes their report if there is a
/// folder for it.
fn reported(args: &EvalPrmArgs, folder: Option<&Path>) -> Result<folder::Measured, Failure> {
    let config = settings::prm_config(&args.prm)?;
    let rule = args.labels.rule(Neutral::Positive);
    let mut sets = data::open(&args.data, args.limit, rule)?;
    let calibration = calibration(args, &config)?;
    if let Some(folder) = folder {
        folder::create(folder)?;
    }
    let outline = Outline {
        model: score::scorer(&config),
        threshold: args.threshold,
        rule,
        probes: args
            .probes
            .then(|| args.aggregation.unwrap_or(config.search.aggregation)),
        sets: sets.iter().map(|set| set.outline.clone()).collect(),
        calibration,
    };
    let problems = sets.iter().flat_map(|set| &set.chains);
    let problems = problems.map(|chain| chain.problem.as_str());
    let mut reward_model = settings::reward_model(config, problems)?;
    let total = sets.iter().map(|set| set.chains.len()).sum();
    let mut progress = Progress::new(total, "chains");
    for set in &mut sets {
        let mut rows = set.rows.iter_mut();
        judge(
            &mut *reward_model,
            &set.chains,
            &mut progress,
            |_, scores| {
                if let Some(row) = rows.next() {
                    row.scores = scores;
                }
            },
        )?;
    }
    drop(progress);
    let probes = match args.probes {
        true => probes::score(&mut *reward_model, &sets)?,
        false => Vec::new(),
    };
    let rows = folder::Rows {
        sets: sets.into_iter().map(|set| set.rows).collect(),
        probes,
    };
    match folder {
        Some(folder) => folder::write(folder, &About::this(), &outline, rows),
        None => Ok(folder::measured(outline, rows)),
    }
}

/// The calibration that was named, or lies beside the reward model.
fn calibration(args: &EvalPrmArgs, config: &Config) -> Result<Option<Calibrated>, Failure> {
    let models = &config.models;
    let named = args.calibration.as_ref().or(models.calibration.as_ref());
    let beside = models.prm.as_ref().map(|prm| prm.join("calibration.json"));
    let path = named.cloned().or(beside.filter(|path| path.is_file()));
    let Some(path) = path else { return Ok(None) };
    let read = crate::calibrate::open(&path)?;
    Ok(Some(Calibrated {
        name: path.display().to_string(),
        policy: read.policy,
        aggregation: read.aggregation,
        map: read.map,
    }))
}

/// A row for each file, over the chains whose first error the labels tell.
fn rows(report: &folder::Measured) -> Vec<Measured> {
    let outline = &report.outline;
    let sets = outline.sets.iter().zip(&report.sets).zip(&report.rows);
    sets.map(|((of, set), rows)| Measured::of(&of.source, set, rows, outline.threshold))
        .collect()
}

impl Measured {
    fn of(source: &str, set: &SetReport, rows: &[ScoredChain], threshold: f32) -> Self {
        let judged = || rows.iter().filter(|row| row.first_error().is_some());
        let figure = |of| set.model.figures.get(of);
        let f1 = figure(Measure::FirstErrorF1);
        let interval = f1.and_then(|figure| figure.interval);
        let best = set.model.best_first_error_f1;
        Self {
            data: source.to_owned(),
            chains: judged().count(),
            refused: judged().filter(|row| row.scores.is_none()).count(),
            threshold,
            accuracy_on_wrong: figure(Measure::OnWrong).map(|figure| figure.value),
            accuracy_on_right: figure(Measure::OnRight).map(|figure| figure.value),
            f1: f1.map(|figure| figure.value),
            f1_low: interval.map(|(low, _)| low),
            f1_high: interval.map(|(_, high)| high),
            best_threshold: best.map(|best| best.threshold),
            best_f1: best.map(|best| best.value),
            largest: set.counts.largest,
            over_problems: set.over_problems,
        }
    }
}

/// Scores chains in order; `each` gets the scores, or `None` for a chain that the model refused.
fn judge(
    model: &mut dyn Scorer,
    chains: &[GivenChain],
    progress: &mut Progress,
    mut each: impl FnMut(&GivenChain, Option<Vec<f32>>),
) -> Result<(), Failure> {
    score::each(model, chains, |chain, scores| {
        if let Err(error) = &scores {
            progress.aside(|| output::note(format_args!("beamgen: chain {}: {error}", chain.id)));
        }
        progress.done(None);
        each(chain, scores.ok());
        Ok(())
    })
}

fn table(rows: &[Measured], threshold: f32) -> Table {
    let f1 = format!("F1 at {threshold}");
    let mut table = Table::new(&[
        "data", "chains", "refused", "on wrong", "on right", &f1, "95 %", "best",
    ]);
    let share = |share: Option<f64>| share.map_or("-".to_owned(), percent);
    for row in rows {
        let interval = match (row.f1_low, row.f1_high) {
            (Some(low), Some(high)) => format!("{:.1}-{:.1}", 100.0 * low, 100.0 * high),
            _ => "-".to_owned(),
        };
        let best = match (row.best_f1, row.best_threshold) {
            (Some(f1), Some(threshold)) => format!("{} at {threshold}", percent(f1)),
            _ => "-".to_owned(),
        };
        table.row(vec![
            row.data.clone(),
            grouped(row.chains as u64),
            grouped(row.refused as u64),
            share(row.accuracy_on_wrong),
            share(row.accuracy_on_right),
            share(row.f1),
            interval,
            best,
        ]);
    }
    table
}

#[cfg(test)]
mod table_tests {
    use super::*;

    /// Each chain of a problem of its own: the first wrong step, if any, and its scores.
    fn measured(chains: &[(Option<usize>, Option<&[f32]>)]) -> Measured {
        let row = |(problem, &(wrong, scores)): (usize, &(Option<usize>, Option<&[f32]>))| {
            let steps = scores.map_or(2, <[f32]>::len);
            let label = |at| Some(f64::from(u8::from(wrong != Some(at))));
            ScoredChain {
                problem: problem as u32,
                labels: (0..steps).map(label).collect(),
                scores: scores.map(<[f32]>::to_vec),
                lengths: vec![1; steps],
                ..ScoredChain::default()
            }
        };
        let rows: Vec<ScoredChain> = chains.iter().enumerate().map(row).collect();
        Measured::of("x", &SetReport::of("x", &rows, 0.5, None), &rows, 0.5)
    }

    #[test]
    fn refused_chains_are_misses_on_both_sides() {
        let row = measured(&[
            (Some(1), Some(&[0.9, 0.2])),
            (Some(0), None),
            (None, Some(&[0.9])),
            (None, None),
        ]);
        assert_eq!(row.refused, 2);
        assert_eq!(row.accuracy_on_wrong, Some(0.5));
        assert_eq!(row.accuracy_on_right, Some(0.5));
        assert_eq!(row.f1, Some(0.5));
    }

    #[test]
    fn the_best_threshold_is_searched() {
        let row = measured(&[(Some(1), Some(&[0.2, 0.05])), (None, Some(&[0.2]))]);
        assert_eq!(row.f1, Some(0.0));
        assert_eq!(row.best_f1, Some(1.0));
        assert!(
            row.best_threshold
                .is_some_and(|t| (0.05..=0.2).contains(&t))
        );
    }

    #[test]
    fn one_kind_of_chains_alone_has_its_accuracy_and_no_f1() {
        let row = measured(&[(None, Some(&[0.9]))]);
        assert_eq!((row.f1, row.best_f1), (None, None));
        assert_eq!(row.accuracy_on_wrong, None);
        assert_eq!(row.accuracy_on_right, Some(1.0));
    }
}
