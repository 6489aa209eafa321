//! Problems that are harder.

use super::{Parts, Shift, kinds};
use crate::quality::ScoredChain;

pub static SHIFT: Shift = Shift {
    key: "harder-level",
    name: "harder level",
    about: "Chains of the lower half of the levels that the data name (with an odd number of them, the middle one too), and \
            those of the upper half.",
    parts,
};

fn of(chain: &ScoredChain) -> Option<&String> {
    chain.level.as_ref()
}

fn parts(chains: &[ScoredChain]) -> Option<Parts> {
    let mut levels: Vec<&String> = kinds(chains, of).into_keys().collect();
    levels.sort_by_key(|level| (number(level), *level));
    let lower = levels.len().div_ceil(2);
    let names = |levels: &[&String]| levels.iter().map(|&level| level.clone()).collect();
    (levels.len() > 1).then(|| Parts {
        of,
        home: names(&levels[..lower]),
        away: names(&levels[lower..]),
    })
}

/// The first number in a level's name: levels without one come first.
fn number(level: &str) -> Option<u64> {
    let from = level.find(|c: char| c.is_ascii_digit())?;
    let digits = level[from..].split(|c: char| !c.is_ascii_digit()).next();
    digits?.parse().ok()
}
