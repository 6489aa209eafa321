//! What is in a file of labelled chains, in numbers.

use std::collections::{BTreeMap, HashMap, HashSet};

use beamgen_eval::Fingerprint;
use serde::Serialize;

use crate::{Checked, LabelRule, LabelledChain, LabelledStep, Rejected, normalised};

/// Counts of chains and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// Chains.
    pub chains: usize,
    /// Different problems, by [`normalised`] text.
    pub problems: usize,
    /// Steps of the chains' paths.
    pub steps: usize,
    /// Alternatives of these steps.
    pub alternatives: usize,
    /// Steps of the paths that have a label.
    pub labels: usize,
    /// Labels 1.
    pub positive: usize,
    /// Labels between 0 and 1.
    pub between: usize,
    /// Labels 0.
    pub negative: usize,
    /// Different pairs of a step with a label and the problem and steps before it.
    pub distinct: usize,
    /// Labels of a pair that had one already.
    pub repeats: usize,
    /// Repeats whose label is not the one that the pair had last.
    pub contradictions: usize,
    /// Pairs with different labels.
    pub disputed: usize,
    /// Chains that are the same, step by step, as an earlier one.
    pub duplicate_chains: usize,
    /// Facts by their source: steps that have one, and chains for what is known of whole chains.
    pub facts: BTreeMap<String, usize>,
    /// People who rated, by their names.
    pub raters: usize,
    /// Chains whose answer is right.
    pub right_answers: usize,
    /// Right chains with a step that is labelled wrong: unsound ones.
    pub right_unsound: usize,
    /// Chains of each level that their source names.
    pub levels: BTreeMap<String, usize>,
    /// Rejected records, by reason.
    pub rejected: BTreeMap<String, usize>,
}

impl Stat {
    /// Counts, with the labels that a rule derives.
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
                let is_wrong = |label: &f64| *label < 0.5;
                stat.right_answers += 1;
                stat.right_unsound += usize::from(labels.iter().flatten().any(is_wrong));
            }
            problems.insert(normalised(&chain.problem));
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

/// What is known of a pair of a step and what stands before it.
#[derive(Default)]
struct Seen {
    /// The label that it had last.
    last: Option<f64>,
    disputed: bool,
}
