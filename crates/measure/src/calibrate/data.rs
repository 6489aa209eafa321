//! The labelled chains of one policy, and their split by problem.

use std::collections::{BTreeMap, BTreeSet};

use beamgen::eval::calibrate::PolicyName;
use beamgen::eval::{Fingerprint, GivenChain};
use beamgen_labels::{DataSource, LabelRule, LabelledChain, Policy, Source, normalised, split};

use crate::Error;
use crate::scores;

/// The chains of a policy.
pub struct Chosen {
    pub(super) policy: PolicyName,
    /// The fingerprint of the chains and all facts recorded on their steps.
    pub(super) fingerprint: String,
    chains: Vec<LabelledChain>,
    /// The problems and steps of `chains`, in the form that the reward model reads.
    pub(super) given: Vec<GivenChain>,
    rule: LabelRule,
    /// The number of each chain's problem.
    problems: Vec<usize>,
}

/// Some of the chains: those to fit to, or the held-out ones.
pub(super) struct Chains<'a> {
    of: &'a Chosen,
    indices: Vec<usize>,
}

/// The target of a step, with its weight in the fit.
pub(super) struct Label {
    pub step: usize,
    pub target: f64,
    pub weight: f64,
}

/// Reads the files and keeps the chains of one policy: the one whose generator's name contains `policy`. An `@` and a
/// number at the end of `policy` select a temperature. `None` requires that the files have only one policy.
///
/// # Errors
/// A file cannot be used, no chain matches, or the matching chains belong to several policies.
pub fn open(
    sources: &[impl Clone + Into<DataSource>],
    policy: Option<&str>,
    rule: LabelRule,
) -> Result<Chosen, Error> {
    let mut chains = Vec::new();
    for source in sources {
        chains.extend(beamgen_labels::open(source.clone(), None)?.chains);
    }
    choose(chains, policy, rule)
}

/// Keeps the chains of one policy, as [`open`] does.
///
/// # Errors
/// No chain matches, or the matching chains belong to several policies.
pub fn choose(
    mut chains: Vec<LabelledChain>,
    policy: Option<&str>,
    rule: LabelRule,
) -> Result<Chosen, Error> {
    let mut names: Vec<PolicyName> = Vec::new();
    chains.retain(|chain| {
        let name = name(chain.policy.as_ref());
        let wanted = policy.is_none_or(|wanted| is(&name, wanted));
        if wanted && !names.contains(&name) {
            names.push(name);
        }
        wanted
    });
    let policy = match &names[..] {
        [] => {
            return Err(Error::Data(
                "the data have no chain of such a policy: give another name".to_owned(),
            ));
        }
        [only] => only.clone(),
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            return Err(Error::Policies(names.join("; ")));
        }
    };
    let mut hash = Fingerprint::default();
    // The split treats problems that differ only in spacing or punctuation as one; these numbers do too.
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut problems = Vec::with_capacity(chains.len());
    for chain in &chains {
        // The hash covers all facts, since other labels give another calibration.
        hash.field(&serde_json::to_vec(chain).unwrap_or_default());
        let next = numbers.len();
        problems.push(*numbers.entry(normalised(&chain.problem)).or_insert(next));
    }
    Ok(Chosen {
        policy,
        fingerprint: hash.finish(),
        given: scores::given(&chains),
        rule,
        problems,
        chains,
    })
}

fn name(policy: Option<&Policy>) -> PolicyName {
    // Chains without a recorded policy count as one policy with an empty name.
    let policy = policy.cloned().unwrap_or_default();
    PolicyName {
        generator: policy.generator,
        temperature: policy.temperature,
    }
}

/// Returns whether a policy matches `wanted`: a part of the generator's name, perhaps with `@` and a temperature.
fn is(name: &PolicyName, wanted: &str) -> bool {
    let (generator, temperature) = match wanted.rsplit_once('@') {
        // A name may contain `@` too, so only a number after it is a temperature.
        Some((generator, text)) if text.parse::<f64>().is_ok() => (generator, text.parse().ok()),
        _ => (wanted, None),
    };
    name.generator.contains(generator) && (temperature.is_none() || name.temperature == temperature)
}

pub(super) fn problems(chains: &Chains<'_>) -> usize {
    let problems = chains.indices.iter().map(|&at| chains.of.problems[at]);
    problems.collect::<BTreeSet<usize>>().len()
}

impl Chosen {
    /// Returns the problem of each chain, with repetitions.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.given.iter().map(|chain| chain.problem.as_str())
    }

    /// Splits the chains by problem into those to fit to and those to hold out.
    pub(super) fn parts(&self, held_out: f64, seed: u64) -> [Chains<'_>; 2] {
        let parts = split(&self.chains, held_out, seed, &BTreeSet::new());
        [parts.train, parts.test].map(|indices| Chains { of: self, indices })
    }
}

impl Chains<'_> {
    /// Returns the number of a chain's problem, equal for chains of one problem.
    pub(super) fn problem(&self, chain: usize) -> usize {
        self.of.problems[chain]
    }

    /// Returns the labels of each chain, with the index of the chain.
    pub(super) fn labels(&self) -> impl Iterator<Item = (usize, Vec<Label>)> + '_ {
        self.indices.iter().map(|&at| {
            let chain = &self.of.chains[at];
            let labels = self.of.rule.labels(chain).into_iter().enumerate();
            // Only a label from rollouts has a sample size as its weight; others have weight 1.
            let by_rollouts = self.of.rule.sources(chain).contains(&Source::Rollouts);
            let known = labels.filter_map(|(step, target)| {
                let rollouts = chain.steps[step].rollouts.as_ref();
                let rollouts = rollouts.filter(|_| by_rollouts);
                Some(Label {
                    step,
                    target: target?,
                    weight: rollouts.map_or(1.0, |rollouts| f64::from(rollouts.n.max(1))),
                })
            });
            (at, known.collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_weighs_as_much_as_the_rollouts_that_its_label_is_made_of() {
        let chain = r#"{"problem": "p", "steps": [
            {"text": "a", "rollouts": {"n": 8, "k": 6}, "opinions": {"j": 0.9}},
            {"text": "b", "rollouts": {"n": 4, "k": 1}, "opinions": {"j": 0.2}}]}"#;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l.jsonl");
        std::fs::write(&path, chain.replace('\n', " ")).unwrap();
        let labels = |sources: Vec<Source>| {
            let rule = LabelRule {
                sources,
                rollouts: beamgen_labels::RolloutLabel::Soft,
                ..LabelRule::default()
            };
            let of = &open(&[&path], None, rule).unwrap();
            let indices = vec![0];
            let (_, labels) = Chains { of, indices }.labels().next().unwrap();
            labels
                .iter()
                .map(|label| (label.target, label.weight))
                .collect::<Vec<_>>()
        };
        assert_eq!(labels(Vec::new()), [(0.75, 8.0), (0.25, 4.0)]);
        assert_eq!(
            labels(vec!["judge".parse().unwrap()]),
            [(0.9, 1.0), (0.2, 1.0)]
        );
    }
}
