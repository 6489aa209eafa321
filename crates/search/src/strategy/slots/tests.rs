use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

/// A round of search-and-learn's beam search, from `tests/fixtures/search_and_learn/make_rounds.py`.
#[derive(Deserialize)]
struct Round {
    n: usize,
    beam_width: usize,
    agg_strategy: String,
    filter_duplicates: bool,
    beams: Vec<Beam>,
    /// The texts of the kept chains, with copies.
    kept: Vec<String>,
    /// The lowest score of a kept chain.
    cutoff: f64,
    /// Whether other chains have that score, too.
    tied: bool,
}

#[derive(Deserialize)]
struct Beam {
    parent: String,
    text: String,
    scores: Vec<f64>,
}

impl Round {
    fn slots(&self) -> Slots {
        Slots {
            count: self.n / self.beam_width,
            copies: if self.filter_duplicates {
                Copies::Distinct
            } else {
                Copies::Slots
            },
            aggregation: match self.agg_strategy.as_str() {
                "last" => Aggregation::Last,
                "min" => Aggregation::Min,
                _ => Aggregation::Product,
            },
        }
    }

    /// Returns the tree of the chains, and the last node of each different text.
    fn tree(&self) -> (ChainTree, BTreeMap<&str, NodeId>) {
        let mut tree = ChainTree::new();
        let (mut parents, mut leaves) = (BTreeMap::new(), BTreeMap::new());
        for beam in &self.beams {
            let (last, before) = beam.scores.split_last().expect("a score");
            let parent = *parents.entry(&beam.parent).or_insert_with(|| {
                before.iter().fold(ChainTree::ROOT, |at, score| {
                    let node = tree.add_child(at);
                    tree.node_mut(node).score = Some(*score as f32);
                    node
                })
            });
            if let Some(&leaf) = leaves.get(beam.text.as_str()) {
                tree.node_mut(leaf).copies += 1;
            } else {
                let leaf = tree.add_child(parent);
                tree.node_mut(leaf).score = Some(*last as f32);
                leaves.insert(beam.text.as_str(), leaf);
            }
        }
        (tree, leaves)
    }
}

/// Counts the texts that satisfy `is_wanted`.
fn counts<'a>(
    texts: impl Iterator<Item = &'a str>,
    is_wanted: impl Fn(&str) -> bool,
) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for text in texts.filter(|text| is_wanted(text)) {
        *counts.entry(text).or_default() += 1;
    }
    counts
}

/// search-and-learn and this crate keep the same chains, with the same number of copies. Where chains tie for the last
/// place, both keep the same number of them: which ones depends on `NumPy` there, and is the earliest here.
#[test]
fn the_chains_of_search_and_learn_are_kept() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/search_and_learn/rounds.json"
    );
    let text = std::fs::read_to_string(path).expect("the fixture");
    let rounds: Vec<Round> = serde_json::from_str(&text).expect("rounds");
    assert_eq!(rounds.len(), 200);
    let tied = rounds.iter().filter(|round| round.tied).count();
    assert!((20..150).contains(&tied), "{tied} rounds with ties");
    for (at, round) in rounds.iter().enumerate() {
        let (slots, (tree, leaves)) = (round.slots(), round.tree());
        let names: BTreeMap<NodeId, &str> = leaves.iter().map(|(&text, &id)| (id, text)).collect();
        let kept = slots.keep(&tree, leaves.values().copied().collect());
        let ours = kept.survivors.iter();
        let ours: Vec<&str> = ours
            .flat_map(|&(id, slots)| std::iter::repeat_n(names[&id], slots))
            .collect();
        let score = |text: &str| tree.chain_score(leaves[text], slots.aggregation);
        let cutoff = Some(round.cutoff as f32);
        let theirs = || round.kept.iter().map(String::as_str);
        let is_sure = |text: &str| !round.tied || score(text) > cutoff;
        assert_eq!(
            counts(ours.iter().copied(), is_sure),
            counts(theirs(), is_sure),
            "round {at}"
        );
        assert_eq!(ours.len(), theirs().count(), "round {at}");
        assert!(ours.iter().all(|text| score(text) >= cutoff), "round {at}");
    }
}
