//! Labels out of raw facts.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{LabelledChain, LabelledStep};

/// What a neutral rating counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neutral {
    /// 1, as in Lightman et al. (2305.20050) and Qwen's PRM800K model.
    #[default]
    Positive,
    /// 0, as in TRL's example.
    Negative,
    /// No label.
    Drop,
    /// 0.5.
    Half,
}

/// How rollouts become a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RolloutLabel {
    /// 1 if any completion is right (Math-Shepherd, 2312.08935).
    #[default]
    Hard,
    /// The share k / n of right ones.
    Soft,
    /// 1 if that share is above this threshold.
    Threshold(f64),
    /// 1 if that share is at least this part of the share one step before (`GenPRM`'s relative
    /// progress, 2504.00891, which takes 0.8). The first step, and a step behind a share of 0, is
    /// as for `Hard`.
    Ratio(f64),
}

impl FromStr for RolloutLabel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let advice = || "write hard, soft, threshold=X or ratio=X".to_owned();
        let (name, value) = match text.split_once('=') {
            None => (text, None),
            Some((name, value)) => {
                let value: f64 = value.parse().map_err(|_| advice())?;
                (name, Some(value))
            }
        };
        match (name, value) {
            ("hard", None) => Ok(Self::Hard),
            ("soft", None) => Ok(Self::Soft),
            ("threshold", Some(x)) if (0.0..1.0).contains(&x) => Ok(Self::Threshold(x)),
            ("threshold", Some(_)) => Err("a threshold is at least 0 and below 1".to_owned()),
            ("ratio", Some(x)) if x.is_finite() && x > 0.0 => Ok(Self::Ratio(x)),
            ("ratio", Some(_)) => Err("a ratio is above 0".to_owned()),
            _ => Err(advice()),
        }
    }
}

/// Where a label and the second opinion have to agree: both above one half, or both not. Of a
/// checker, which speaks of few steps, [`Known`](Self::Known) suits, and of a model the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agree {
    /// A step has a label only where they do.
    Steps,
    /// A chain has labels only if both have the same first wrong step, or none (consensus
    /// filtering, Qwen's 2501.07301).
    Chains,
    /// A step has a label unless there is a second opinion and it is another one.
    Known,
}

/// How labels are derived from raw facts. A person's rating goes before rollouts, and these before
/// labels of unknown origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LabelRule {
    /// What a neutral rating counts as.
    pub neutral: Neutral,
    /// How rollouts become a label.
    pub rollouts: RolloutLabel,
    /// Steps behind the first wrong one (label 0) have no label.
    pub first_error_only: bool,
    /// What a second scorer has to agree on. Under all but [`Agree::Known`], what it said nothing of
    /// has no label then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agree: Option<Agree>,
}

impl LabelRule {
    /// One label in `[0, 1]` a step of the chain's path; `None` where there is none.
    #[must_use]
    pub fn labels(&self, chain: &LabelledChain) -> Vec<Option<f64>> {
        let mut before = None;
        let mut labels: Vec<Option<f64>> = Vec::with_capacity(chain.steps.len());
        for (i, step) in chain.steps.iter().enumerate() {
            let marked = chain.first_error.and_then(|at| match usize::try_from(at) {
                Err(_) => Some(1.0),
                Ok(at) if i < at => Some(1.0),
                Ok(at) if i == at => Some(0.0),
                Ok(_) => None,
            });
            labels.push(self.label(step, before).or(marked));
            before = share(step);
        }
        self.keep_agreed(chain, &mut labels);
        if self.first_error_only
            && let Some(wrong) = labels.iter().position(|&label| label == Some(0.0))
        {
            labels[wrong + 1..].fill(None);
        }
        labels
    }

    /// Drops the labels that the second opinions contradict.
    fn keep_agreed(&self, chain: &LabelledChain, labels: &mut [Option<f64>]) {
        let is_right = |p: f64| p > 0.5;
        let second = || chain.steps.iter().map(|step| step.second.map(is_right));
        match self.agree {
            None => {}
            Some(agree @ (Agree::Steps | Agree::Known)) => {
                let silence_agrees = agree == Agree::Known;
                for (label, second) in labels.iter_mut().zip(second()) {
                    let agrees = |label| second.map_or(silence_agrees, |p| p == is_right(label));
                    *label = label.filter(|&label| agrees(label));
                }
            }
            Some(Agree::Chains) => {
                let mut own = labels.iter().map(|label| label.map(is_right));
                let first = own.position(|is_right| is_right == Some(false));
                let judged = second().any(|opinion| opinion.is_some());
                if !judged || second().position(|opinion| opinion == Some(false)) != first {
                    labels.fill(None);
                }
            }
        }
    }

    /// The label of a step; `before` is the share of right rollouts from behind the step before it.
    #[must_use]
    pub fn label(&self, step: &LabelledStep, before: Option<f64>) -> Option<f64> {
        let rated = match step.rating {
            Some(1..) => Some(1.0),
            Some(..0) => Some(0.0),
            Some(0) => match self.neutral {
                Neutral::Positive => Some(1.0),
                Neutral::Negative => Some(0.0),
                Neutral::Half => Some(0.5),
                Neutral::Drop => return None,
            },
            None => None,
        };
        let hard = |is: bool| f64::from(u8::from(is));
        let sampled = || {
            let share = share(step)?;
            Some(match self.rollouts {
                RolloutLabel::Soft => share,
                RolloutLabel::Threshold(above) => hard(share > above),
                RolloutLabel::Ratio(least) => match before {
                    Some(before) if before > 0.0 => hard(share / before >= least),
                    _ => hard(share > 0.0),
                },
                RolloutLabel::Hard => hard(share > 0.0),
            })
        };
        rated
            .or_else(sampled)
            .or_else(|| step.right.map(hard))
            .or(step.soft)
    }
}

/// The share of right rollouts from behind a step.
fn share(step: &LabelledStep) -> Option<f64> {
    let rollouts = step.rollouts.as_ref()?;
    (rollouts.n > 0).then(|| f64::from(rollouts.k) / f64::from(rollouts.n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rollouts;

    fn step(n: u32, k: u32) -> LabelledStep {
        let rollouts = Some(Rollouts {
            n,
            k,
            ..Rollouts::default()
        });
        LabelledStep {
            text: "a".to_owned(),
            rollouts,
            ..LabelledStep::default()
        }
    }

    fn labels(rule: RolloutLabel, counts: &[(u32, u32)]) -> Vec<Option<f64>> {
        let chain = LabelledChain {
            steps: counts.iter().map(|&(n, k)| step(n, k)).collect(),
            ..LabelledChain::default()
        };
        let rule = LabelRule {
            rollouts: rule,
            ..LabelRule::default()
        };
        rule.labels(&chain)
    }

    #[test]
    fn rollouts_become_each_kind_of_label() {
        let counts = [(8, 8), (8, 2), (8, 0), (0, 0), (8, 1)];
        let of = |rule| labels(rule, &counts);
        let (yes, no) = (Some(1.0), Some(0.0));
        assert_eq!(of(RolloutLabel::Hard), [yes, yes, no, None, yes]);
        assert_eq!(
            of(RolloutLabel::Soft),
            [yes, Some(0.25), no, None, Some(0.125)]
        );
        assert_eq!(of(RolloutLabel::Threshold(0.2)), [yes, yes, no, None, no]);
        assert_eq!(of(RolloutLabel::Ratio(0.8)), [yes, no, no, None, yes]);
    }

    #[test]
    fn what_stands_behind_the_first_error_is_unknown() {
        let mut chain = LabelledChain {
            steps: vec![step(0, 0), step(0, 0), step(0, 0)],
            first_error: Some(1),
            ..LabelledChain::default()
        };
        let rule = LabelRule::default();
        assert_eq!(rule.labels(&chain), [Some(1.0), Some(0.0), None]);
        chain.first_error = Some(-1);
        assert_eq!(rule.labels(&chain), [Some(1.0); 3]);
    }

    #[test]
    fn a_second_opinion_has_to_agree() {
        let chain = |opinions: [Option<f64>; 3]| {
            let mut chain = LabelledChain {
                steps: [(8, 8), (8, 0), (8, 3)].map(|(n, k)| step(n, k)).into(),
                ..LabelledChain::default()
            };
            for (step, second) in chain.steps.iter_mut().zip(opinions) {
                step.second = second;
            }
            chain
        };
        let labels = |agree, opinions| {
            let rule = LabelRule {
                agree: Some(agree),
                ..LabelRule::default()
            };
            rule.labels(&chain(opinions))
        };
        let (yes, no) = (Some(1.0), Some(0.0));
        let opinions = [Some(0.9), Some(0.2), Some(0.4)];
        assert_eq!(labels(Agree::Steps, opinions), [yes, no, None]);
        assert_eq!(labels(Agree::Chains, opinions), [yes, no, yes]);
        let late = [Some(0.9), Some(0.7), Some(0.4)];
        assert_eq!(labels(Agree::Steps, late), [yes, None, None]);
        assert_eq!(labels(Agree::Chains, late), [None; 3]);
        // What a checker says of few steps.
        let (fails, first_fails) = ([None, None, Some(0.0)], [Some(0.0), Some(0.0), None]);
        assert_eq!(labels(Agree::Known, fails), [yes, no, None]);
        assert_eq!(labels(Agree::Known, first_fails), [None, no, yes]);
        // Silence is no agreement, not even with a chain in which nothing is wrong.
        let mut silent = chain([None; 3]);
        for agree in [Agree::Steps, Agree::Chains] {
            let rule = LabelRule {
                agree: Some(agree),
                ..LabelRule::default()
            };
            assert_eq!(rule.labels(&silent), [None; 3]);
            silent.steps[1] = step(8, 8);
            assert_eq!(rule.labels(&silent), [None; 3]);
        }
    }

    #[test]
    fn a_neutral_rating_counts_as_the_rule_says() {
        let neutral = LabelledStep {
            rating: Some(0),
            right: Some(true),
            ..LabelledStep::default()
        };
        let of = |neutral_is| {
            let rule = LabelRule {
                neutral: neutral_is,
                ..LabelRule::default()
            };
            rule.label(&neutral, None)
        };
        assert_eq!(of(Neutral::Positive), Some(1.0));
        assert_eq!(of(Neutral::Negative), Some(0.0));
        assert_eq!(of(Neutral::Half), Some(0.5));
        assert_eq!(of(Neutral::Drop), None);
    }
}
