//! Everything that a report says, computed from the rows.

use beamgen::Aggregation;
use beamgen::eval::calibrate::{ScoreMap, so_far};
use beamgen::eval::quality::{
    Baseline, Best, Bin, Binning, Counts, Figures, LONGEST_POSITION, OverProblems, RocPoint,
    ScoredChain, View,
};
use serde::Serialize;

use super::SEED;
use super::probes::SetProbes;
use crate::{grouped, percent};

/// Bins of the histograms of scores.
pub(super) const HISTOGRAM_BINS: usize = 20;

/// Most groups of one breakdown; a source with more levels than that names no levels.
const MOST_GROUPS: usize = 40;

/// What is said of a file of data.
#[derive(Serialize)]
pub(super) struct SetReport {
    pub name: String,
    pub counts: Counts,
    pub mean_label: Option<f64>,
    pub model: Scorer,
    /// First-error figures in which every problem counts the same.
    pub over_problems: OverProblems,
    /// The same scores, put through a calibration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<Calibrated>,
    pub baselines: Vec<Scorer>,
    pub calibration: Calibration,
    pub by_position: Vec<Group>,
    pub breakdowns: Vec<Breakdown>,
    /// Steps of each bin of scores: right ones, wrong ones.
    pub histogram: Vec<(usize, usize)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<SetProbes>,
}

/// A model or a baseline.
#[derive(Serialize)]
pub(super) struct Scorer {
    pub name: &'static str,
    pub figures: Figures,
    pub best_first_error_f1: Option<Best>,
    pub best_f1_wrong: Option<Best>,
    /// What the threshold of the report flags.
    #[serde(skip)]
    pub flagged: Option<RocPoint>,
    #[serde(skip)]
    pub roc: Vec<RocPoint>,
}

#[derive(Serialize)]
pub(super) struct Calibrated {
    pub model: Scorer,
    pub equal_mass: Vec<Bin>,
}

#[derive(Serialize)]
pub(super) struct Calibration {
    pub equal_mass: Vec<Bin>,
    pub equal_width: Vec<Bin>,
}

/// Chains by something that their source says of them.
#[derive(Serialize)]
pub(super) struct Breakdown {
    pub by: &'static str,
    pub groups: Vec<Group>,
    /// Groups that are not shown, as there are too many.
    pub left_out: usize,
}

#[derive(Serialize)]
pub(super) struct Group {
    pub name: String,
    pub counts: Counts,
    pub figures: Figures,
}

impl SetReport {
    /// Returns a note if one problem has most of the chains.
    pub(super) fn lopsided(&self) -> Option<String> {
        let Counts {
            chains,
            problems,
            largest,
            ..
        } = self.counts;
        if chains < 2 || 2 * largest <= chains {
            return None;
        }
        let share = |share: Option<f64>| share.map_or("-".to_owned(), percent);
        let of = &self.over_problems;
        Some(format!(
            "{} of {} chains are of one problem and decide these figures; means over the {} problems: on wrong {}, on right {}, F1 {}",
            grouped(largest as u64),
            grouped(chains as u64),
            grouped(problems as u64),
            share(of.on_wrong),
            share(of.on_right),
            share(of.f1)
        ))
    }

    pub(super) fn of(
        name: &str,
        rows: &[ScoredChain],
        threshold: f32,
        map: Option<(&ScoreMap, Aggregation)>,
    ) -> Self {
        let calibrated = map.map(|(map, aggregation)| {
            let rows: Vec<ScoredChain> = rows
                .iter()
                .map(|row| mapped(row, map, aggregation))
                .collect();
            let view = View::new(&rows, threshold, |_| true);
            Calibrated {
                model: Scorer::of("calibrated", &rows, &view),
                equal_mass: view.calibration(Binning::EqualMass, SEED),
            }
        });
        let view = View::new(rows, threshold, |_| true);
        let baseline = |baseline: Baseline| {
            let scored = baseline.score(rows);
            let view = View::new(&scored, threshold, |_| true);
            Scorer::of(baseline.name(), &scored, &view)
        };
        Self {
            name: name.to_owned(),
            counts: view.counts(),
            mean_label: view.mean_label(),
            model: Scorer::of("model", rows, &view),
            over_problems: view.over_problems(),
            calibrated,
            baselines: Baseline::ALL.map(baseline).into(),
            calibration: Calibration {
                equal_mass: view.calibration(Binning::EqualMass, SEED),
                equal_width: view.calibration(Binning::EqualWidth, SEED),
            },
            by_position: by_position(rows, threshold),
            breakdowns: breakdowns(rows, threshold),
            histogram: view.histogram(HISTOGRAM_BINS),
            probes: None,
        }
    }
}

impl Scorer {
    fn of(name: &'static str, rows: &[ScoredChain], view: &View) -> Self {
        Self {
            name,
            figures: view.figures(SEED),
            best_first_error_f1: Best::first_error_f1(rows),
            best_f1_wrong: view.best_f1_wrong(),
            flagged: view.flagged(),
            roc: view.roc(),
        }
    }
}

impl Group {
    fn of(name: String, view: &View) -> Self {
        Self {
            name,
            counts: view.counts(),
            figures: view.figures(SEED),
        }
    }
}

/// A chain with its scores put through a map.
fn mapped(row: &ScoredChain, map: &ScoreMap, aggregation: Aggregation) -> ScoredChain {
    let apply = |scores: &Vec<f32>| {
        let scores = so_far(aggregation, scores).into_iter();
        scores.map(|score| map.apply(score)).collect()
    };
    ScoredChain {
        scores: row.scores.as_ref().map(apply),
        ..row.clone()
    }
}

/// Positions that have labelled steps, counted from 1; late ones are one group.
fn by_position(rows: &[ScoredChain], threshold: f32) -> Vec<Group> {
    let group = |position: usize| {
        let (is_last, at) = (position == LONGEST_POSITION, position - 1);
        let name = if is_last {
            format!("{position} and later")
        } else {
            position.to_string()
        };
        let takes = |step: usize| step == at || (is_last && step > at);
        // Of chains that have no such step the view would count problems that say nothing.
        let long = rows.iter().filter(|row| row.labels.len() > at);
        let view = View::new(long, threshold, takes);
        (view.counts().steps > 0).then(|| Group::of(name, &view))
    };
    (1..=LONGEST_POSITION).filter_map(group).collect()
}

/// What a source says of a chain.
type Said = for<'a> fn(&'a ScoredChain) -> Option<&'a String>;

fn breakdowns(rows: &[ScoredChain], threshold: f32) -> Vec<Breakdown> {
    let kinds: [(&'static str, Said); 4] = [
        ("class", |row| row.class.as_ref()),
        ("level", |row| row.level.as_ref()),
        ("source", |row| row.source.as_ref()),
        ("generator", |row| row.generator.as_ref()),
    ];
    let breakdown = |(by, of): (&'static str, Said)| {
        let mut names: Vec<&String> = rows.iter().filter_map(of).collect();
        names.sort();
        names.dedup();
        let left_out = names.len().saturating_sub(MOST_GROUPS);
        names.truncate(MOST_GROUPS);
        let group = |name: &&String| {
            let members = rows.iter().filter(|row| of(row) == Some(*name));
            Group::of((*name).clone(), &View::new(members, threshold, |_| true))
        };
        // One group is what the whole report is of.
        (names.len() > 1).then(|| Breakdown {
            by,
            groups: names.iter().map(group).collect(),
            left_out,
        })
    };
    kinds.into_iter().filter_map(breakdown).collect()
}
