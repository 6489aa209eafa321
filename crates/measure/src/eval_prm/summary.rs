//! The summary of an evaluation for each file, to be printed.

use beamgen::eval::quality::{Measure, OverProblems, ScoredChain};
use serde::Serialize;

use super::folder::Report;
use super::probes::SetProbes;
use super::results::SetReport;

/// The most important figures of one file. The first-error figures are those of `ProcessBench`.
#[derive(Serialize)]
pub struct Summary<'a> {
    /// The path of the file, as given by the caller.
    pub data: &'a str,
    /// The number of chains whose first error is known.
    pub chains: usize,
    /// The number of chains that the model refused; each counts as a miss.
    pub refused: usize,
    /// The score below which a step is flagged as wrong.
    pub threshold: f32,
    /// The share of wrong chains whose first wrong step is the first flagged one.
    pub accuracy_on_wrong: Option<f64>,
    /// The share of right chains without a flag.
    pub accuracy_on_right: Option<f64>,
    /// The harmonic mean of `accuracy_on_wrong` and `accuracy_on_right`.
    pub f1: Option<f64>,
    /// The lower end of the 95 % interval of `f1`, over problems.
    pub f1_low: Option<f64>,
    /// The upper end of the 95 % interval of `f1`, over problems.
    pub f1_high: Option<f64>,
    /// The threshold with the highest F1 on these data. An F1 at a threshold chosen on the same data is an upper
    /// bound.
    pub best_threshold: Option<f32>,
    /// The F1 at `best_threshold`, an upper bound of `f1` at any threshold.
    pub best_f1: Option<f64>,
    /// The number of chains of the most frequent problem; a large one decides the figures.
    pub largest: usize,
    /// The first-error figures as means over problems, so that each problem has equal weight.
    pub over_problems: OverProblems,
    /// The reports on probes and shifts; `None` if no probes were made.
    #[serde(flatten)]
    pub probes: Option<&'a SetProbes>,
    /// A warning if one problem has more than half of the chains.
    #[serde(skip)]
    pub lopsided: Option<String>,
}

impl Report {
    /// Returns a summary of each file. Chains whose labels do not determine the first wrong step are left out.
    #[must_use]
    pub fn summaries(&self) -> Vec<Summary<'_>> {
        let sets = self.outline.sets.iter().zip(&self.sets).zip(&self.rows);
        let threshold = self.outline.threshold;
        sets.map(|((of, set), rows)| Summary::of(&of.source, set, rows, threshold))
            .collect()
    }

    /// Returns all figures of each file, in the form of `results.json`.
    #[must_use]
    pub fn details(&self) -> impl IntoIterator<Item = impl Serialize> {
        &self.sets
    }

    /// Whether the reward model could read any chain.
    #[must_use]
    pub fn has_scores(&self) -> bool {
        self.rows.iter().flatten().any(|row| row.scores.is_some())
    }

    /// Returns the score below which a step is flagged as wrong.
    #[must_use]
    pub fn threshold(&self) -> f32 {
        self.outline.threshold
    }
}

impl<'a> Summary<'a> {
    fn of(source: &'a str, set: &'a SetReport, rows: &[ScoredChain], threshold: f32) -> Self {
        // If the first wrong step is not known, a prediction is neither a hit nor a miss.
        let judged: Vec<&ScoredChain> = rows
            .iter()
            .filter(|row| row.first_error().is_some())
            .collect();
        let [f1, on_wrong, on_right] = [Measure::FirstErrorF1, Measure::OnWrong, Measure::OnRight]
            .map(|of| set.model.figures.get(of));
        let interval = f1.and_then(|figure| figure.interval);
        let best = set.model.best_first_error_f1;
        Self {
            data: source,
            chains: judged.len(),
            refused: judged.iter().filter(|row| row.scores.is_none()).count(),
            threshold,
            accuracy_on_wrong: on_wrong.map(|figure| figure.value),
            accuracy_on_right: on_right.map(|figure| figure.value),
            f1: f1.map(|figure| figure.value),
            f1_low: interval.map(|(low, _)| low),
            f1_high: interval.map(|(_, high)| high),
            best_threshold: best.map(|best| best.threshold),
            best_f1: best.map(|best| best.value),
            largest: set.counts.largest,
            over_problems: set.over_problems,
            probes: set.probes.as_ref(),
            lopsided: set.lopsided(),
        }
    }
}

#[cfg(test)]
mod tests {
    use beamgen_labels::LabelRule;
    use serde_json::json;

    use super::super::{Rows, report};
    use super::*;

    /// Makes a report on chains of different problems, each given by its first wrong step and its scores.
    fn measured(chains: &[(Option<usize>, Option<&[f32]>)]) -> Report {
        let rows: Vec<ScoredChain> = chains
            .iter()
            .enumerate()
            .map(|(problem, &(wrong, scores))| {
                let steps = scores.map_or(2, <[f32]>::len);
                ScoredChain {
                    problem: problem as u32,
                    labels: (0..steps)
                        .map(|at| Some(f64::from(u8::from(wrong != Some(at)))))
                        .collect(),
                    scores: scores.map(<[f32]>::to_vec),
                    lengths: vec![1; steps],
                    ..ScoredChain::default()
                }
            })
            .collect();
        let outline = json!({
            "model": "m", "threshold": 0.5, "rule": LabelRule::default(),
            "sets": [{"name": "x", "source": "x", "format": "beamgen", "rejected": 0}],
        });
        let outline = serde_json::from_value(outline).unwrap();
        let rows = Rows {
            sets: vec![rows],
            probes: Vec::new(),
        };
        report(outline, rows)
    }

    #[test]
    fn refused_chains_are_misses_on_both_sides() {
        let report = measured(&[
            (Some(1), Some(&[0.9, 0.2])),
            (Some(0), None),
            (None, Some(&[0.9])),
            (None, None),
        ]);
        let row = &report.summaries()[0];
        assert_eq!(row.refused, 2);
        assert_eq!(row.accuracy_on_wrong, Some(0.5));
        assert_eq!(row.accuracy_on_right, Some(0.5));
        assert_eq!(row.f1, Some(0.5));
    }

    #[test]
    fn the_best_threshold_is_searched() {
        let report = measured(&[(Some(1), Some(&[0.2, 0.05])), (None, Some(&[0.2]))]);
        let row = &report.summaries()[0];
        assert_eq!(row.f1, Some(0.0));
        assert_eq!(row.best_f1, Some(1.0));
        assert!(
            row.best_threshold
                .is_some_and(|t| (0.05..=0.2).contains(&t))
        );
    }

    #[test]
    fn one_kind_of_chains_alone_has_its_accuracy_and_no_f1() {
        let report = measured(&[(None, Some(&[0.9]))]);
        let row = &report.summaries()[0];
        assert_eq!((row.f1, row.best_f1), (None, None));
        assert_eq!(row.accuracy_on_wrong, None);
        assert_eq!(row.accuracy_on_right, Some(1.0));
    }
}
