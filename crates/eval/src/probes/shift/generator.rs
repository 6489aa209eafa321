//! Chains that another generator wrote.

use std::cmp::Reverse;

use super::{Parts, Shift, kinds};
use crate::quality::ScoredChain;

pub static SHIFT: Shift = Shift {
    key: "other-generator",
    name: "other generator",
    about: "Chains of the generator that wrote most of them, and those of all others.",
    parts,
};

fn of(chain: &ScoredChain) -> Option<&String> {
    chain.generator.as_ref()
}

fn parts(chains: &[ScoredChain]) -> Option<Parts> {
    let mut kinds: Vec<(&String, usize)> = kinds(chains, of).into_iter().collect();
    // Of several with as many chains, the first by name.
    kinds.sort_by_key(|&(_, count)| Reverse(count));
    let mut names = kinds.into_iter().map(|(name, _)| name.clone());
    let home = vec![names.next()?];
    let away: Vec<String> = names.collect();
    (!away.is_empty()).then_some(Parts { of, home, away })
}
