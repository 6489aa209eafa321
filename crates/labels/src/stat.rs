//! The statistics of a file of labelled chains.

use std::collections::{BTreeMap, HashMap, HashSet};

use beamgen_eval::Fingerprint;
use serde::Serialize;

use crate::{Checked, LabelRule, LabelledChain, LabelledStep, Rejected, normalised};

/// Counts of the chains in a file, of their steps, and of the labels and facts of these steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// The number of chains, repeated ones included.
    pub chains: usize,
    /// The number of problems with distinct [`normalised`] texts.
    pub problems: usize,
    /// The number of steps of all chains, without alternatives.
    pub steps: usize,
    /// The number of alternatives to these steps.
    pub alternatives: usize,
    /// The number of steps, without alternatives, that have a label.
    pub labels: usize,
    /// The number of labels that are exactly 1.
    pub positive: usize,
    /// The number of labels other than 0 and 1.
    pub between: usize,
    /// The number of labels that are exactly 0.
    pub negative: usize,
    /// The number of distinct prefixes with a label. A prefix is a problem and the steps up to the
    /// labelled one.
    pub distinct: usize,
    /// The number of labels whose prefix was labelled earlier in the file.
    pub repeats: usize,
    /// The number of repeats that differ from the latest label of the same prefix.
    pub contradictions: usize,
    /// The number of distinct prefixes with at least two different labels.
    pub disputed: usize,
    /// The number of chains that have the same problem and steps as an earlier chain.
    pub duplicate_chains: usize,
    /// The number of steps per kind of fact, e.g. `pass by arithmetic`. For facts of whole chains,
    /// which begin with `chain:`, the number of chains.
    pub facts: BTreeMap<String, usize>,
    /// The number of people with at least one rating.
    pub raters: usize,
    /// The number of chains whose outcome is right.
    pub right_answers: usize,
    /// The number of chains with a right outcome and a step whose label is below one half.
    pub right_unsound: usize,
    /// The number of chains per level, for chains that name one.
    pub levels: BTreeMap<String, usize>,
    /// The number of rejected records per reason, without the details.
    pub rejected: BTreeMap<String, usize>,
}

impl Stat {
    /// Counts chains and the labels that `rule` derives from their facts.
    #[must_use]
    pub fn of<'a>(
        chains: impl IntoIterator<Item = &'a LabelledChain>,
        rejected: &[Rejected],
        rule: &LabelRule,
    ) -> Self {
        let mut stat = Self::default();
        let mut problems = HashSet::new();
        let mut whole = HashSet::new();
        let mut seen: HashMap<String, Seen> = HashMap::new();
        for chain in chains {
            stat.chains += 1;
            if let Some(level) = &chain.level {
                *stat.levels.entry(level.clone()).or_default() += 1;
            }
            stat.steps += chain.steps.len();
            stat.count_facts(chain);
            let labels = rule.labels(chain);
            if chain.outcome == Some(true) {
                stat.right_answers += 1;
                stat.right_unsound +=
                    usize::from(labels.iter().flatten().any(|&label| label < 0.5));
            }
            problems.insert(normalised(&chain.problem));
            // The hash is extended step by step: the same step after other steps is another prefix.
            let mut prefix = Fingerprint::default();
            prefix.field(chain.problem.as_bytes());
            for (step, label) in chain.steps.iter().zip(labels) {
                stat.alternatives += step.alternatives.len();
                prefix.field(step.text.as_bytes());
                let Some(label) = label else { continue };
                stat.count(label);
                let pair = seen.entry(prefix.clone().finish()).or_default();
                if let Some(last) = pair.last.replace(label) {
                    stat.repeats += 1;
                    stat.contradictions += usize::from(last != label);
                    pair.disputed |= last != label;
                }
            }
            stat.duplicate_chains += usize::from(!whole.insert(prefix.finish()));
        }
        // Only ratings are counted here; a person who wrote only remarks is not a rater.
        let raters = stat.facts.keys().filter(|f| f.starts_with("rating by "));
        stat.raters = raters.count();
        stat.problems = problems.len();
        stat.distinct = seen.len();
        stat.disputed = seen.values().filter(|pair| pair.disputed).count();
        for one in rejected {
            *stat.rejected.entry(one.reason.what.clone()).or_default() += 1;
        }
        stat
    }

    fn count_facts(&mut self, chain: &LabelledChain) {
        let mut count = |fact: String| *self.facts.entry(fact).or_default() += 1;
        for step in &chain.steps {
            let LabelledStep {
                rating,
                right,
                soft,
                rollouts,
                ..
            } = step;
            for (fact, is_there) in [
                ("rating", rating.is_some()),
                ("right or wrong", right.is_some()),
                ("soft label", soft.is_some()),
                ("rollouts", rollouts.is_some()),
            ] {
                if is_there {
                    count(fact.to_owned());
                }
            }
            for (rater, rated) in &step.ratings {
                let said = [
                    ("rating", rated.rating.is_some()),
                    ("comment", rated.comment.is_some()),
                ];
                for (fact, _) in said.into_iter().filter(|&(_, is_there)| is_there) {
                    count(format!("{fact} by {rater}"));
                }
            }
            for (checker, verdict) in &step.verdicts {
                let verdict = match verdict {
                    Checked::Pass => "pass",
                    Checked::Fail(_) => "fail",
                };
                count(format!("{verdict} by {checker}"));
            }
            for judge in step.opinions.keys() {
                count(format!("score by {judge}"));
            }
        }
        for (fact, is_there) in [
            ("chain: first error", chain.first_error.is_some()),
            ("chain: outcome", chain.outcome.is_some()),
            ("chain: rule", !chain.rule.is_empty()),
        ] {
            if is_there {
                count(fact.to_owned());
            }
        }
    }

    fn count(&mut self, label: f64) {
        self.labels += 1;
        let kind = match label {
            1.0 => &mut self.positive,
            0.0 => &mut self.negative,
            _ => &mut self.between,
        };
        *kind += 1;
    }
}

/// The labels of one prefix.
#[derive(Default)]
struct Seen {
    /// The latest label, with which the next one is compared.
    last: Option<f64>,
    disputed: bool,
}
