//! Selects the chains that answer a request for several choices.

use std::collections::BTreeSet;

use beamgen::ProblemResult;
use beamgen::program::Standing;
use beamgen::result::FinishedChain;
use beamgen::strategy::NodeId;

/// Returns the last nodes of up to `most` chains with different texts. The chosen chain is first.
/// The others follow by rank: complete chains before chains that hit a limit, then chains with an
/// answer before chains without one, then chains that state their answer before chains whose answer
/// is guessed, then by score. Chains that score below `threshold` are left out, and if the chosen
/// chain is withheld, all others are, too.
pub(crate) fn best(result: &ProblemResult, most: usize, threshold: f32) -> Vec<NodeId> {
    let chosen = result.chosen;
    if most == 1 || result.withheld.is_some() {
        return chosen.into_iter().collect();
    }
    let is_low = |chain: &FinishedChain| chain.score.is_some_and(|score| score < threshold);
    let chains = result.finished.iter().filter(|chain| !is_low(chain));
    let mut chains: Vec<&FinishedChain> = chains.collect();
    // The sort is stable: of equal chains the one that finished first wins, as in the choice of the
    // answer.
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
