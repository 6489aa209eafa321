//! The choice of the answer among the finished chains.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray, VariantNames};

use crate::error::ConfigError;
use crate::finish::{Border, Finish};
use crate::numbers::one;
use crate::outcome::Outcome;
use crate::thoughts;
use crate::tree::NodeId;

/// The rule that picks the answer of a problem from its finished chains.
#[derive(Serialize, Deserialize, Display, EnumString, VariantArray, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_ty = ConfigError, parse_err_fn = Choose::unknown)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Choose {
    /// The answer of the chain with the highest score. Chains that state an answer come before
    /// chains with a guess.
    #[default]
    Best,
    /// The answer that most chains give, whatever their scores.
    Majority,
    /// The answer whose chains have the largest sum of scores.
    Weighted,
}

impl Choose {
    /// All variants, in the order of help texts.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    fn unknown(name: &str) -> ConfigError {
        let known = <Self as VariantNames>::VARIANTS;
        ConfigError::unknown("choose", name, known.iter().copied())
    }
}

/// An answer found in the text of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The answer exactly as the text has it.
    pub text: String,
    /// Whether the answer is a guess, such as the last number of a text that marks no answer.
    pub is_guess: bool,
}

impl Answer {
    /// Makes an answer that is not a guess.
    pub fn stated(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_guess: false,
        }
    }
}

/// The knowledge about answers that a search needs: how to find an answer in a text, and which
/// answers are the same.
pub trait Answers {
    /// Returns the final answer in the text of a whole chain; `None` if the text has none.
    fn extract(&self, text: &str) -> Option<Answer>;

    /// Returns a canonical form: two answers are the same if and only if their classes are equal.
    fn class(&self, answer: &str) -> String;

    /// Whether a chain that ends with `text` has stated its answer and can end there. By default,
    /// `text` has to contain one of `markers` outside of its thoughts. After a [`Border::Length`]
    /// the last word or number of `text` may be incomplete.
    fn is_stated(&self, text: &str, markers: &[String], _border: Border) -> bool {
        // A thought may mention a marker without stating an answer.
        let spoken = thoughts::spoken(text);
        spoken.is_some_and(|text| markers.iter().any(|marker| text.contains(marker)))
    }
}

/// A chain that has ended, with its score and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinishedChain {
    /// The last node of the chain in the problem's tree.
    pub node: NodeId,
    /// The reason why the chain ended. Only some reasons let the chain give an answer
    /// ([`Finish::is_complete`]).
    pub finish: Finish,
    /// The aggregated score of the chain; `None` if no step was scored.
    pub score: Option<f32>,
    /// The sum of the log-probabilities (natural logarithm) of the chain's tokens.
    pub logprob: f32,
    /// The chain's answer. Only complete chains can have one.
    pub answer: Option<String>,
    /// Whether the answer is a guess: nothing in the chain marks it as the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_guess: bool,
    /// The canonical form of the answer ([`Answers::class`]).
    pub class: Option<String>,
    /// The number of chains that were sampled with this text; each of them has a vote.
    #[serde(default = "one")]
    pub copies: usize,
    /// The verifier's finding; `None` if no verifier judged the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// Returns the index in `chains` of the chain whose answer is chosen; `None` if no chain has an
/// answer.
///
/// Only complete chains with an answer take part, and each copy of a chain has a vote. Equal scores
/// go to the earlier chain, equal votes to the class with the best chain. The best chain of the
/// winning class represents it. A chain without a score has the weight 0.
///
/// The chains of best-of-N are independent and in order, so `choose(&chains[..k], ..)` is the
/// choice that best-of-k would have made.
pub fn choose(chains: &[FinishedChain], how: Choose) -> Option<usize> {
    let by_score = ranked(chains);
    let best = *by_score.first()?;
    if how == Choose::Best {
        return Some(best);
    }
    // Classes are in the order of their best chains, so the first of several maxima wins a tie.
    let mut classes: Vec<(&str, usize, f64)> = Vec::new();
    for &i in &by_score {
        let each = match how {
            Choose::Weighted => f64::from(chains[i].score.unwrap_or(0.0)),
            Choose::Best | Choose::Majority => 1.0,
        };
        let weight = each * chains[i].copies as f64;
        let class = chains[i].class.as_deref().unwrap_or_default();
        match classes.iter_mut().find(|(name, ..)| *name == class) {
            Some((_, _, votes)) => *votes += weight,
            None => classes.push((class, i, weight)),
        }
    }
    let mut winner = classes[0];
    for &class in &classes[1..] {
        // Strictly greater: a tie stays with the class whose best chain ranks first.
        if class.2 > winner.2 {
            winner = class;
        }
    }
    Some(winner.1)
}

/// Returns the indices of the chains that give an answer, in the order of their [`Standing`].
pub(crate) fn ranked(chains: &[FinishedChain]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..chains.len())
        .filter(|&i| chains[i].answer.is_some() && chains[i].finish.is_complete())
        .collect();
    // A stable sort: of equal standing the earlier chain comes first.
    order.sort_by(|&a, &b| Standing::of(&chains[a]).order(Standing::of(&chains[b])));
    order
}

/// The facts that rank a chain that gives an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Whether the chain's answer is a guess; guesses rank after stated answers.
    pub is_guess: bool,
    /// The chain's aggregated score.
    pub score: Option<f32>,
}

impl Standing {
    fn of(chain: &FinishedChain) -> Self {
        Self {
            is_guess: chain.is_guess,
            score: chain.score,
        }
    }

    /// Compares two chains, the better one first. Stated answers come before guesses, whatever the
    /// scores; then the higher score comes first.
    pub fn order(self, other: Self) -> Ordering {
        let own = self.score.unwrap_or(f32::NEG_INFINITY);
        let other_score = other.score.unwrap_or(f32::NEG_INFINITY);
        // Each step of a chain without a stated answer may be right, so such a chain may score
        // high.
        let stated_first = self.is_guess.cmp(&other.is_guess);
        stated_first.then(other_score.total_cmp(&own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(answer: Option<&str>, score: f32) -> FinishedChain {
        FinishedChain {
            node: NodeId(1),
            finish: Finish::Answer,
            score: Some(score),
            logprob: -1.0,
            answer: answer.map(str::to_owned),
            is_guess: false,
            class: answer.map(str::to_owned),
            copies: 1,
            outcome: None,
        }
    }

    #[test]
    fn three_ways_to_choose() {
        let chains = [
            chain(Some("a"), 0.9),
            chain(Some("b"), 0.5),
            chain(Some("b"), 0.6),
            chain(Some("c"), 0.2),
            chain(Some("c"), 0.1),
            chain(Some("c"), 0.1),
        ];
        assert_eq!(choose(&chains, Choose::Best), Some(0));
        assert_eq!(choose(&chains, Choose::Weighted), Some(2));
        assert_eq!(choose(&chains, Choose::Majority), Some(3));
    }

    #[test]
    fn ties_go_to_the_best_chain_then_to_the_first() {
        let chains = [
            chain(Some("a"), 0.25),
            chain(Some("b"), 0.75),
            chain(Some("c"), 0.75),
        ];
        assert_eq!(choose(&chains, Choose::Best), Some(1));
        assert_eq!(choose(&chains, Choose::Majority), Some(1));
        assert_eq!(choose(&chains, Choose::Weighted), Some(1));
    }

    #[test]
    fn a_stated_answer_comes_before_a_guess() {
        let mut chains = [chain(Some("a"), 0.9), chain(Some("b"), 0.1)];
        assert_eq!(choose(&chains, Choose::Best), Some(0));
        chains[0].is_guess = true;
        assert_eq!(choose(&chains, Choose::Best), Some(1));
        assert_eq!(choose(&chains[..1], Choose::Best), Some(0));
        // A guess still has its vote.
        assert_eq!(choose(&chains, Choose::Weighted), Some(0));
    }

    #[test]
    fn every_copy_of_a_chain_has_a_vote() {
        let mut chains = [
            chain(Some("a"), 0.5),
            chain(Some("b"), 0.4),
            chain(Some("b"), 0.3),
        ];
        chains[0].copies = 3;
        assert_eq!(choose(&chains, Choose::Majority), Some(0));
        assert_eq!(choose(&chains, Choose::Weighted), Some(0));
    }

    #[test]
    fn chains_without_answer_or_cut_short_have_no_vote() {
        let mut cut = chain(Some("cut"), 1.0);
        cut.finish = Finish::ChainCap;
        let chains = [cut, chain(None, 0.9), chain(Some("a"), 0.1)];
        for &how in Choose::ALL {
            assert_eq!(choose(&chains, how), Some(2));
            assert_eq!(choose(&chains[..2], how), None);
            assert_eq!(choose(&[], how), None);
        }
    }

    #[test]
    fn unscored_chains_can_vote() {
        let mut chains = vec![chain(Some("a"), 0.0); 3];
        chains[0].class = Some("b".into());
        for c in &mut chains {
            c.score = None;
        }
        assert_eq!(choose(&chains, Choose::Majority), Some(1));
        assert_eq!(choose(&chains, Choose::Weighted), Some(0));
    }
}
