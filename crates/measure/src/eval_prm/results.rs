//! The figures of an evaluation, computed from the rows.

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

pub(super) const HISTOGRAM_BINS: usize = 20;

/// The largest number of groups in a breakdown. More values suggest that the property is not a category.
const MOST_GROUPS: usize = 40;

/// The figures of one file, in the form of `results.json`.
#[derive(Serialize)]
pub(super) struct SetReport {
    pub name: String,
    pub counts: Counts,
    pub mean_label: Option<f64>,
    pub model: Scorer,
    /// First-error figures as means over problems, so that each problem has equal weight.
    pub over_problems: OverProblems,
    /// The figures of the calibrated scores; `None` without a calibration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<Calibrated>,
    pub baselines: Vec<Scorer>,
    pub calibration: Calibration,
    pub by_position: Vec<Group>,
    pub breakdowns: Vec<Breakdown>,
    /// The numbers of right and of wrong steps in each of [`HISTOGRAM_BINS`] bins of scores.
    pub histogram: Vec<(usize, usize)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<SetProbes>,
}

#[derive(Serialize)]
pub(super) struct Scorer {
    pub name: &'static str,
    pub figures: Figures,
    pub best_first_error_f1: Option<Best>,
    pub best_f1_wrong: Option<Best>,
    /// The point of the ROC curve at the report's threshold.
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

/// The figures of groups of chains, by a property that the source of the data records.
#[derive(Serialize)]
pub(super) struct Breakdown {
    pub by: &'static str,
    pub groups: Vec<Group>,
    /// The number of groups that are not shown because of [`MOST_GROUPS`].
    pub left_out: usize,
}

#[derive(Serialize)]
pub(super) struct Group {
    pub name: String,
    pub counts: Counts,
    pub figures: Figures,
}

impl SetReport {
    /// Returns a warning if one problem has more than half of the chains.
    pub(super) fn lopsided(&self) -> Option<String> {
        let Counts {
            chains,
            problems,
            largest,
            ..
        } = self.counts;
        // With at most half of the chains, no single problem decides the figures.
        if chains < 2 || 2 * largest <= chains {
            return None;
        }
        let of = &self.over_problems;
        Some(format!(
            "{} of {} chains are of one problem and decide these figures; means over the {} problems: on wrong {}, on right {}, F1 {}",
            grouped(largest as u64),
            grouped(chains as u64),
            grouped(problems as u64),
            optional(of.on_wrong),
            optional(of.on_right),
            optional(of.f1)
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
        Self {
            name: name.to_owned(),
            counts: view.counts(),
            mean_label: view.mean_label(),
            model: Scorer::of("model", rows, &view),
            over_problems: view.over_problems(),
            calibrated,
            // Baselines see no text. A model that is not better has only learned about lengths and positions.
            baselines: Baseline::ALL
                .map(|baseline| {
                    let scored = baseline.score(rows);
                    let view = View::new(&scored, threshold, |_| true);
                    Scorer::of(baseline.name(), &scored, &view)
                })
                .into(),
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

fn optional(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), percent)
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

/// Returns a copy of a chain whose scores are aggregated and calibrated.
fn mapped(row: &ScoredChain, map: &ScoreMap, aggregation: Aggregation) -> ScoredChain {
    ScoredChain {
        scores: row.scores.as_ref().map(|scores| {
            let scores = so_far(aggregation, scores).into_iter();
            scores.map(|score| map.apply(score)).collect()
        }),
        ..row.clone()
    }
}

/// Returns a group for each position in the chain that has labelled steps, counted from 1. Steps from
/// [`LONGEST_POSITION`] on are one group.
fn by_position(rows: &[ScoredChain], threshold: f32) -> Vec<Group> {
    (1..=LONGEST_POSITION)
        .filter_map(|position| {
            let (is_last, at) = (position == LONGEST_POSITION, position - 1);
            let name = if is_last {
                format!("{position} and later")
            } else {
                position.to_string()
            };
            // Chains that do not reach this position are left out, because the view would count them.
            let long = rows.iter().filter(|row| row.labels.len() > at);
            let view = View::new(long, threshold, |step: usize| {
                step == at || (is_last && step > at)
            });
            (view.counts().steps > 0).then(|| Group::of(name, &view))
        })
        .collect()
}

/// A function that returns a recorded property of a chain, if there is one.
type Said = for<'a> fn(&'a ScoredChain) -> Option<&'a String>;

fn breakdowns(rows: &[ScoredChain], threshold: f32) -> Vec<Breakdown> {
    let kinds: [(&'static str, Said); 4] = [
        ("class", |row| row.class.as_ref()),
        ("level", |row| row.level.as_ref()),
        ("source", |row| row.source.as_ref()),
        ("generator", |row| row.generator.as_ref()),
    ];
    kinds
        .into_iter()
        .filter_map(|(by, of)| {
            let mut names: Vec<&String> = rows.iter().filter_map(of).collect();
            // The groups are sorted by name, so that the report does not depend on the order of chains.
            names.sort();
            names.dedup();
            let left_out = names.len().saturating_sub(MOST_GROUPS);
            names.truncate(MOST_GROUPS);
            // A single group would repeat the figures of all chains.
            (names.len() > 1).then(|| Breakdown {
                by,
                groups: names
                    .iter()
                    .map(|name| {
                        let members = rows.iter().filter(|row| of(row) == Some(*name));
                        Group::of((*name).clone(), &View::new(members, threshold, |_| true))
                    })
                    .collect(),
                left_out,
            })
        })
        .collect()
}
