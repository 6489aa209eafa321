//! Conversion of a tree of steps to chains, for formats that store trees.

use crate::{LabelledChain, LabelledStep, Reason};

/// The limit for the bytes of all chains of one record. Steps near the root are copied into the
/// chain of each leaf, so without a limit a small file could exhaust the memory.
const MOST_BYTES: usize = 64 << 20;

/// A step and its place in the tree.
pub(super) struct Node {
    /// The step without the boundary that ends it.
    pub text: String,
    /// A soft label from 0 to 1.
    pub soft: Option<f64>,
    /// The index of the parent, which is smaller than the node's own; `None` for a first step.
    pub parent: Option<usize>,
}

/// Makes one chain per leaf; all other fields are copied from `like`. A step that several chains
/// share is labelled only in the first of them, so that each label counts once.
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
            // Checked before the text is copied, so that memory never exceeds the limit.
            if bytes > MOST_BYTES {
                let most = MOST_BYTES >> 20;
                return Err(Reason::new(format!(
                    "the chains are longer than {most} MiB together: split the tree"
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
