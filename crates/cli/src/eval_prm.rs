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

use beamgen::eval::metrics::{FirstErrorF1, Interval, bootstrap_of, first_error, first_error_f1};
use beamgen::eval::quality::{Measure, ScoredChain};
use beamgen::eval::{GivenChain, GivenChains};
use beamgen::{Config, Scorer};
use beamgen_labels::Neutral;
use serde::Serialize;

use self::folder::{Calibrated, Outline};
use self::probes::SetProbes;
use crate::args::EvalPrmArgs;
use crate::failure::Failure;
use crate::output;
use crate::printable;
use crate::progress::Progress;
use crate::report::about::About;
use crate::score;
use crate::settings;
use crate::table::{Table, grouped, percent};

/// The scores of one chain beside its label.
struct Judged {
    /// The first wrong step, if there is one.
    label: Option<usize>,
    /// `None` if the model refused the chain. It then counts as a miss at every threshold.
    scores: Option<Vec<f32>>,
}

impl Judged {
    fn pair(&self, threshold: f32) -> (Option<usize>, Option<usize>) {
        let predicted = match &self.scores {
            Some(scores) => first_error(scores, threshold),
            // No step has this index, so the prediction equals neither a step nor "all right".
            None => Some(usize::MAX),
        };
        (self.label, predicted)
    }
}

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
}

pub fn main(args: &EvalPrmArgs) -> Result<(), Failure> {
    if !(0.0..=1.0).contains(&args.threshold) {
        return Err(Failure::Input(format!(
            "--threshold {}: scores are 0 to 1, give a number between",
            args.threshold
        )));
    }
    let report = match (&args.redraw, &args.report) {
        (Some(folder), _) => Some(folder::redraw(folder)?),
        (None, Some(folder)) => Some(reported(args, Some(folder))?),
        (None, None) if args.probes => Some(reported(args, None)?),
        (None, None) => None,
    };
    let (rows, is_scored) = match &report {
        Some(report) => first_errors(report),
        None => measured(args)?,
    };
    let threshold = rows.first().map_or(args.threshold, |row| row.threshold);
    let mut out = io::stdout().lock();
    let probes = |set: usize| report.as_ref()?.sets.get(set)?.probes.as_ref();
    for (set, row) in rows.iter().enumerate().filter(|_| args.json) {
        let probes = probes(set);
        output::json_line(&mut out, &JsonRow { row, probes })?;
    }
    if !args.json {
        let resampled = match report {
            Some(_) => "problems",
            None => "chains",
        };
        table(&rows, threshold).write(&mut out)?;
        writeln!(
            out,
            "\n  A score below {threshold} flags a step. on wrong: chains whose first wrong step is the first flagged one;\n  \
             on right: chains without a flag; F1: harmonic mean, 95 % interval over {resampled}.\n  \
             best: F1 at the threshold chosen on these very data, an upper bound."
        )?;
        for (set, row) in rows.iter().enumerate() {
            if let Some(probes) = probes(set) {
                terminal::write(&mut out, &row.data, probes)?;
            }
        }
        if let Some(folder) = args.report.as_ref().or(args.redraw.as_ref()) {
            let path = folder.join("report.md").display().to_string();
            writeln!(out, "  The whole report: {}", printable::line(&path))?;
        }
    }
    out.flush()?;
    match is_scored {
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

/// A row for each file, and whether the model could read any of the chains.
type Rows = (Vec<Measured>, bool);

/// Without a report.
fn measured(args: &EvalPrmArgs) -> Result<Rows, Failure> {
    let config = settings::prm_config(&args.prm)?;
    let mut sets = Vec::new();
    for path in &args.data {
        let mut chains = GivenChains::open(path)?;
        chains.require_labels()?;
        chains.chains.truncate(args.limit.unwrap_or(usize::MAX));
        sets.push(chains);
    }
    let problems = sets.iter().flat_map(GivenChains::problems);
    let mut model = settings::reward_model(config, problems)?;
    let total = sets.iter().map(|set| set.chains.len()).sum();
    let mut progress = Progress::new(total, "chains");
    let mut rows = Vec::new();
    for set in &sets {
        let mut judged = Vec::with_capacity(set.chains.len());
        judge(&mut *model, &set.chains, &mut progress, |chain, scores| {
            let label = chain.label.and_then(beamgen::eval::Label::first_error);
            judged.push(Judged { label, scores });
        })?;
        rows.push(measure(set.source.clone(), &judged, args.threshold));
    }
    let is_scored = rows.iter().any(|row| row.refused < row.chains);
    Ok((rows, is_scored))
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

/// A row for each file of a report, over the chains whose first error the labels tell. The interval
/// is the report's, over problems.
fn first_errors(report: &folder::Measured) -> Rows {
    let judged = |row: &ScoredChain| {
        Some(Judged {
            label: row.first_error()?,
            scores: row.scores.clone(),
        })
    };
    let outline = &report.outline;
    let sets = outline.sets.iter().zip(&report.sets).zip(&report.rows);
    let rows = sets.map(|((of, set), rows)| {
        let judged: Vec<Judged> = rows.iter().filter_map(judged).collect();
        let f1 = set.model.figures.get(Measure::FirstErrorF1);
        let interval = f1.and_then(|figure| figure.interval);
        Measured {
            f1_low: interval.map(|(low, _)| low),
            f1_high: interval.map(|(_, high)| high),
            ..measure(of.source.clone(), &judged, outline.threshold)
        }
    });
    let mut scored = report.rows.iter().flatten();
    (rows.collect(), scored.any(|row| row.scores.is_some()))
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

fn measure(data: String, judged: &[Judged], threshold: f32) -> Measured {
    let f1 = |chains: &mut dyn Iterator<Item = &Judged>, threshold| -> Option<FirstErrorF1> {
        first_error_f1(chains.map(|judged| judged.pair(threshold)))
    };
    let at = f1(&mut judged.iter(), threshold);
    let interval = at.and_then(|at| {
        let resampled = |drawn: &[usize]| {
            f1(&mut drawn.iter().map(|&i| &judged[i]), threshold).map_or(0.0, |f1| f1.f1)
        };
        let (low, high) = bootstrap_of(judged.len(), 0, resampled)?;
        let mean = at.f1;
        Some(Interval { mean, low, high })
    });
    // Published evaluations search for the threshold in steps of a hundredth, too.
    let best = (1..100)
        .map(|percent| percent as f32 / 100.0)
        .filter_map(|threshold| Some((threshold, f1(&mut judged.iter(), threshold)?.f1)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    Measured {
        data,
        chains: judged.len(),
        refused: judged.iter().filter(|j| j.scores.is_none()).count(),
        threshold,
        accuracy_on_wrong: hits(judged, threshold, true),
        accuracy_on_right: hits(judged, threshold, false),
        f1: at.map(|f1| f1.f1),
        f1_low: interval.map(|interval| interval.low),
        f1_high: interval.map(|interval| interval.high),
        best_threshold: best.map(|(threshold, _)| threshold),
        best_f1: best.map(|(_, f1)| f1),
    }
}

/// Accuracy on the chains with a wrong step, or on those without one: the share whose prediction
/// equals the label. `None` if there are no such chains.
fn hits(judged: &[Judged], threshold: f32, wrong: bool) -> Option<f64> {
    let side = || judged.iter().filter(|j| j.label.is_some() == wrong);
    let hits = side().filter(|judged| {
        let (label, predicted) = judged.pair(threshold);
        label == predicted
    });
    let all = side().count();
    (all > 0).then(|| hits.count() as f64 / all as f64)
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

    fn judged(label: Option<usize>, scores: Option<&[f32]>) -> Judged {
        Judged {
            label,
            scores: scores.map(<[f32]>::to_vec),
        }
    }

    #[test]
    fn refused_chains_are_misses_on_both_sides() {
        let set = [
            judged(Some(1), Some(&[0.9, 0.2])),
            judged(Some(0), None),
            judged(None, Some(&[0.9])),
            judged(None, None),
        ];
        let row = measure("x".into(), &set, 0.5);
        assert_eq!(row.refused, 2);
        assert_eq!(row.accuracy_on_wrong, Some(0.5));
        assert_eq!(row.accuracy_on_right, Some(0.5));
        assert_eq!(row.f1, Some(0.5));
    }

    #[test]
    fn the_best_threshold_is_searched() {
        let set = [
            judged(Some(1), Some(&[0.2, 0.05])),
            judged(None, Some(&[0.2])),
        ];
        let row = measure("x".into(), &set, 0.5);
        assert_eq!(row.f1, Some(0.0));
        assert_eq!(row.best_f1, Some(1.0));
        assert!(
            row.best_threshold
                .is_some_and(|t| (0.05..=0.2).contains(&t))
        );
    }

    #[test]
    fn one_kind_of_chains_alone_has_its_accuracy_and_no_f1() {
        let row = measure("x".into(), &[judged(None, Some(&[0.9]))], 0.5);
        assert_eq!((row.f1, row.best_f1), (None, None));
        assert_eq!(row.accuracy_on_wrong, None);
        assert_eq!(row.accuracy_on_right, Some(1.0));
    }
}
