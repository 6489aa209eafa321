//! Label rules: how labels follow from the recorded facts of a chain.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Bound, Checked, LabelledChain, LabelledStep, Source};

/// The label for a step that a person rated neutral (0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neutral {
    /// The label is 1, as in Lightman et al. (<https://arxiv.org/abs/2305.20050>) and Qwen's
    /// PRM800K model.
    #[default]
    Positive,
    /// The label is 0, as in TRL's example.
    Negative,
    /// The rating gives no label.
    Drop,
    /// The label is 0.5.
    Half,
}

/// The function from the counts of rollouts to a label. The share is `k / n`, the part of the
/// finished rollouts whose answer is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RolloutLabel {
    /// 1 if at least one rollout is right, otherwise 0 (Math-Shepherd,
    /// <https://arxiv.org/abs/2312.08935>).
    #[default]
    Hard,
    /// The share itself, a soft label.
    Soft,
    /// 1 if the share is above this threshold, otherwise 0.
    Threshold(f64),
    /// 1 if the share, divided by the share of the previous step, is at least this ratio. This is
    /// the relative progress of `GenPRM` (<https://arxiv.org/abs/2504.00891>), which uses 0.8. The
    /// first step, and a step after a share of 0, are labelled as by `Hard`.
    Ratio(f64),
}

impl FromStr for RolloutLabel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const ADVICE: &str = "write hard, soft, threshold=X or ratio=X";
        let (name, value) = match text.split_once('=') {
            None => (text, None),
            Some((name, value)) => {
                let value: f64 = value.parse().map_err(|_| ADVICE)?;
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
            _ => Err(ADVICE.to_owned()),
        }
    }
}

/// How a second opinion filters labels. The second opinion on a step is a checker's fail or,
/// without one, the mean score of the judges. It agrees with a label if both are above one half or
/// neither is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agree {
    /// Only labels with an agreeing second opinion are kept. Suits judges, which score every step.
    Steps,
    /// All labels of a chain are kept if labels and second opinions have the same first wrong step,
    /// or none; otherwise all are dropped (consensus filtering, Qwen,
    /// <https://arxiv.org/abs/2501.07301>).
    Chains,
    /// Only labels with a disagreeing second opinion are dropped. Suits checkers, which decide few
    /// steps.
    Known,
}

/// A rule that derives labels from the facts of a chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LabelRule {
    /// The sources of labels, in order of precedence. If the list is empty, the chain's own list is
    /// used and, if that is empty too, [`USUAL`](Self::USUAL).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// The label for a step that was rated neutral.
    pub neutral: Neutral,
    /// The function from counts of rollouts to a label.
    pub rollouts: RolloutLabel,
    /// Whether the steps after the first label 0 lose their labels.
    pub first_error_only: bool,
    /// The filter by a second opinion; `None` keeps all labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agree: Option<Agree>,
}

/// The state of a step: `None` while no source has decided the step, then the decision, which may
/// be that the step has no label.
type Known = Option<Option<f64>>;

impl LabelRule {
    /// The default sources: people's ratings, then rollouts, then labels of unknown origin.
    pub const USUAL: [Source; 3] = [Source::Rating(None), Source::Rollouts, Source::Given];

    /// Returns the sources that apply to a chain: the first list that is not empty of the rule's
    /// own, the chain's, and [`USUAL`](Self::USUAL).
    #[must_use]
    pub fn sources<'a>(&'a self, chain: &'a LabelledChain) -> &'a [Source] {
        let mut lists = [&self.sources[..], &chain.rule].into_iter();
        lists.find(|list| !list.is_empty()).unwrap_or(&Self::USUAL)
    }

    /// Returns a label in `[0, 1]`, or `None`, for each step of the chain; alternatives get no
    /// label.
    #[must_use]
    pub fn labels(&self, chain: &LabelledChain) -> Vec<Option<f64>> {
        let mut known: Vec<Known> = vec![None; chain.steps.len()];
        for source in self.sources(chain) {
            self.add(source, chain, &mut known);
        }
        let mut labels: Vec<Option<f64>> = known.into_iter().map(Option::flatten).collect();
        self.keep_agreed(chain, &mut labels);
        // Done last, since the second opinion may have dropped the label of the first error.
        if self.first_error_only
            && let Some(wrong) = labels.iter().position(|&label| label == Some(0.0))
        {
            labels[wrong + 1..].fill(None);
        }
        labels
    }

    /// Returns the label of the whole chain, for an outcome reward model. Without sources the label
    /// is the chain's outcome. With sources it is the lowest label of a step; that minimum is known
    /// if a label is 0 or the last step has a label.
    #[must_use]
    pub fn chain_label(&self, chain: &LabelledChain) -> Option<f64> {
        if self.sources.is_empty() {
            return chain.outcome.map(hard);
        }
        let labels = self.labels(chain);
        let lowest = labels.iter().flatten().copied().reduce(f64::min);
        lowest.filter(|&lowest| lowest == 0.0 || labels.last().is_some_and(Option::is_some))
    }

    /// Lets one source decide the steps that no earlier source has decided.
    fn add(&self, source: &Source, chain: &LabelledChain, known: &mut [Known]) {
        let steps = &chain.steps;
        let any_wrong = known
            .iter()
            .any(|known| known.flatten().is_some_and(|label| label < 0.5));
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
                        // A dropped rating leaves the step to the marked first error, if the chain
                        // has one.
                        Neutral::Drop => Some(marked(chain, i)),
                    },
                    rated => rated.map(|rating| Some(hard(rating? > 0))),
                },
                Source::Rollouts => {
                    // The first step has no previous share to compare with.
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
                    let mut verdicts = step.checked(by.as_deref());
                    let passes = verdicts.any(|verdict| matches!(verdict, Checked::Pass));
                    passes.then_some(Some(1.0))
                }
                Source::Judge {
                    name,
                    cut,
                    hard: is_hard,
                } => {
                    let score = step.opinion(name.as_deref());
                    let sure = score.filter(|p| cut.is_none_or(|cut| p.max(1.0 - p) >= cut));
                    sure.map(|p| Some(if *is_hard { hard(p > 0.5) } else { p }))
                }
                Source::Outcome => {
                    // A wrong outcome does not tell which step is wrong. The whole chain contains
                    // the error, so only the last step is labelled.
                    let outcome = chain.outcome.filter(|_| !any_wrong);
                    let known = outcome.filter(|&right| right || i + 1 == steps.len());
                    known.map(|right| Some(hard(right)))
                }
                Source::When { bounds, above } => {
                    let all = bounds.iter().all(|Bound { of, bound }| {
                        let number = step.quantity(of);
                        number.is_some_and(|n| if *above { n > *bound } else { n < *bound })
                    });
                    all.then_some(Some(hard(*above)))
                }
            };
        }
    }

    /// Filters labels by a second opinion: a checker's fail or, without one, the mean score of the
    /// judges.
    fn keep_agreed(&self, chain: &LabelledChain, labels: &mut [Option<f64>]) {
        fn is_right(p: f64) -> bool {
            p > 0.5
        }
        let second = || {
            chain.steps.iter().map(|step| {
                // A checker's fail is a proof and overrides the judges' scores.
                let opinion = if step.fails(None) {
                    Some(0.0)
                } else {
                    step.opinion(None)
                };
                opinion.map(is_right)
            })
        };
        match self.agree {
            None => {}
            Some(agree @ (Agree::Steps | Agree::Known)) => {
                let silence_agrees = agree == Agree::Known;
                for (label, second) in labels.iter_mut().zip(second()) {
                    *label = label.filter(|&label| {
                        second.map_or(silence_agrees, |second| second == is_right(label))
                    });
                }
            }
            Some(Agree::Chains) => {
                let mut own = labels.iter().map(|label| label.map(is_right));
                let first = own.position(|is_right| is_right == Some(false));
                // Without second opinions no step is below one half, which is no agreement with a
                // chain that has no wrong label.
                let judged = second().any(|opinion| opinion.is_some());
                if !judged || second().position(|opinion| opinion == Some(false)) != first {
                    labels.fill(None);
                }
            }
        }
    }

    /// Returns the label that rollouts give a step. `before` is the share of the previous step.
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

/// Returns the label of step `i` if the chain's first error is marked: 1 before the error, 0 at it,
/// `None` after it.
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
        let of_rule = |rule| labels(rule, &counts);
        let (yes, no) = (Some(1.0), Some(0.0));
        assert_eq!(of_rule(RolloutLabel::Hard), [yes, yes, no, None, yes]);
        assert_eq!(
            of_rule(RolloutLabel::Soft),
            [yes, Some(0.25), no, None, Some(0.125)]
        );
        assert_eq!(
            of_rule(RolloutLabel::Threshold(0.2)),
            [yes, yes, no, None, no]
        );
        assert_eq!(of_rule(RolloutLabel::Ratio(0.8)), [yes, no, no, None, yes]);
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
        fn chain(opinions: [Option<f64>; 3]) -> LabelledChain {
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
        }
        fn labels(agree: Agree, opinions: [Option<f64>; 3]) -> Vec<Option<f64>> {
            let rule = LabelRule {
                agree: Some(agree),
                ..LabelRule::default()
            };
            rule.labels(&chain(opinions))
        }
        let (yes, no) = (Some(1.0), Some(0.0));
        let opinions = [Some(0.9), Some(0.2), Some(0.4)];
        assert_eq!(labels(Agree::Steps, opinions), [yes, no, None]);
        assert_eq!(labels(Agree::Chains, opinions), [yes, no, yes]);
        let late = [Some(0.9), Some(0.7), Some(0.4)];
        assert_eq!(labels(Agree::Steps, late), [yes, None, None]);
        assert_eq!(labels(Agree::Chains, late), [None; 3]);
        // A checker decides few steps only.
        let (fails, first_fails) = ([None, None, Some(0.0)], [Some(0.0), Some(0.0), None]);
        assert_eq!(labels(Agree::Known, fails), [yes, no, None]);
        assert_eq!(labels(Agree::Known, first_fails), [None, no, yes]);
        // Without opinions the labels are dropped, even if the chain has no wrong step.
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
        let chain = LabelledChain {
            steps: vec![LabelledStep {
                rating: Some(0),
                right: Some(true),
                ..LabelledStep::default()
            }],
            ..LabelledChain::default()
        };
        for (neutral, label) in [
            (Neutral::Positive, Some(1.0)),
            (Neutral::Negative, Some(0.0)),
            (Neutral::Half, Some(0.5)),
            (Neutral::Drop, None),
        ] {
            let rule = LabelRule {
                neutral,
                ..LabelRule::default()
            };
            assert_eq!(rule.labels(&chain), [label], "{neutral:?}");
        }
    }

    /// Returns the labels by sources in their text form.
    fn by(chain: &LabelledChain, sources: &[&str]) -> Vec<Option<f64>> {
        let sources = sources.iter().map(|text| text.parse().unwrap()).collect();
        let rule = LabelRule {
            sources,
            ..LabelRule::default()
        };
        rule.labels(chain)
    }

    /// Makes three steps with 8, 6 and 0 right rollouts of 8. A checker passes the first step and
    /// fails the second. Judge a scores 0.95, 0.6 and 0.1; judge b scores only the first step,
    /// 0.85.
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
        let verdicts = [Checked::Pass, Checked::Fail("2 + 2 is 4".to_owned())];
        for (step, verdict) in chain.steps.iter_mut().zip(verdicts) {
            step.verdicts.insert("arithmetic".to_owned(), verdict);
        }
        chain
    }

    #[test]
    fn each_rule_reads_its_own_facts_and_the_first_that_speaks_counts() {
        let chain = all_facts();
        let (yes, no) = (Some(1.0), Some(0.0));
        // A fail decides its own step and all later steps, so later sources label only the steps
        // before.
        assert_eq!(by(&chain, &["verdict"]), [None, no, None]);
        assert_eq!(by(&chain, &["verdict", "rollouts"]), [yes, no, None]);
        assert_eq!(by(&chain, &["rollouts", "verdict"]), [yes, yes, no]);
        assert_eq!(by(&chain, &["verdict=other", "pass"]), [yes, None, None]);
        // If a source before it finds a wrong step, a right outcome labels nothing.
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
        // The default sources use neither verdicts nor scores of judges.
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
        fn rated(ratings: &[(&str, i8)]) -> LabelledChain {
            let ratings = ratings.iter().map(|&(name, rating)| {
                let (rating, comment) = (Some(rating), None);
                (name.to_owned(), crate::Rated { rating, comment })
            });
            LabelledChain {
                steps: vec![LabelledStep {
                    ratings: ratings.collect(),
                    right: Some(true),
                    ..LabelledStep::default()
                }],
                ..LabelledChain::default()
            }
        }
        let two = rated(&[("anna", -1), ("ben", -1), ("cleo", 1)]);
        assert_eq!(by(&two, &[]), [Some(0.0)]);
        assert_eq!(by(&two, &["rating=cleo"]), [Some(1.0)]);
        assert_eq!(by(&two, &["rating=dora"]), [None]);
        assert_eq!(by(&two, &["rating=dora", "given"]), [Some(1.0)]);
        // With a tie the step has no label, although `right` is recorded.
        assert_eq!(by(&rated(&[("anna", -1), ("ben", 1)]), &[]), [None]);
    }

    #[test]
    fn an_outcome_model_learns_the_outcome_or_what_the_rules_say() {
        fn of(chain: &LabelledChain, sources: &[&str]) -> Option<f64> {
            let sources = sources.iter().map(|text| text.parse().unwrap()).collect();
            let rule = LabelRule {
                sources,
                ..LabelRule::default()
            };
            rule.chain_label(chain)
        }
        let chain = all_facts();
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
