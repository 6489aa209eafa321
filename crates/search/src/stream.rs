//! Random streams. A chain's stream follows only from its place in the tree, not from the order in
//! which chains arrive.

/// The random stream of the root: the bytes "beamgen1" as a number.
pub(crate) const ROOT_STREAM: u64 = 0x6265_616d_6765_6e31;

/// Returns the stream of the `index`-th child of a node with the stream `parent`.
pub fn child_stream(parent: u64, index: u32) -> u64 {
    mix(parent ^ mix(u64::from(index).wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

/// Hashes `bytes`, continuing from the hash `seed`.
pub(crate) fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    // The last chunk is padded with zeros, so the length is hashed to tell padding from zeros.
    let start = mix(seed ^ bytes.len() as u64);
    bytes.chunks(8).fold(start, |state, chunk| {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(state ^ u64::from_le_bytes(word))
    })
}

/// The finaliser of `SplitMix64` after one step of its counter: a bijection.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn streams_of_a_tree_do_not_collide() {
        let mut seen = HashSet::from([ROOT_STREAM]);
        let mut level = vec![ROOT_STREAM];
        for _ in 0..4 {
            level = level
                .iter()
                .flat_map(|&parent| (0..12).map(move |index| child_stream(parent, index)))
                .collect();
            assert!(level.iter().all(|&stream| seen.insert(stream)));
        }
    }

    #[test]
    fn hash_separates_lengths_and_seeds() {
        let hashes = [
            hash_bytes(b"", 0),
            hash_bytes(b"\0", 0),
            hash_bytes(b"\0\0", 0),
            hash_bytes(b"", 1),
            hash_bytes(b"abcdefgh", 0),
            hash_bytes(b"abcdefgh\0", 0),
        ];
        assert_eq!(HashSet::from(hashes).len(), hashes.len());
    }
}
