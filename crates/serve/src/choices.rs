//! The chains of a search that are its answers: the chosen one, then the next best of other texts.

use std::collections::BTreeSet;

use beamgen::ProblemResult;
use beamgen::program::Standing;
use beamgen::result::FinishedChain;
use beamgen::strategy::NodeId;

/// Returns the last nodes of up to `most` chains of different texts, best first. Chains that came to an
/// end come before those that hit a limit, chains with an answer before others. A chain that scores
/// below `threshold` is withheld, and with it all others if it is the chosen one.
pub(crate) fn best(result: &ProblemResult, most: usize, threshold: f32) -> Vec<NodeId> {
    let chosen = result.chosen;
    if most == 1 || result.withheld.is_some() {
        return chosen.into_iter().collect();
    }
    let is_low = |chain: &FinishedChain| chain.score.is_some_and(|score| score < threshold);
    let chains = result.finished.iter().filter(|chain| !is_low(chain));
    let mut chains: Vec<&FinishedChain> = chains.collect();
    // Stable: of equal chains the earlier one comes first, as in the choice of the answer.
    chains.sort_by(|a, b| {
        rank(a)
            .cmp(&rank(b))
            .then_with(|| standing(a).order(standing(b)))
    });
    let nodes = chosen
        .into_iter()
        .chain(chains.iter().map(|chain| chain.node));
    let mut texts = BTreeSet::new();
    nodes
        .filter(|&node| texts.insert(result.tree.text(node).trim().to_owned()))
        .take(most)
        .collect()
}

fn rank(chain: &FinishedChain) -> (bool, bool) {
    (!chain.finish.is_complete(), chain.answer.is_none())
}

fn standing(chain: &FinishedChain) -> Standing {
    Standing {
        is_guess: chain.is_guess,
        score: chain.score,
    }
}
