//! `beamgen calibrate`: from a reward model's scores to probabilities of success.

mod data;
mod plots;
mod risk;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use beamgen::eval::calibrate::{
    Calibration, HeadSample, HeldOut, LEVELS, Quality, QuantileHead, Quantiles, Sample, VERSION,
    so_far,
};
use beamgen::eval::quality::{Binning, Figures, Measure, ScoredChain, View};
use beamgen::{Aggregation, ScorerKind, StepReading};

use self::data::{Chains, Chosen};
use crate::args::CalibrateArgs;
use crate::failure::Failure;
use crate::output;
use crate::printable;
use crate::progress::Progress;
use crate::report::write::{Output, create_folder};
use crate::score;
use crate::settings;
use crate::table::{Table, grouped};

/// The seed of the split and of the bootstrap.
const SEED: u64 = 0;

pub fn main(args: &CalibrateArgs) -> Result<(), Failure> {
    if !(args.held_out > 0.0 && args.held_out < 1.0) {
        return Err(Failure::Input(format!(
            "--held-out {}: give a share between 0 and 1",
            args.held_out
        )));
    }
    let path = out(args)?;
    let mut to = Output::open(&path)?;
    if let Some(folder) = &args.plots {
        create_folder(folder)?;
    }
    let text = match args.data.is_empty() {
        true => read_text(&path)?,
        false => fit(args, &path, &mut to)?,
    };
    match args.runs.is_empty() {
        true => Ok(()),
        false => risk::add(args, &path, parse(&path, &text)?, &mut to),
    }
}

/// Where the calibration is written.
fn out(args: &CalibrateArgs) -> Result<PathBuf, Failure> {
    let config = settings::prm_config(&args.prm)?;
    match (&args.out, &config.models.prm) {
        (Some(out), _) => Ok(out.clone()),
        (None, Some(prm)) if prm.is_dir() => Ok(prm.join("calibration.json")),
        (None, _) => Err(Failure::Input(
            "the reward model is no folder of yours: say where the calibration goes with --out FILE"
                .to_owned(),
        )),
    }
}

/// The largest file of a calibration that is read.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a calibration.
pub fn open(path: &Path) -> Result<Calibration, Failure> {
    parse(path, &read_text(path)?)
}

fn read_text(path: &Path) -> Result<String, Failure> {
    beamgen_files::read_text_file(path, MAX_BYTES)
        .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

fn parse(path: &Path, text: &str) -> Result<Calibration, Failure> {
    Calibration::parse(text)
        .map_err(|reason| Failure::Input(format!("{}: {reason}", path.display())))
}

/// Writes a calibration, and returns its text.
fn write(out: &mut Output, calibration: &Calibration) -> Result<String, Failure> {
    let text = serde_json::to_string(calibration).map_err(|error| Failure::Run(error.into()))?;
    let text = text + "\n";
    out.write(text.as_bytes())?;
    Ok(text)
}

/// What the reward model says of a chain: the score and the hidden state of each step. The hidden
/// states are missing where they are not read in this process.
struct Read {
    scores: Vec<f32>,
    /// The lowest score up to each step.
    lowest: Vec<f32>,
    /// The score of the chain so far that the map takes.
    so_far: Vec<f32>,
    hidden: Vec<Vec<f32>>,
}

impl Read {
    fn quantiles(&self, head: &QuantileHead, at: usize) -> Quantiles {
        head.apply(&self.hidden[at], self.scores[at], self.lowest[at])
    }
}

/// Fits a calibration and writes it; the text is returned.
fn fit(args: &CalibrateArgs, path: &Path, to: &mut Output) -> Result<String, Failure> {
    let config = settings::prm_config(&args.prm)?;
    // An outcome model is read at the end of a chain alone, as in a search.
    let aggregation = match config.models.scorer {
        ScorerKind::Orm => Aggregation::Last,
        _ => args.aggregation,
    };
    let chosen = data::open(args)?;
    let (reads, prm) = read(config, &chosen, aggregation)?;
    let [fitted, held] = chosen.parts(args.held_out, SEED);
    let samples = samples(&fitted, &reads);
    let map = args.method.fit(&samples);
    let map = map.ok_or_else(|| {
        Failure::Input("no step of the data has both a label and a score".to_owned())
    })?;
    let quantiles = QuantileHead::fit(&head_samples(&fitted, &reads));
    let figures = |score: &dyn Fn(&Read, usize) -> f32| {
        let rows = rows(&held, &reads, score);
        View::new(&rows, 0.5, |_| true)
    };
    let before = figures(&|read, at| read.so_far[at]);
    let after = figures(&|read, at| map.apply(read.so_far[at]));
    let median = quantiles
        .as_ref()
        .map(|head| figures(&|read, at| read.quantiles(head, at)[1]));
    let at_or_below = quantiles.as_ref().map(|head| coverage(&held, &reads, head));
    let counts = before.counts();
    let scores = match aggregation {
        Aggregation::Last => "scores",
        _ => "lowest scores so far",
    };
    let tables: Vec<(&str, &View)> = [(scores, &before), (args.method.name(), &after)]
        .into_iter()
        .chain(median.as_ref().map(|view| ("median", view)))
        .collect();
    let measured: Vec<(&str, Figures)> = tables
        .iter()
        .map(|(name, view)| (*name, view.figures(SEED)))
        .collect();
    let quality = |at: usize| {
        let of = |measure| {
            measured[at]
                .1
                .get(measure)
                .map_or(0.0, |figure| figure.value)
        };
        Quality {
            brier: of(Measure::Brier),
            ece: of(Measure::EceMass),
        }
    };
    let calibration = Calibration {
        beamgen_calibration: VERSION,
        prm,
        policy: chosen.policy.clone(),
        data: beamgen::eval::calibrate::Data {
            fingerprint: chosen.fingerprint.clone(),
            problems: data::problems(&fitted),
            steps: samples.len(),
        },
        method: args.method,
        aggregation,
        map,
        held_out: HeldOut {
            problems: counts.problems,
            steps: counts.steps,
            before: quality(0),
            after: quality(1),
            median: median.is_some().then(|| quality(2)),
            at_or_below,
        },
        quantiles,
        answers: Vec::new(),
    };
    let text = write(to, &calibration)?;
    if let Some(folder) = &args.plots {
        let bins = |view: &View| view.calibration(Binning::EqualMass, SEED);
        let series = tables
            .iter()
            .map(|(name, view)| ((*name).to_owned(), bins(view)));
        plots::reliability(folder, series.collect())?;
    }
    show(args, path, &calibration, &measured)?;
    Ok(text)
}

fn show(
    args: &CalibrateArgs,
    path: &Path,
    calibration: &Calibration,
    measured: &[(&str, Figures)],
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if args.json {
        let figures: serde_json::Map<String, serde_json::Value> = measured
            .iter()
            .map(|(name, figures)| ((*name).to_owned(), serde_json::json!(figures)))
            .collect();
        let line = serde_json::json!({
            "policy": calibration.policy, "data": calibration.data, "held_out": calibration.held_out,
            "figures": figures,
        });
        output::json_line(&mut out, &line)?;
        return Ok(out.flush()?);
    }
    let held = &calibration.held_out;
    writeln!(
        out,
        "policy {}: fitted to {} steps of {} problems, held out {} steps of {} problems\n",
        printable::line(&calibration.policy.to_string()),
        grouped(calibration.data.steps as u64),
        grouped(calibration.data.problems as u64),
        grouped(held.steps as u64),
        grouped(held.problems as u64),
    )?;
    let mut table = Table::new(&[
        "held out",
        "Brier",
        "95 %",
        "ECE, equal mass",
        "95 %",
        "ECE, equal width",
        "95 %",
    ]);
    for (name, figures) in measured {
        let mut row = vec![(*name).to_owned()];
        for measure in [Measure::Brier, Measure::EceMass, Measure::EceWidth] {
            let figure = figures.get(measure);
            let interval = figure.and_then(|figure| figure.interval);
            row.push(figure.map_or("-".to_owned(), |figure| format!("{:.4}", figure.value)));
            row.push(interval.map_or("-".to_owned(), |(low, high)| format!("{low:.4}-{high:.4}")));
        }
        table.row(row);
    }
    table.write(&mut out)?;
    if let Some(shares) = held.at_or_below {
        let shares = LEVELS.iter().zip(shares);
        let shares =
            shares.map(|(level, share)| format!("{:.0} %: {:.1} %", level * 100.0, share * 100.0));
        let shares: Vec<String> = shares.collect();
        writeln!(
            out,
            "\n  targets at or below the quantiles: {}",
            shares.join(", ")
        )?;
    }
    writeln!(
        out,
        "  intervals over problems; written to {}",
        printable::line(&path.display().to_string())
    )?;
    Ok(out.flush()?)
}

/// Scores all chains; the reward model's fingerprint is the second value.
fn read(
    config: beamgen::Config,
    chosen: &Chosen,
    aggregation: Aggregation,
) -> Result<(Vec<Option<Read>>, String), Failure> {
    let seen: Arc<Mutex<Vec<Vec<f32>>>> = Arc::default();
    let taken = Arc::clone(&seen);
    let lock = |seen: &Mutex<Vec<Vec<f32>>>| {
        std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner))
    };
    let observer = Box::new(move |step: StepReading<'_>| {
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.push(step.hidden.to_vec());
        [0.0; 3]
    });
    let problems = chosen.given.iter().map(|chain| chain.problem.as_str());
    let (mut model, prm) = settings::observed_reward_model(config, problems, observer)?;
    let mut progress = Progress::new(chosen.given.len(), "chains");
    let mut reads = Vec::with_capacity(chosen.given.len());
    for some in chosen.given.chunks(score::AT_ONCE) {
        let first = reads.len();
        score::each(&mut *model, some, |chain, scores| {
            if let Err(error) = &scores {
                progress
                    .aside(|| output::note(format_args!("beamgen: chain {}: {error}", chain.id)));
            }
            progress.done(None);
            let hidden = Vec::new();
            reads.push(scores.ok().map(|scores| Read {
                lowest: so_far(Aggregation::Min, &scores),
                so_far: so_far(aggregation, &scores),
                scores,
                hidden,
            }));
            Ok(())
        })?;
        let mut hidden = lock(&seen).into_iter();
        for read in reads[first..].iter_mut().flatten() {
            read.hidden = hidden.by_ref().take(read.scores.len()).collect();
        }
    }
    drop(progress);
    Ok((reads, prm))
}

fn samples(chains: &Chains<'_>, reads: &[Option<Read>]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (chain, label) in chains.labels() {
        if let Some(read) = &reads[chain] {
            samples.extend(label.into_iter().map(|label| Sample {
                score: f64::from(read.so_far[label.step]),
                target: label.target,
                weight: label.weight,
            }));
        }
    }
    samples
}

/// Empty if hidden states are missing.
fn head_samples(chains: &Chains<'_>, reads: &[Option<Read>]) -> Vec<HeadSample> {
    let mut samples = Vec::new();
    for (chain, labels) in chains.labels() {
        let Some(read) = &reads[chain] else { continue };
        if read.hidden.len() != read.scores.len() {
            return Vec::new();
        }
        samples.extend(labels.into_iter().map(|label| HeadSample {
            hidden: read.hidden[label.step].clone(),
            score: read.scores[label.step],
            lowest: read.lowest[label.step],
            target: label.target,
            weight: label.weight,
            problem: chains.problem(chain),
        }));
    }
    samples
}

/// Chains as they are measured, with these scores.
fn rows(
    chains: &Chains<'_>,
    reads: &[Option<Read>],
    score: &dyn Fn(&Read, usize) -> f32,
) -> Vec<ScoredChain> {
    let row = |(chain, labels): (usize, Vec<data::Label>)| {
        let read = reads[chain].as_ref()?;
        let steps = read.scores.len();
        let mut targets = vec![None; steps];
        for label in labels {
            targets[label.step] = Some(label.target);
        }
        Some(ScoredChain {
            id: chain.to_string(),
            problem: chains.problem(chain) as u32,
            labels: targets,
            scores: Some((0..steps).map(|at| score(read, at)).collect()),
            lengths: vec![1; steps],
            ..ScoredChain::default()
        })
    };
    chains.labels().filter_map(row).collect()
}

/// The shares of targets at or below each quantile.
fn coverage(
    chains: &Chains<'_>,
    reads: &[Option<Read>],
    head: &QuantileHead,
) -> [f64; LEVELS.len()] {
    let (mut below, mut all) = ([0.0; LEVELS.len()], 0.0f64);
    for (chain, labels) in chains.labels() {
        let Some(read) = &reads[chain] else { continue };
        for label in labels {
            let quantiles = read.quantiles(head, label.step);
            all += 1.0;
            for (below, quantile) in below.iter_mut().zip(quantiles) {
                *below += f64::from(u8::from(label.target <= f64::from(quantile)));
            }
        }
    }
    below.map(|below| below / all.max(1.0))
}
