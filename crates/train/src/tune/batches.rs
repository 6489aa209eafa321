//! Examples, their split into batches and micro-batches, and the rows of a padded batch.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// A token sequence with its training targets. A row is a position of `ids`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// The token ids of the whole sequence, prompt included.
    pub ids: Vec<u32>,
    /// The next-token targets: row, the token to be predicted there, weight of its loss.
    pub next: Vec<(u32, u32, f32)>,
    /// The targets of a reward model; empty for a generator.
    pub labels: Vec<Label>,
}

/// The target of a reward model at a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label {
    /// The position of the hidden state from which the reward model reads the step's score.
    pub row: u32,
    /// The probability that the step is right, 0 to 1.
    pub right: f32,
    /// The weight of the label's loss.
    pub weight: f32,
}

impl Example {
    /// Makes an example without targets.
    pub fn of(ids: Vec<u32>) -> Self {
        Self {
            ids,
            ..Self::default()
        }
    }

    /// Adds `target` as the token to be predicted at `place`, read from the row before.
    pub fn predict(&mut self, place: usize, target: u32) {
        // The hidden state before a token predicts it.
        self.next.push((place as u32 - 1, target, 1.0));
    }

    /// Adds a hard label for the step that ends at `place`.
    pub fn judge(&mut self, place: usize, is_right: bool, weight: f32) {
        self.labels.push(Label {
            row: place as u32,
            right: f32::from(u8::from(is_right)),
            weight,
        });
    }

    /// Returns the sum of the weights of all targets.
    pub fn weight(&self) -> f64 {
        let next = self.next.iter().map(|x| f64::from(x.2));
        let labels = self.labels.iter().map(|x| f64::from(x.weight));
        next.chain(labels).sum()
    }
}

/// The examples of a file, with counts of the records that were left out.
#[derive(Debug, Default)]
pub struct Read {
    /// The examples that fit, in the order of the file.
    pub examples: Vec<Example>,
    /// The problem of each example, so that all examples of a problem can be kept on one side of a
    /// split.
    pub problems: Vec<String>,
    /// The number of records that are not labelled chains.
    pub rejected: usize,
    /// The number of chains without a label.
    pub unlabelled: usize,
    /// The number of examples with more tokens than allowed.
    pub too_long: usize,
}

/// The number of batches among which examples are sorted by length: enough that the lengths within
/// a batch are similar, few enough that an epoch's order stays random.
const WINDOW: usize = 32;

/// Returns the batches of an epoch: every index of `lengths` once, `batch` of them at a time (the
/// last may have fewer), with similar lengths in a batch. The result depends only on the arguments,
/// so a resumed run has the same batches.
pub fn epoch(lengths: &[usize], batch: usize, seed: u64, epoch: usize) -> Vec<Vec<usize>> {
    let batch = batch.max(1);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(epoch as u64);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.shuffle(&mut rng);
    // Sorting saves padding, but a fully sorted epoch would train on short examples first.
    for window in order.chunks_mut(WINDOW * batch) {
        window.sort_by_key(|&i| lengths[i]);
    }
    let mut batches: Vec<Vec<usize>> = order.chunks(batch).map(<[usize]>::to_vec).collect();
    // Otherwise lengths would rise within every window.
    batches.shuffle(&mut rng);
    batches
}

/// Splits a batch into micro-batches of at most `most` padded tokens each, the longest examples
/// first. A sequence longer than `most` is a micro-batch of its own.
pub fn parts(mut batch: Vec<usize>, lengths: &[usize], most: usize) -> Vec<Vec<usize>> {
    // Neighbours of similar length waste little padding.
    batch.sort_by_key(|&i| std::cmp::Reverse(lengths[i]));
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut longest = 0;
    for i in batch {
        match parts.last_mut() {
            // Lengths fall, so the first example of a part decides its padded length.
            Some(part) if (part.len() + 1) * longest <= most => part.push(i),
            _ => {
                longest = lengths[i];
                parts.push(vec![i]);
            }
        }
    }
    parts
}

/// Returns the token ids `[sequences * time]`, short sequences padded with 0, and the length `time`
/// of the longest.
pub fn pad(sequences: &[&[u32]]) -> (Vec<u32>, usize) {
    let lengths = sequences.iter().map(|ids| ids.len());
    let time = lengths.max().unwrap_or(0);
    let mut ids = vec![0; sequences.len() * time];
    for (row, own) in ids.chunks_mut(time.max(1)).zip(sequences) {
        // Padding comes last, where causal attention hides it from all real tokens.
        row[..own.len()].copy_from_slice(own);
    }
    (ids, time)
}

/// The targets of padded examples. A row is an index into `ids`, over all examples.
#[derive(Debug, Default)]
pub struct Rows {
    /// The padded token ids, `[examples * time]`.
    pub ids: Vec<u32>,
    /// The number of tokens of the longest example.
    pub time: usize,
    /// The rows that predict a token.
    pub at: Vec<u32>,
    /// The predicted token of each row of `at`.
    pub targets: Vec<u32>,
    /// The loss weight of each row of `at`.
    pub weights: Vec<f32>,
    /// The labels of all examples, with rows that count over all of `ids`.
    pub labels: Vec<Label>,
}

impl Rows {
    /// Pads examples and shifts the rows of their targets accordingly.
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

    /// Returns the rows from which scores are read, in the order of `labels`.
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
    fn parts_hold_at_most_the_given_number_of_padded_tokens() {
        let lengths = [5, 9, 3, 4, 30];
        let parts = parts(vec![0, 1, 2, 3, 4], &lengths, 18);
        assert_eq!(parts, [vec![4], vec![1, 0], vec![3, 2]]);
    }
}
