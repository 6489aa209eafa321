//! Training examples: their order in an epoch, their split into micro-batches, and the targets of a padded batch.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// A token sequence with its targets. Rows are indices into `ids`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// The token ids of the prompt and of the text after it.
    pub ids: Vec<u32>,
    /// The next-token targets as triples: row, token to predict from this row, weight of the loss.
    pub next: Vec<(u32, u32, f32)>,
    /// The targets of a reward model; empty for a language model.
    pub labels: Vec<Label>,
}

/// The target of a reward model at a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label {
    /// The row whose hidden state the score is read from.
    pub row: u32,
    /// The probability that the step is right, 0 to 1.
    pub right: f32,
    /// The factor of the label's loss, above 1 to emphasise rare labels.
    pub weight: f32,
    /// The first token of the judged text and the token after its last, over which a log-ratio sums.
    pub text: [u32; 2],
}

impl Example {
    /// Makes an example of a sequence, without any targets.
    pub fn of(ids: Vec<u32>) -> Self {
        Self {
            ids,
            ..Self::default()
        }
    }

    /// Adds the target that the row before `place` predicts `target`, with weight 1. `place` is at least 1.
    pub fn predict(&mut self, place: usize, target: u32) {
        self.next.push((place as u32 - 1, target, 1.0));
    }

    /// Adds a label of 0 or 1 whose score is read at row `place`.
    pub fn judge(&mut self, place: usize, is_right: bool, weight: f32) {
        self.labels.push(Label {
            row: place as u32,
            right: f32::from(u8::from(is_right)),
            weight,
            text: [place as u32, place as u32 + 1],
        });
    }

    /// Returns the total weight of the next-token targets and labels.
    pub fn weight(&self) -> f64 {
        let next = self.next.iter().map(|x| f64::from(x.2));
        let labels = self.labels.iter().map(|x| f64::from(x.weight));
        next.chain(labels).sum()
    }
}

/// The examples of a file. Counters tell how many records were left out and why.
#[derive(Debug, Default)]
pub struct Read {
    /// The examples that fit, in the order of the file.
    pub examples: Vec<Example>,
    /// The text of each example's problem. A split keeps all examples of a problem on the same side.
    pub problems: Vec<String>,
    /// The number of records that are not labelled chains.
    pub rejected: usize,
    /// The number of chains left out because no step has a label.
    pub unlabelled: usize,
    /// The number of examples left out because they have too many tokens.
    pub too_long: usize,
}

/// The number of batches that are sorted by length together. A larger window saves padding, a smaller one keeps the
/// order more random.
const WINDOW: usize = 32;

/// Returns the batches of an epoch, each with indices into `lengths`. Every index occurs once, and the lengths within
/// a batch are similar. A batch has `batch` indices; one may have fewer. The result depends only on the arguments, so
/// a resumed run has the same batches.
pub fn epoch(lengths: &[usize], batch: usize, seed: u64, epoch: usize) -> Vec<Vec<usize>> {
    let batch = batch.max(1);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(epoch as u64);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.shuffle(&mut rng);
    // Sorting within a window saves padding. A sorted epoch would train on short examples first.
    for window in order.chunks_mut(WINDOW * batch) {
        window.sort_by_key(|&i| lengths[i]);
    }
    let mut batches: Vec<Vec<usize>> = order.chunks(batch).map(<[usize]>::to_vec).collect();
    // Without this shuffle the lengths would rise within every window.
    batches.shuffle(&mut rng);
    batches
}

/// Splits a batch into micro-batches of at most `most` tokens after padding. A single sequence longer than `most`
/// becomes its own micro-batch.
pub fn parts(mut batch: Vec<usize>, lengths: &[usize], most: usize) -> Vec<Vec<usize>> {
    // Sorted by length, neighbours need little padding.
    batch.sort_by_key(|&i| std::cmp::Reverse(lengths[i]));
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut longest = 0;
    for i in batch {
        match parts.last_mut() {
            // Lengths decrease, so the first example of a micro-batch is its longest.
            Some(part) if (part.len() + 1) * longest <= most => part.push(i),
            _ => {
                longest = lengths[i];
                parts.push(vec![i]);
            }
        }
    }
    parts
}

/// Returns the sequences, each padded with 0 to the longest length, as one list of `sequences * time` ids. Also
/// returns this length `time`.
pub fn pad(sequences: &[&[u32]]) -> (Vec<u32>, usize) {
    let lengths = sequences.iter().map(|ids| ids.len());
    let time = lengths.max().unwrap_or(0);
    let mut ids = vec![0; sequences.len() * time];
    for (row, own) in ids.chunks_mut(time.max(1)).zip(sequences) {
        // Padding follows the tokens, so causal attention hides it from them.
        row[..own.len()].copy_from_slice(own);
    }
    (ids, time)
}

/// A batch of padded examples with all targets. Rows are indices into `ids`.
#[derive(Debug, Default)]
pub struct Rows {
    /// The token ids of all examples, `[examples * time]`.
    pub ids: Vec<u32>,
    /// The number of rows of an example, after padding to the longest one.
    pub time: usize,
    /// The rows that predict a token, for all examples.
    pub at: Vec<u32>,
    /// The token that each row of `at` should predict.
    pub targets: Vec<u32>,
    /// The weight of the loss at each row of `at`.
    pub weights: Vec<f32>,
    /// The labels of all examples, with their rows and texts converted to indices into `ids`.
    pub labels: Vec<Label>,
}

impl Rows {
    /// Pads the examples and converts the rows of their targets to indices into the padded ids.
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
                text: label.text.map(|token| start + token),
                ..*label
            }));
        }
        rows
    }

    /// Returns the row of each label, in the order of `labels`.
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
