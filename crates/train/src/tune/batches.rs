//! Examples, which of them are computed together, and their rows.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// A sequence and what is learnt from it. A row is a position of `ids`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// The tokens.
    pub ids: Vec<u32>,
    /// Next-token prediction: row, the token to be predicted there, weight.
    pub next: Vec<(u32, u32, f32)>,
    /// Labels of a reward model.
    pub labels: Vec<Label>,
}

/// The target of a reward model at a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label {
    /// Where it is read.
    pub row: u32,
    /// The probability that the step is right, 0 to 1.
    pub right: f32,
    /// Of its loss.
    pub weight: f32,
}

impl Example {
    /// Tokens of which nothing is learnt yet.
    pub fn of(ids: Vec<u32>) -> Self {
        Self {
            ids,
            ..Self::default()
        }
    }

    /// Learns to predict `target` as the token at `place`, from the one before.
    pub fn predict(&mut self, place: usize, target: u32) {
        self.next.push((place as u32 - 1, target, 1.0));
    }

    /// Learns whether what ends at `place` is right.
    pub fn judge(&mut self, place: usize, is_right: bool, weight: f32) {
        self.labels.push(Label {
            row: place as u32,
            right: f32::from(u8::from(is_right)),
            weight,
        });
    }

    /// The sum of the weights of the losses of the rows.
    pub fn weight(&self) -> f64 {
        let next = self.next.iter().map(|x| f64::from(x.2));
        let labels = self.labels.iter().map(|x| f64::from(x.weight));
        next.chain(labels).sum()
    }
}

/// The examples of a file, with what was left out.
#[derive(Debug, Default)]
pub struct Read {
    /// The examples that fit, in the order of the file.
    pub examples: Vec<Example>,
    /// The text of the problem of each example: examples of one problem belong together.
    pub problems: Vec<String>,
    /// Records that are no labelled chains.
    pub rejected: usize,
    /// Chains without a label.
    pub unlabelled: usize,
    /// Examples of more tokens than allowed.
    pub too_long: usize,
}

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

/// Token ids `[sequences * time]`, short sequences padded with 0, and the longest's length `time`.
pub fn pad(sequences: &[&[u32]]) -> (Vec<u32>, usize) {
    let lengths = sequences.iter().map(|ids| ids.len());
    let time = lengths.max().unwrap_or(0);
    let mut ids = vec![0; sequences.len() * time];
    for (row, own) in ids.chunks_mut(time.max(1)).zip(sequences) {
        row[..own.len()].copy_from_slice(own);
    }
    (ids, time)
}

/// The predictions and labels of padded examples. A row is a place among all their tokens.
#[derive(Debug, Default)]
pub struct Rows {
    /// The padded tokens.
    pub ids: Vec<u32>,
    /// Tokens of the longest example.
    pub time: usize,
    /// Rows that predict a token.
    pub at: Vec<u32>,
    /// The token that each of them predicts.
    pub targets: Vec<u32>,
    /// The weight of each prediction.
    pub weights: Vec<f32>,
    /// Labels, each with its row.
    pub labels: Vec<Label>,
}

impl Rows {
    /// The rows of examples.
    pub fn of<'a>(examples: impl Iterator<Item = &'a Example> + Clone) -> Self {
        let sequences: Vec<&[u32]> = examples.clone().map(|e| e.ids.as_slice()).collect();
        let (ids, time) = pad(&sequences);
        let mut rows = Self {
            ids,
            time,
            ..Self::default()
        };
        for (start, example) in (0..).step_by(time.max(1)).zip(examples) {
            for &(row, target, weight) in &example.next {
                rows.at.push(start + row);
                rows.targets.push(target);
                rows.weights.push(weight);
            }
            rows.labels.extend(example.labels.iter().map(|label| Label {
                row: start + label.row,
                ..*label
            }));
        }
        rows
    }

    /// The rows of the labels.
    pub fn labelled(&self) -> impl Iterator<Item = u32> {
        self.labels.iter().map(|label| label.row)
    }
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
