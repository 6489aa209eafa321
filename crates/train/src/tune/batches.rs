//! Which examples are computed together.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Batches between which lengths are sorted: enough that those of one batch are alike, few enough
/// that an epoch's order stays random.
const WINDOW: usize = 32;

/// The batches of an epoch: every index of `lengths` once, `batch` of them at a time (the last may
/// have fewer), those of similar length together. A function of its arguments alone.
pub fn epoch(lengths: &[usize], batch: usize, seed: u64, epoch: usize) -> Vec<Vec<usize>> {
    let batch = batch.max(1);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(epoch as u64);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.shuffle(&mut rng);
    for window in order.chunks_mut(WINDOW * batch) {
        window.sort_by_key(|&i| lengths[i]);
    }
    let mut batches: Vec<Vec<usize>> = order.chunks(batch).map(<[usize]>::to_vec).collect();
    batches.shuffle(&mut rng);
    batches
}

/// Cuts a batch into parts of at most `most` padded tokens each (a longer sequence is a part of its
/// own), the longest first.
pub fn parts(mut batch: Vec<usize>, lengths: &[usize], most: usize) -> Vec<Vec<usize>> {
    batch.sort_by_key(|&i| std::cmp::Reverse(lengths[i]));
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut longest = 0;
    for i in batch {
        match parts.last_mut() {
            Some(part) if (part.len() + 1) * longest <= most => part.push(i),
            _ => {
                longest = lengths[i];
                parts.push(vec![i]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_every_example_once_and_similar_lengths_together() {
        let lengths: Vec<usize> = (0..1000).map(|i| (i * 7919) % 331 + 1).collect();
        let batches = epoch(&lengths, 16, 5, 2);
        let mut all: Vec<usize> = batches.concat();
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        let padded: usize = batches
            .iter()
            .map(|b| b.len() * b.iter().map(|&i| lengths[i]).max().unwrap())
            .sum();
        let real: usize = lengths.iter().sum();
        assert!(padded < real * 11 / 10, "{padded} padded, {real} real");
        assert_eq!(batches, epoch(&lengths, 16, 5, 2));
        assert_ne!(batches, epoch(&lengths, 16, 5, 3));
        assert_ne!(batches, epoch(&lengths, 16, 6, 2));
    }

    #[test]
    fn parts_hold_at_most_so_many_padded_tokens() {
        let lengths = [5, 9, 3, 4, 30];
        let parts = parts(vec![0, 1, 2, 3, 4], &lengths, 18);
        assert_eq!(parts, [vec![4], vec![1, 0], vec![3, 2]]);
    }
}
