//! Chains out of a tree of steps.

use crate::{LabelledChain, LabelledStep, Reason};

/// The most text that the chains of one record may have: a long step above many leaves is in each
/// of their chains.
const MOST_BYTES: usize = 64 << 20;

/// A step and its place in the tree.
pub(super) struct Node {
    /// Without its boundary.
    pub text: String,
    /// Its label.
    pub soft: Option<f64>,
    /// The step before it, an earlier node; `None` for a first step.
    pub parent: Option<usize>,
}

/// A chain for each leaf, in the nodes' order, with what `like` says of them. A step that several
/// chains share has its label in the first of them only, so that no label counts twice.
pub(super) fn chains(like: &LabelledChain, nodes: &[Node]) -> Result<Vec<LabelledChain>, Reason> {
    let mut is_leaf = vec![true; nodes.len()];
    for parent in nodes.iter().filter_map(|node| node.parent) {
        is_leaf[parent] = false;
    }
    let mut labelled = vec![false; nodes.len()];
    let mut bytes = 0;
    let mut chains = Vec::new();
    for leaf in (0..nodes.len()).filter(|&at| is_leaf[at]) {
        let mut steps = Vec::new();
        let mut at = Some(leaf);
        while let Some(here) = at {
            let node = &nodes[here];
            bytes += node.text.len() + size_of::<LabelledStep>();
            if bytes > MOST_BYTES {
                let most = MOST_BYTES >> 20;
                return Err(Reason::new(format!(
                    "its chains are longer than {most} MiB together"
                )));
            }
            let first = !std::mem::replace(&mut labelled[here], true);
            steps.push(LabelledStep {
                soft: node.soft.filter(|_| first),
                ..LabelledStep::unlabelled(node.text.clone())
            });
            at = node.parent;
        }
        steps.reverse();
        chains.push(LabelledChain {
            steps,
            ..like.clone()
        });
    }
    if chains.is_empty() {
        Err(Reason::new("no steps in it"))
    } else {
        Ok(chains)
    }
}
