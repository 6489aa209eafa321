//! From a reward model's scores to probabilities of success.

mod data;
mod plots;
mod risk;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use beamgen::Aggregation;
use beamgen::eval::calibrate::{
    Calibration, Data, HeadSample, HeldOut, LEVELS, Method, Quality, QuantileHead, Quantiles,
    Sample, VERSION, so_far,
};
use beamgen::eval::quality::{Bin, Binning, Figures, Measure, ScoredChain, View};
use beamgen::program::{QuantileReader, StepReading};
use beamgen::scorer::Scorer;

pub use data::{Chosen, open};
pub use risk::{Observed, Runs, add, draw as draw_risk};

use self::data::Chains;
use crate::{Error, Watch, scores};

/// The seed of the split and of the bootstrap.
const SEED: u64 = 0;

/// The largest file of a calibration that is read.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a calibration.
///
/// # Errors
/// The file cannot be read, or is no calibration.
pub fn read(path: &Path) -> Result<Calibration, Error> {
    let text = beamgen_files::read_text_file(path, MAX_BYTES).map_err(Error::reading(path))?;
    Calibration::parse(&text).map_err(Error::reading(path))
}

/// The hidden states of the steps that a reward model scored, in their order.
#[derive(Clone, Default)]
pub struct Hidden(Arc<Mutex<Vec<Vec<f32>>>>);

impl Hidden {
    /// Returns what the reward model has to call for each step.
    #[must_use]
    pub fn observer(&self) -> QuantileReader {
        let seen = Arc::clone(&self.0);
        Box::new(move |step: StepReading<'_>| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(step.hidden.to_vec());
            [0.0; 3]
        })
    }

    fn take(&self) -> Vec<Vec<f32>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How a calibration is fitted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How scores become probabilities.
    pub method: Method,
    /// The score of the chain so far that becomes one.
    pub aggregation: Aggregation,
    /// The share of the problems that is held out.
    pub held_out: f64,
}

/// A calibration, and how good it is on the problems that were held out.
pub struct Fitted {
    /// The calibration.
    pub calibration: Calibration,
    /// The figures of the scores, of the probabilities, and of the medians if there are any.
    pub figures: Vec<(&'static str, Figures)>,
    bins: Vec<(&'static str, Vec<Bin>)>,
}

impl Fitted {
    /// Draws the reliability of the steps that were held out.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn draw(&self, folder: &Path) -> Result<(), Error> {
        plots::reliability(folder, &self.bins)
    }
}

/// The scores of a chain, and the hidden state of each step. The hidden states are missing where the
/// model does not run in this process.
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

/// Scores all chains of a policy and fits a calibration to them. `hidden` is what the model was given
/// to call for each step, `fingerprint` its own.
///
/// # Errors
/// The model is lost, or no step has both a label and a score.
pub fn fit(
    chosen: &Chosen,
    options: &Options,
    model: &mut dyn Scorer,
    fingerprint: String,
    hidden: &Hidden,
    watch: &mut dyn Watch,
) -> Result<Fitted, Error> {
    let reads = score(chosen, options.aggregation, model, hidden, watch)?;
    let [fitted, held] = chosen.parts(options.held_out, SEED);
    let samples = samples(&fitted, &reads);
    let map = options.method.fit(&samples);
    let map = map.ok_or_else(|| {
        Error::Data("no step of the data has both a label and a score".to_owned())
    })?;
    let quantiles = QuantileHead::fit(&head_samples(&fitted, &reads));
    let view = |score: &dyn Fn(&Read, usize) -> f32| {
        let rows = rows(&held, &reads, score);
        View::new(&rows, 0.5, |_| true)
    };
    let before = view(&|read, at| read.so_far[at]);
    let after = view(&|read, at| map.apply(read.so_far[at]));
    let median = quantiles
        .as_ref()
        .map(|head| view(&|read, at| read.quantiles(head, at)[1]));
    let at_or_below = quantiles.as_ref().map(|head| coverage(&held, &reads, head));
    let counts = before.counts();
    let scores = match options.aggregation {
        Aggregation::Last => "scores",
        _ => "lowest scores so far",
    };
    let tables: Vec<(&'static str, &View)> = [(scores, &before), (options.method.name(), &after)]
        .into_iter()
        .chain(median.as_ref().map(|view| ("median", view)))
        .collect();
    let figures: Vec<(&'static str, Figures)> = tables
        .iter()
        .map(|(name, view)| (*name, view.figures(SEED)))
        .collect();
    let quality = |at: usize| {
        let of = |measure| {
            figures[at]
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
        prm: fingerprint,
        policy: chosen.policy.clone(),
        data: Data {
            fingerprint: chosen.fingerprint.clone(),
            problems: data::problems(&fitted),
            steps: samples.len(),
        },
        method: options.method,
        aggregation: options.aggregation,
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
    let bins =
        |&(name, view): &(&'static str, &View)| (name, view.calibration(Binning::EqualMass, SEED));
    Ok(Fitted {
        calibration,
        bins: tables.iter().map(bins).collect(),
        figures,
    })
}

/// Scores all chains; one that the model refused has none.
fn score(
    chosen: &Chosen,
    aggregation: Aggregation,
    model: &mut dyn Scorer,
    hidden: &Hidden,
    watch: &mut dyn Watch,
) -> Result<Vec<Option<Read>>, Error> {
    let total = chosen.given.len();
    watch.begin(total, "chains", total as f64);
    let mut reads = Vec::with_capacity(total);
    for some in chosen.given.chunks(scores::AT_ONCE) {
        let judged = scores::judge(model, some, watch)?;
        let mut hidden = hidden.take().into_iter();
        let mut read = |scores: Vec<f32>| Read {
            lowest: so_far(Aggregation::Min, &scores),
            so_far: so_far(aggregation, &scores),
            hidden: hidden.by_ref().take(scores.len()).collect(),
            scores,
        };
        reads.extend(judged.into_iter().map(|scores| scores.map(&mut read)));
    }
    Ok(reads)
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
