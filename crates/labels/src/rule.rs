//! Labels out of raw facts.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Bound, Checked, LabelledChain, LabelledStep, Source};

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

/// How labels are derived from raw facts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LabelRule {
    /// The origins of labels, in order of precedence. If there are none, those that the chain names
    /// itself hold; and if it names none, ratings, then rollouts, then what was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
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

/// The knowledge of a step by now: nothing, or its label, or that it has none.
type Known = Option<Option<f64>>;

impl LabelRule {
    /// The origins of labels where nobody names others.
    pub const USUAL: [Source; 3] = [Source::Rating(None), Source::Rollouts, Source::Given];

    /// The origins that hold for a chain.
    #[must_use]
    pub fn sources<'a>(&'a self, chain: &'a LabelledChain) -> &'a [Source] {
        let mut lists = [&self.sources[..], &chain.rule].into_iter();
        lists.find(|list| !list.is_empty()).unwrap_or(&Self::USUAL)
    }

    /// One label in `[0, 1]` a step of the chain's path; `None` where there is none.
    #[must_use]
    pub fn labels(&self, chain: &LabelledChain) -> Vec<Option<f64>> {
        let mut known: Vec<Known> = vec![None; chain.steps.len()];
        for source in self.sources(chain) {
            self.add(source, chain, &mut known);
        }
        let mut labels: Vec<Option<f64>> = known.into_iter().map(Option::flatten).collect();
        self.keep_agreed(chain, &mut labels);
        if self.first_error_only
            && let Some(wrong) = labels.iter().position(|&label| label == Some(0.0))
        {
            labels[wrong + 1..].fill(None);
        }
        labels
    }

    /// The label of the whole chain, as an outcome reward model learns it: whether its answer is
    /// right. If the rule names origins, it is the lowest label of the steps instead. It is known
    /// only if the last step has one, or some step is 0.
    #[must_use]
    pub fn chain_label(&self, chain: &LabelledChain) -> Option<f64> {
        if self.sources.is_empty() {
            return chain.outcome.map(hard);
        }
        let labels = self.labels(chain);
        let lowest = labels.iter().flatten().copied().reduce(f64::min);
        lowest.filter(|&lowest| lowest == 0.0 || labels.last().is_some_and(Option::is_some))
    }

    /// Adds what one origin says of the steps that nothing is known of.
    fn add(&self, source: &Source, chain: &LabelledChain, known: &mut [Known]) {
        let steps = &chain.steps;
        let is_wrong = |known: &Known| known.flatten().is_some_and(|label| label < 0.5);
        let any_wrong = known.iter().any(is_wrong);
        let first_fail = match source {
            Source::Verdict(by) => steps.iter().position(|step| step.fails(by.as_deref())),
            _ => None,
        };
        for (i, known) in known.iter_mut().enumerate().filter(|(_, k)| k.is_none()) {
            let step = &steps[i];
            *known = match source {
                Source::Rating(by) => match step.rated(by.as_deref()) {
                    Some(Some(0)) => match self.neutral {
                        Neutral::Positive => Some(Some(1.0)),
                        Neutral::Negative => Some(Some(0.0)),
                        Neutral::Half => Some(Some(0.5)),
                        Neutral::Drop => Some(marked(chain, i)),
                    },
                    rated => rated.map(|rating| Some(hard(rating? > 0))),
                },
                Source::Rollouts => {
                    let before = i.checked_sub(1).and_then(|before| steps[before].share());
                    self.sampled(step, before).map(Some)
                }
                Source::Given => {
                    let own = step.right.map(hard).or(step.soft);
                    own.or_else(|| marked(chain, i)).map(Some)
                }
                Source::Verdict(_) => first_fail
                    .filter(|&failed| i >= failed)
                    .map(|failed| (i == failed).then_some(0.0)),
                Source::Pass(by) => {
                    let is_pass = |of: &Checked| matches!(of, Checked::Pass);
                    let passes = step.checked(by.as_deref()).any(is_pass);
                    passes.then_some(Some(1.0))
                }
                Source::Judge {
                    name,
                    cut,
                    hard: is_hard,
                } => {
                    let score = step.opinion(name.as_deref());
                    let is_sure = |p: &f64| cut.is_none_or(|cut| p.max(1.0 - p) >= cut);
                    let sure = score.filter(is_sure);
                    sure.map(|p| Some(if *is_hard { hard(p > 0.5) } else { p }))
                }
                Source::Outcome => {
                    let holds = |&right: &bool| !any_wrong && (right || i + 1 == steps.len());
                    chain.outcome.filter(holds).map(|right| Some(hard(right)))
                }
                Source::When { bounds, above } => {
                    let holds = |Bound { of, bound }: &Bound| {
                        let is_beyond = |n: f64| if *above { n > *bound } else { n < *bound };
                        step.quantity(of).is_some_and(is_beyond)
                    };
                    bounds.iter().all(holds).then_some(Some(hard(*above)))
                }
            };
        }
    }

    /// Drops the labels that the second opinions contradict: a fail of a checker, or the mean of the
    /// judges.
    fn keep_agreed(&self, chain: &LabelledChain, labels: &mut [Option<f64>]) {
        let is_right = |p: f64| p > 0.5;
        let opinion = |step: &LabelledStep| {
            if step.fails(None) {
                Some(0.0)
            } else {
                step.opinion(None)
            }
        };
        let second = || chain.steps.iter().map(|step| opinion(step).map(is_right));
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

    /// The label of a step by its rollouts; `before` is the share of right ones from behind the step
    /// before it.
    fn sampled(&self, step: &LabelledStep, before: Option<f64>) -> Option<f64> {
        let share = step.share()?;
        Some(match self.rollouts {
            RolloutLabel::Soft => share,
            RolloutLabel::Threshold(above) => hard(share > above),
            RolloutLabel::Ratio(least) => match before {
                Some(before) if before > 0.0 => hard(share / before >= least),
                _ => hard(share > 0.0),
            },
            RolloutLabel::Hard => hard(share > 0.0),
        })
    }
}

fn hard(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// The label of a step in a chain whose first wrong step is marked.
fn marked(chain: &LabelledChain, i: usize) -> Option<f64> {
    match usize::try_from(chain.first_error?) {
        Err(_) => Some(1.0),
        Ok(at) if i < at => Some(1.0),
        Ok(at) if i == at => Some(0.0),
        Ok(_) => None,
    }
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
                step.opinions = second
                    .map(|p| ("judge".to_owned(), p))
                    .into_iter()
                    .collect();
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
            let chain = LabelledChain {
                steps: vec![neutral.clone()],
                ..LabelledChain::default()
            };
            rule.labels(&chain)[0]
        };
        assert_eq!(of(Neutral::Positive), Some(1.0));
        assert_eq!(of(Neutral::Negative), Some(0.0));
        assert_eq!(of(Neutral::Half), Some(0.5));
        assert_eq!(of(Neutral::Drop), None);
    }

    /// Labels of a chain by rules as they are typed.
    fn by(chain: &LabelledChain, sources: &[&str]) -> Vec<Option<f64>> {
        let sources = sources.iter().map(|text| text.parse().unwrap()).collect();
        let rule = LabelRule {
            sources,
            ..LabelRule::default()
        };
        rule.labels(chain)
    }

    /// Three steps: rollouts 8, 6 and 0 of 8; the second fails one checker, the first passes it; a
    /// judge says 0.95, 0.6, 0.1, and another 0.85 of the first.
    fn all_facts() -> LabelledChain {
        let mut chain = LabelledChain {
            steps: vec![step(8, 8), step(8, 6), step(8, 0)],
            outcome: Some(true),
            ..LabelledChain::default()
        };
        for (step, score) in chain.steps.iter_mut().zip([0.95, 0.6, 0.1]) {
            step.opinions.insert("a".to_owned(), score);
        }
        chain.steps[0].opinions.insert("b".to_owned(), 0.85);
        let mut verdict = |at: usize, verdict| {
            let verdicts = &mut chain.steps[at].verdicts;
            verdicts.insert("arithmetic".to_owned(), verdict);
        };
        verdict(0, Checked::Pass);
        verdict(1, Checked::Fail("2 + 2 is 4".to_owned()));
        chain
    }

    #[test]
    fn each_rule_reads_its_own_facts_and_the_first_that_speaks_counts() {
        let chain = all_facts();
        let (yes, no) = (Some(1.0), Some(0.0));
        // A fail is 0, and what follows it is unknown even to the rules after it.
        assert_eq!(by(&chain, &["verdict"]), [None, no, None]);
        assert_eq!(by(&chain, &["verdict", "rollouts"]), [yes, no, None]);
        assert_eq!(by(&chain, &["rollouts", "verdict"]), [yes, yes, no]);
        assert_eq!(by(&chain, &["verdict=other", "pass"]), [yes, None, None]);
        // A right answer is no label of a chain in which a step is wrong.
        assert_eq!(by(&chain, &["outcome"]), [yes; 3]);
        assert_eq!(by(&chain, &["verdict", "outcome"]), [None, no, None]);
        assert_eq!(by(&chain, &["verdict=other", "outcome"]), [yes; 3]);
        let wrong = LabelledChain {
            outcome: Some(false),
            ..chain.clone()
        };
        assert_eq!(by(&wrong, &["outcome"]), [None, None, no]);
        assert_eq!(by(&wrong, &["pass", "outcome"]), [yes, None, no]);
        // Judges: the mean of all, or one of them, hard or soft, with and without a cut.
        let mean = 0.5 * (0.95 + 0.85);
        assert_eq!(by(&chain, &["judge"]), [Some(mean), Some(0.6), Some(0.1)]);
        assert_eq!(by(&chain, &["judge=b"]), [Some(0.85), None, None]);
        assert_eq!(by(&chain, &["judge=a:0.9"]), [Some(0.95), None, Some(0.1)]);
        assert_eq!(by(&chain, &["judge-hard=a"]), [yes, yes, no]);
        assert_eq!(by(&chain, &["judge-hard=a:0.9"]), [yes, None, no]);
        // Combinations.
        assert_eq!(by(&chain, &["V<0.8&judge<0.7"]), [None, no, no]);
        assert_eq!(by(&chain, &["V<0.8&judge<0.6"]), [None, None, no]);
        let both = ["V<0.2&judge<0.5", "V>0.9&judge=b>0.8"];
        assert_eq!(by(&chain, &both), [yes, None, no]);
        // The usual rules know neither verdicts nor opinions.
        assert_eq!(by(&chain, &[]), [yes, yes, no]);
    }

    #[test]
    fn a_chain_may_name_its_rules_and_a_call_overrides_them() {
        let mut chain = all_facts();
        chain.rule = vec!["verdict".parse().unwrap(), "pass".parse().unwrap()];
        let (yes, no) = (Some(1.0), Some(0.0));
        assert_eq!(by(&chain, &[]), [yes, no, None]);
        assert_eq!(by(&chain, &["rollouts"]), [yes, yes, no]);
    }

    #[test]
    fn most_people_decide_and_one_may_be_asked() {
        let rated = |ratings: &[(&str, i8)]| {
            let rated = |&(name, rating): &(&str, i8)| {
                let (rating, comment) = (Some(rating), None);
                (name.to_owned(), crate::Rated { rating, comment })
            };
            LabelledChain {
                steps: vec![LabelledStep {
                    ratings: ratings.iter().map(rated).collect(),
                    right: Some(true),
                    ..LabelledStep::default()
                }],
                ..LabelledChain::default()
            }
        };
        let two = rated(&[("anna", -1), ("ben", -1), ("cleo", 1)]);
        assert_eq!(by(&two, &[]), [Some(0.0)]);
        assert_eq!(by(&two, &["rating=cleo"]), [Some(1.0)]);
        assert_eq!(by(&two, &["rating=dora"]), [None]);
        assert_eq!(by(&two, &["rating=dora", "given"]), [Some(1.0)]);
        // A dispute gives no label, whatever else is known.
        assert_eq!(by(&rated(&[("anna", -1), ("ben", 1)]), &[]), [None]);
    }

    #[test]
    fn an_outcome_model_learns_the_outcome_or_what_the_rules_say() {
        let chain = all_facts();
        let of = |chain: &LabelledChain, sources: &[&str]| {
            let sources = sources.iter().map(|text| text.parse().unwrap()).collect();
            let rule = LabelRule {
                sources,
                ..LabelRule::default()
            };
            rule.chain_label(chain)
        };
        assert_eq!(of(&chain, &[]), Some(1.0));
        assert_eq!(of(&chain, &["verdict", "outcome"]), Some(0.0));
        assert_eq!(of(&chain, &["verdict=other", "outcome"]), Some(1.0));
        assert_eq!(of(&chain, &["judge=a"]), Some(0.1));
        assert_eq!(of(&chain, &["judge=b"]), None);
        let named = LabelledChain {
            rule: vec!["verdict".parse().unwrap()],
            ..chain
        };
        assert_eq!(of(&named, &[]), Some(1.0));
    }
}
