//! Statistics of a file of labelled chains.

use std::collections::{BTreeMap, HashMap, HashSet};

use beamgen_eval::Fingerprint;
use serde::Serialize;

use crate::{Checked, LabelRule, LabelledChain, LabelledStep, Rejected, normalised};

/// Counts of chains, steps, labels and facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// The number of chains.
    pub chains: usize,
    /// The number of distinct problems, by [`normalised`] text.
    pub problems: usize,
    /// The number of steps on the chains' paths, without alternatives.
    pub steps: usize,
    /// The number of alternatives of these steps.
    pub alternatives: usize,
    /// The number of steps on the paths that have a label.
    pub labels: usize,
    /// The number of labels equal to 1.
    pub positive: usize,
    /// The number of labels between 0 and 1.
    pub between: usize,
    /// The number of labels equal to 0.
    pub negative: usize,
    /// The number of distinct labelled prefixes: a step with its label, after the same problem and
    /// steps.
    pub distinct: usize,
    /// The number of labels of prefixes that had a label before.
    pub repeats: usize,
    /// The number of repeats whose label differs from the last label of the prefix.
    pub contradictions: usize,
    /// The number of prefixes with different labels.
    pub disputed: usize,
    /// The number of chains that equal an earlier chain step by step.
    pub duplicate_chains: usize,
    /// The number of steps that have a fact, by the fact's source; for facts of whole chains, the
    /// number of chains.
    pub facts: BTreeMap<String, usize>,
    /// The number of people who rated.
    pub raters: usize,
    /// The number of chains whose answer is right.
    pub right_answers: usize,
    /// The number of right chains with a step that is labelled wrong, which are unsound.
    pub right_unsound: usize,
    /// The number of chains of each level that their sources name.
    pub levels: BTreeMap<String, usize>,
    /// The number of rejected records, by reason.
    pub rejected: BTreeMap<String, usize>,
}

impl Stat {
    /// Counts chains, with the labels that a rule derives.
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
            // A prefix is hashed step by step: the same step after other steps is another prefix.
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
        // A person who only wrote remarks is not a rater.
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

/// The labels seen for a prefix.
#[derive(Default)]
struct Seen {
    /// The last label of the prefix.
    last: Option<f64>,
    disputed: bool,
}
