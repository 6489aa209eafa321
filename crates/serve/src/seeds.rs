//! Makes seeds: for requests that give none, and for the further answers to a request.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use beamgen::program::child_stream;

/// The bits by which a seed exceeds the 53 bits that JSON numbers keep exactly in other languages.
const UNSAFE_BITS: u32 = 11;

/// A source of seeds that cannot be predicted and are practically unique.
#[derive(Debug, Default)]
pub(crate) struct Seeds {
    /// The key of the hash, which the standard library takes from the system's randomness.
    key: RandomState,
    count: AtomicU64,
}

impl Seeds {
    /// Returns the next seed, below 2^53.
    pub(crate) fn fresh(&self) -> u64 {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        self.key.hash_one(count) >> UNSAFE_BITS
    }
}

/// Returns the seed of choice `index` of a request: `seed` itself for the first choice, and a hash
/// of seed and index, below 2^53, for the others.
pub(crate) fn of_choice(seed: u64, index: usize) -> u64 {
    match u32::try_from(index) {
        Ok(0) => seed,
        index => child_stream(seed, index.unwrap_or(u32::MAX)) >> UNSAFE_BITS,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_are_exact_in_json_and_differ() {
        let (one, other) = (Seeds::default(), Seeds::default());
        let fresh = (0..500).flat_map(|_| [one.fresh(), other.fresh()]);
        let derived = (1..500).flat_map(|i| [of_choice(0, i), of_choice(1, i)]);
        let seeds: Vec<u64> = fresh.chain(derived).collect();
        assert!(seeds.iter().all(|&seed| seed < 1 << 53));
        assert_eq!(BTreeSet::from_iter(&seeds).len(), seeds.len());
        assert_eq!((of_choice(7, 0), of_choice(7, 3)), (7, of_choice(7, 3)));
    }
}
