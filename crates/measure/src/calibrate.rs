//! Fits a map from a reward model's scores to probabilities of success, and measures it on held-out problems.

mod data;
mod plots;
mod risk;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use beamgen::Aggregation;
use beamgen::eval::calibrate::{
    Calibration, Data, HeadSample, HeldOut, LEVELS, Method, Quality, QuantileHead, Quantiles,
    Sample, VERSION, so_far,
};
use beamgen::eval::quality::{Bin, Binning, Figures, Measure, ScoredChain, View};
use beamgen::program::{QuantileReader, StepReading};
use beamgen::scorer::Scorer;

pub use data::{Chosen, choose, open};
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
/// The file cannot be read, or is not a valid calibration.
pub fn read(path: &Path) -> Result<Calibration, Error> {
    let text = beamgen_files::read_text_file(path, MAX_BYTES).map_err(Error::reading(path))?;
    Calibration::parse(&text).map_err(Error::reading(path))
}

/// A calibration file to write. Opening it before the work shows early whether it can be written.
pub struct Output {
    path: PathBuf,
    to: beamgen_files::Output,
}

impl Output {
    /// Opens the file. Its content stays until [`write`](Self::write).
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            path: path.to_owned(),
            to: beamgen_files::Output::open(path).map_err(Error::writing(path))?,
        })
    }

    /// Replaces the whole content of the file.
    ///
    /// # Errors
    /// The file cannot be written. Its content is then unchanged.
    pub fn write(&mut self, calibration: &Calibration) -> Result<(), Error> {
        let written = self.to.write(|out| {
            serde_json::to_writer(&mut *out, calibration)?;
            out.write_all(b"\n")
        });
        written.map_err(Error::writing(&self.path))
    }
}

/// Collects the hidden state of each step that a reward model scores, in the order of scoring. Clones share one
/// collection.
#[derive(Clone, Default)]
pub struct Hidden(Arc<Mutex<Vec<Vec<f32>>>>);

impl Hidden {
    /// Returns a function for the reward model to call for each step; the function stores the hidden state.
    #[must_use]
    pub fn observer(&self) -> QuantileReader {
        let seen = Arc::clone(&self.0);
        Box::new(move |step: StepReading<'_>| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(step.hidden.to_vec());
            // A reader must return quantiles. Nobody uses the ones of this reader, which only collects hidden states.
            [0.0; 3]
        })
    }

    fn take(&self) -> Vec<Vec<f32>> {
        // A panic elsewhere cannot leave a half-written state, so a poisoned lock is usable.
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The settings of a fit, apart from the data.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The family of functions from which the map is fitted.
    pub method: Method,
    /// The aggregation of the scores up to a step into the input of the map.
    pub aggregation: Aggregation,
    /// The share of problems to hold out for measurements, 0 to 1.
    pub held_out: f64,
}

/// A calibration, with its quality on held-out problems.
pub struct Fitted {
    /// The calibration file in memory; risk curves may be added to it.
    pub calibration: Calibration,
    /// Measures of the raw scores, of the probabilities, and of the medians if hidden states were available. The
    /// strings are names for tables.
    pub figures: Vec<(&'static str, Figures)>,
    bins: Vec<(&'static str, Vec<Bin>)>,
}

impl Fitted {
    /// Draws the reliability diagram of the held-out steps into `folder`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn draw(&self, folder: &Path) -> Result<(), Error> {
        plots::reliability(folder, &self.bins)
    }
}

/// The scores and hidden states of a chain's steps. There are no hidden states if the model runs in another process.
struct Read {
    scores: Vec<f32>,
    /// The lowest score up to each step.
    lowest: Vec<f32>,
    /// The aggregated score up to each step, to which the map is applied.
    so_far: Vec<f32>,
    hidden: Vec<Vec<f32>>,
}

impl Read {
    fn quantiles(&self, head: &QuantileHead, at: usize) -> Quantiles {
        head.apply(&self.hidden[at], self.scores[at], self.lowest[at])
    }
}

/// Scores all chains and fits a calibration of the scores to their labels. `hidden` collects the hidden states of
/// `model`, and `fingerprint` identifies the model.
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
    // The split is by problem, because steps of one problem are alike and a split by step would flatter the fit.
    let [fitted, held] = chosen.parts(options.held_out, SEED);
    let samples = samples(&fitted, &reads);
    let map = options.method.fit(&samples);
    let map = map.ok_or_else(|| {
        Error::Data("no step of the data has both a label and a score: give labelled chains that the model can read".to_owned())
    })?;
    // `None` without hidden states, for example if the model is on a server.
    let quantiles = QuantileHead::fit(&head_samples(&fitted, &reads));
    // All kinds of scores are measured on the same held-out steps, so that they can be compared.
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
        // With this aggregation the newest score is the input of the map.
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
            before: quality(&figures[0].1),
            after: quality(&figures[1].1),
            // The figures of the median are the third ones, if there is a quantile head.
            median: median.is_some().then(|| quality(&figures[2].1)),
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

fn quality(figures: &Figures) -> Quality {
    let [brier, ece] = [Measure::Brier, Measure::EceMass]
        .map(|measure| figures.get(measure).map_or(0.0, |figure| figure.value));
    Quality { brier, ece }
}

/// Scores all chains. The result is `None` for a chain that the model refused.
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
        // States are collected in the order of scored steps, so each chain takes as many as it has scores.
        let mut hidden = hidden.take().into_iter();
        reads.extend(judged.into_iter().map(|scores| {
            scores.map(|scores| Read {
                lowest: so_far(Aggregation::Min, &scores),
                so_far: so_far(aggregation, &scores),
                hidden: hidden.by_ref().take(scores.len()).collect(),
                scores,
            })
        }));
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

/// Returns the samples of the quantile head; empty if a chain lacks hidden states.
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

/// Returns the labelled chains as rows for [`View`], with `score` of each step in place of the model's score.
fn rows(
    chains: &Chains<'_>,
    reads: &[Option<Read>],
    score: &dyn Fn(&Read, usize) -> f32,
) -> Vec<ScoredChain> {
    chains
        .labels()
        .filter_map(|(chain, labels)| {
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
                // No measure of a calibration depends on the lengths of steps.
                lengths: vec![1; steps],
                ..ScoredChain::default()
            })
        })
        .collect()
}

/// Returns the share of targets at or below each quantile. With a calibrated head it equals the quantile's level.
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
