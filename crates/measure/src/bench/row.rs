//! The raw row of a bench, for one problem, cell and seed. Rows are the lines of a results folder.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use beamgen::ProblemResult;
use beamgen::eval::answer::{Verdict, compare};
use beamgen::eval::pool::Sample;
use beamgen::eval::{chain_verdict, is_correct};
use beamgen::result::{FinishedChain, Ledger};
use beamgen::scorer::ScorerKind;
use beamgen::strategy::ChainTree;
use serde::{Deserialize, Serialize};

use super::audit::Audit;
use super::outline::Cell;

/// The result of one search, as one cell sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The name of the set.
    pub set: String,
    /// The name of the run.
    pub run: String,
    /// N, the number of chains.
    pub n: usize,
    /// M, the number of expansions.
    pub m: usize,
    /// The kind of scorer; `none` if the cell only samples or votes.
    pub scorer: ScorerKind,
    /// The seed of the search, from which all its random numbers are derived.
    pub seed: u64,
    /// The id of the problem, unique in its set.
    pub id: String,
    /// Whether the answer is right.
    pub correct: bool,
    /// Whether any finished chain is right, chosen or not; missing in rows of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any_right: Option<bool>,
    /// The answer of the search; `None` if no chain had one.
    pub answer: Option<String>,
    /// The aggregated score of the chosen chain; `None` without a scorer.
    pub score: Option<f32>,
    /// The reason why the chosen chain ended.
    pub finish: String,
    /// The cost of the search.
    pub ledger: Ledger,
    /// True if the search was made with scores for other cells, which this cell ignores. `peak_kv_bytes` is then an
    /// upper bound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_scores: bool,
    /// The finding of the chosen chain's audit; missing where none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// The number of verdicts that failing checkers lost; `None` for zero. With these verdicts the result might
    /// differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_verdicts: Option<NonZeroUsize>,
    /// The number of the uninterrupted stretch in which the search ran; it rises by one at each resume.
    pub part: u32,
    /// Wall-clock seconds from the start of that stretch to this result.
    pub wall: f64,
    /// Tokens by the depth of their step.
    pub depths: Depths,
    /// All finished chains; only in cells whose samples serve as a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chains: Option<Chains>,
}

impl Row {
    pub(super) fn new(
        set: &str,
        cell: &Cell,
        seed: u64,
        result: &ProblemResult,
        without_scores: bool,
    ) -> Self {
        let mut depths = Depths::of(result);
        if without_scores {
            // The scores were computed for other cells, so this cell has no scored tokens.
            depths.scored.clear();
        }
        let chosen = result.chosen_chain();
        let mut ledger = result.ledger.clone();
        // Clocks have no more digits, so these would only make the file larger.
        for seconds in [
            &mut ledger.seconds.generate,
            &mut ledger.seconds.score,
            &mut ledger.seconds.search,
        ] {
            *seconds = microseconds(*seconds);
        }
        Self {
            set: set.to_owned(),
            run: cell.run.clone(),
            n: cell.n(),
            m: cell.config.search.m,
            scorer: cell.config.models.scorer,
            seed,
            id: result.problem.id.clone(),
            // A search without an answer is wrong.
            correct: is_correct(result) == Some(true),
            any_right: Some(right_chains(result).contains(&true)),
            answer: result.answer.clone(),
            score: result.score,
            finish: chosen.map_or("stopped", |it| it.finish.name()).to_owned(),
            ledger,
            without_scores,
            audit: None,
            lost_verdicts: NonZeroUsize::new(result.lost_verdicts),
            part: 0,
            wall: 0.0,
            depths,
            chains: None,
        }
    }
}

/// Returns for each finished chain whether it is right.
fn right_chains(result: &ProblemResult) -> Vec<bool> {
    let mut graded: BTreeMap<String, bool> = BTreeMap::new();
    let expected = result.problem.answer.as_deref();
    let mut is_right = |chain: &FinishedChain| -> bool {
        let (Some(class), Some(answer)) = (&chain.class, &chain.answer) else {
            return false;
        };
        // A verifier judges chains, and two chains with one answer may differ.
        if result.verifier.is_some() {
            return chain_verdict(chain) == Verdict::Same;
        }
        // Grading can be slow, so each distinct answer is graded once.
        *graded.entry(class.clone()).or_insert_with(|| {
            expected.is_some_and(|expected| compare(answer, expected) == Verdict::Same)
        })
    };
    result.finished.iter().map(&mut is_right).collect()
}

/// Rounds seconds to microseconds, the resolution of clocks.
pub(super) fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

/// Tokens by the depth of their step, the first step first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Depths {
    /// All sampled tokens, in pruned and in kept steps.
    pub sampled: Vec<u32>,
    /// Sampled tokens that are in a finished chain.
    pub kept: Vec<u32>,
    /// Sampled tokens that the scorer read; empty if it read nothing.
    pub scored: Vec<u32>,
}

impl Depths {
    fn of(result: &ProblemResult) -> Self {
        let tree = &result.tree;
        let mut kept = vec![false; tree.len()];
        for chain in &result.finished {
            let mut at = Some(chain.node);
            // The walk stops at a marked node, whose ancestors an earlier chain has marked.
            while let Some(node) = at.filter(|node| !kept[node.0 as usize]) {
                kept[node.0 as usize] = true;
                at = tree.node(node).parent;
            }
        }
        let count =
            |counts: &dyn Fn(usize, &beamgen::strategy::Node) -> bool| by_depth(tree, counts);
        Self {
            sampled: count(&|_, _| true),
            kept: count(&|at, _| kept[at]),
            scored: count(&|_, node| node.score.is_some()),
        }
    }
}

fn by_depth(
    tree: &ChainTree,
    counts: &dyn Fn(usize, &beamgen::strategy::Node) -> bool,
) -> Vec<u32> {
    let mut tokens = Vec::new();
    for (id, node) in tree.nodes() {
        let depth = node.depth as usize;
        // The root at depth 0 is the prompt and not a step.
        if depth == 0 || !counts(id.0 as usize, node) {
            continue;
        }
        if tokens.len() < depth {
            tokens.resize(depth, 0);
        }
        tokens[depth - 1] += node.tokens.len() as u32;
    }
    tokens
}

/// The finished chains of a search as columns, which take less space than objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chains {
    /// A character for each chain: `1` for a right answer, `0` for a wrong one or none.
    pub right: String,
    /// A number for each chain that equal answers share; `null` without an answer.
    pub class: Vec<Option<u32>>,
    /// A character for each chain: `1` if its answer is a guess. Empty if no answer is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub guess: String,
    /// The aggregated score of each chain; `null` without a score.
    pub score: Vec<Option<f32>>,
    /// The number of tokens sampled for each chain, its cost.
    pub tokens: Vec<u32>,
    /// The scores of each chain's steps; empty if no step of any chain has a score.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Vec<f32>>,
    /// A character for each chain: [`Audit::letter`] if its answer is right, else `-`. Empty without audits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub audit: String,
}

impl Chains {
    /// Returns the finished chains of a result whose tree is still present.
    pub(super) fn of(result: &ProblemResult) -> Self {
        let mut chains = Self::default();
        let mut classes: Vec<&str> = Vec::new();
        for (chain, right) in result.finished.iter().zip(right_chains(result)) {
            let class = chain.class.as_deref().map(|class| {
                let known = classes.iter().position(|&name| name == class);
                known.unwrap_or_else(|| {
                    classes.push(class);
                    classes.len() - 1
                })
            });
            chains.right.push(if right { '1' } else { '0' });
            chains.class.push(class.map(|class| class as u32));
            chains.guess.push(if chain.is_guess { '1' } else { '0' });
            chains.score.push(chain.score);
            chains
                .tokens
                .push(result.tree.token_count(chain.node) as u32);
            let scores = result.tree.steps(chain.node).filter_map(|step| step.score);
            chains.steps.push(scores.collect());
        }
        // A column without information is left out of the file.
        if chains.steps.iter().all(Vec::is_empty) {
            chains.steps.clear();
        }
        if !chains.guess.contains('1') {
            chains.guess.clear();
        }
        chains
    }

    /// Returns the chains as samples of a pool.
    pub(super) fn samples(&self) -> impl Iterator<Item = Sample> + use<'_> {
        // An empty column stands for zeros.
        let guesses = self.guess.bytes().chain(std::iter::repeat(b'0'));
        let columns = self.class.iter().zip(&self.score).zip(&self.tokens);
        self.right.bytes().zip(guesses).zip(columns).map(
            |((right, guess), ((&class, &score), &tokens))| Sample {
                correct: right == b'1',
                class,
                is_guess: guess == b'1',
                score,
                tokens,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use beamgen::eval::pool::chosen_at_k;
    use beamgen::{Choose, Problem};
    use serde_json::json;

    use super::*;

    #[test]
    fn all_of_a_pool_chooses_as_the_search_did() {
        let problem = Problem {
            id: "1".to_owned(),
            text: "1 + 1?".to_owned(),
            answer: Some("2".to_owned()),
            ..Problem::default()
        };
        let mut result = ProblemResult::unsearched(0, problem);
        // A search prefers a marked answer to a guess, even with a lower score.
        let chains = [("1", 0.9, true), ("2", 0.5, false)].map(|(answer, score, is_guess)| {
            json!({
                "node": 0, "finish": "answer", "score": score, "logprob": 0.0,
                "answer": answer, "class": answer, "is_guess": is_guess,
            })
        });
        result.finished = serde_json::from_value(json!(chains)).unwrap();
        let kept = Chains::of(&result);
        let pool: Vec<Sample> = kept.samples().collect();
        for &how in Choose::ALL {
            result.answer = result.choose(how, 2).unwrap().answer.clone();
            let right = f64::from(is_correct(&result) == Some(true));
            assert_eq!(chosen_at_k(&pool, 2, how, 0), Some(right), "{how}");
        }
        // Rows of earlier versions do not tell guesses apart.
        let mut earlier = serde_json::to_value(&kept).unwrap();
        earlier.as_object_mut().unwrap().remove("guess");
        let earlier: Chains = serde_json::from_value(earlier).unwrap();
        assert!(earlier.samples().all(|sample| !sample.is_guess));
        assert_eq!(earlier.samples().count(), 2);
    }
}
