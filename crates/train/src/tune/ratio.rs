//! Training of a log-ratio, the implicit reward of two language models: `beta * (log p(text) - log p_reference(text))`
//! is the log-odds that the text is right (Yuan et al., "Free Process Rewards without Process Labels", 2024, as PRIME
//! uses it). The reference stays as it is.

use std::ops::Range;

use candle_core::{Device, Tensor};

use super::batches::{self, Rows};
use super::{Decoder, Example, Input, Label, head};
use crate::{Error, Result, ops};

/// The log-probabilities of the labelled texts in the reference model, for each example and each of its labels.
#[derive(Debug)]
pub struct Reference(Vec<Vec<f64>>);

impl Reference {
    /// Reads all examples with `decoder`, the reference model, in batches of about `micro_tokens` tokens.
    ///
    /// # Errors
    /// A token is not in the decoder's vocabulary, or a tensor operation fails.
    pub fn of(decoder: &Decoder, examples: &[Example], micro_tokens: usize) -> Result<Self> {
        let vocab = decoder.config.vocab_size;
        let ids = examples.iter().flat_map(|example| &example.ids);
        if let Some(id) = ids.copied().find(|&id| id as usize >= vocab) {
            return Err(Error::Config(format!(
                "the reference model has {vocab} tokens, and token {id} occurs: it needs the tokenizer of the trained model"
            )));
        }
        let lengths: Vec<usize> = examples.iter().map(|example| example.ids.len()).collect();
        let mut sums = vec![Vec::new(); examples.len()];
        for part in batches::parts((0..examples.len()).collect(), &lengths, micro_tokens) {
            let rows = Rows::of(part.iter().map(|&i| &examples[i]));
            let texts = Texts::of(&rows);
            let input = Input::Tokens(&rows.ids);
            let hidden = decoder.forward(input, rows.time, Some(&texts.at))?;
            let mut found = texts.sums(decoder, &hidden.detach())?.into_iter();
            for i in part {
                sums[i] = found.by_ref().take(examples[i].labels.len()).collect();
            }
        }
        Ok(Self(sums))
    }
}

/// The rows that predict the labelled texts of a micro-batch.
pub(super) struct Texts {
    /// The rows before each token of the texts, as indices into the padded ids.
    pub(super) at: Vec<u32>,
    targets: Vec<u32>,
    /// The range of each label in `at`.
    spans: Vec<Range<usize>>,
}

impl Texts {
    pub(super) fn of(rows: &Rows) -> Self {
        let mut texts = Self {
            at: Vec::new(),
            targets: Vec::new(),
            spans: Vec::new(),
        };
        for label in &rows.labels {
            let first = texts.at.len();
            for token in label.text[0]..label.text[1] {
                texts.at.push(token - 1);
                texts.targets.push(rows.ids[token as usize]);
            }
            texts.spans.push(first..texts.at.len());
        }
        texts
    }

    /// Returns the log-probability of each text, from the hidden states of `at`.
    fn sums(&self, decoder: &Decoder, hidden: &Tensor) -> Result<Vec<f64>> {
        let log_probs = ops::linear_log_probs(hidden, decoder.head()?, &self.targets)?;
        let sum = |span: &Range<usize>| log_probs[span.clone()].iter().map(|&x| f64::from(x)).sum();
        Ok(self.spans.iter().map(sum).collect())
    }
}

fn sigmoid(z: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(z)).exp())
}

/// The reference model of a log-ratio in training, and the factor of the log-ratio.
#[derive(Debug)]
pub struct LogRatio {
    /// The factor of the format.
    pub beta: f64,
    /// The log-probabilities in the reference model.
    pub reference: Reference,
}

impl LogRatio {
    /// Returns the sum of the weighted cross-entropies of `labels`, those of the examples `part`, and their log-odds.
    /// `hidden` has the rows `texts.at`. The sum has gradients if `is_trained` is true.
    pub(super) fn loss(
        &self,
        part: &[usize],
        texts: &Texts,
        (decoder, hidden): (&Decoder, &Tensor),
        labels: &[Label],
        is_trained: bool,
    ) -> Result<(Tensor, Tensor)> {
        let own = texts.sums(decoder, hidden)?;
        let reference = part.iter().flat_map(|&i| &self.reference.0[i]);
        let log_odds: Vec<f32> = own
            .iter()
            .zip(reference)
            .map(|(own, other)| (self.beta * (own - other)) as f32)
            .collect();
        let values = Tensor::new(log_odds.as_slice(), &Device::Cpu)?;
        let loss = head::cross_entropy(&values, labels)?;
        if !is_trained {
            return Ok((loss, values));
        }
        // The derivative by the log-odds `z` of a label is `weight * (sigmoid(z) - right)`. With these factors as
        // weights, the cross-entropy of the tokens has the gradient of the loss.
        let mut weights = vec![0.0; texts.at.len()];
        for ((span, label), z) in texts.spans.iter().zip(labels).zip(log_odds) {
            let slope = f64::from(label.weight) * (sigmoid(z) - f64::from(label.right));
            weights[span.clone()].fill((-self.beta * slope) as f32);
        }
        let (w, trained) = (decoder.head()?, decoder.trains_head());
        let tokens = ops::linear_cross_entropy(hidden, w, &texts.targets, &weights, trained)?;
        // Only the gradient of `tokens` is wanted.
        Ok((((&tokens - tokens.detach())? + loss)?, values))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use beamgen_engine::ModelConfig;

    use super::*;
    use crate::tune::Trained;

    fn decoder(name: &str) -> Decoder {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/prm");
        let folder = Path::new(fixtures).join(name);
        let (config, weights) = ModelConfig::load_with_weights(folder.as_path()).unwrap();
        Decoder::load(config, &weights, Trained::ALL, true, 64).unwrap()
    }

    fn example(length: u32, labels: &[(u32, u32, f32, f32)]) -> Example {
        let mut example = Example::of((0..length).map(|i| (i * 7 + length) % 60).collect());
        let labels = labels.iter().map(|&(start, end, right, weight)| Label {
            row: end - 1,
            right,
            weight,
            text: [start, end],
        });
        example.labels = labels.collect();
        example
    }

    #[test]
    fn loss_and_gradient_are_those_of_the_definition() {
        let (mut own, other) = (decoder("EurusPRM-Stage2"), decoder("reference"));
        let examples = [
            example(9, &[(3, 5, 1.0, 1.0), (5, 9, 0.0, 2.0)]),
            example(14, &[(1, 14, 0.25, 1.75)]),
        ];
        let part = [1, 0];
        let reference = Reference::of(&other, &examples, 12).unwrap();
        let ratio = LogRatio {
            beta: 0.7,
            reference,
        };
        let rows = Rows::of(part.iter().map(|&i| &examples[i]));
        let texts = Texts::of(&rows);
        let loss = |own: &Decoder, is_trained| {
            let input = Input::Tokens(&rows.ids);
            let hidden = own.forward(input, rows.time, Some(&texts.at)).unwrap();
            let found = ratio.loss(&part, &texts, (own, &hidden), &rows.labels, is_trained);
            found.unwrap()
        };
        // The definition, one example at a time, over all logits.
        let log_prob = |decoder: &Decoder, example: &Example, token: u32| -> f64 {
            let (time, at) = (example.ids.len(), [token - 1]);
            let input = Input::Tokens(&example.ids);
            let hidden = decoder.forward(input, time, Some(&at)).unwrap();
            let logits = hidden
                .matmul(&decoder.head().unwrap().t().unwrap())
                .unwrap();
            let logits = logits.to_vec2::<f32>().unwrap().remove(0);
            let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
            f64::from(logits[example.ids[token as usize] as usize]) - sum.ln()
        };
        let (mut wanted, mut odds) = (0.0, Vec::new());
        for example in part.map(|i| &examples[i]) {
            for label in &example.labels {
                let tokens = label.text[0]..label.text[1];
                let z: f64 = tokens
                    .map(|t| 0.7 * (log_prob(&own, example, t) - log_prob(&other, example, t)))
                    .sum();
                let right = f64::from(label.right);
                let own = right * (-z).exp().ln_1p() + (1.0 - right) * z.exp().ln_1p();
                wanted += f64::from(label.weight) * own;
                odds.push(z);
            }
        }
        let (sum, values) = loss(&own, true);
        let found = f64::from(sum.to_scalar::<f32>().unwrap());
        assert!(
            (found - wanted).abs() < 1e-4 * wanted,
            "{found}, wanted {wanted}"
        );
        for (found, wanted) in values.to_vec1::<f32>().unwrap().iter().zip(odds) {
            assert!(
                (f64::from(*found) - wanted).abs() < 1e-4,
                "{found}, wanted {wanted}"
            );
        }
        // A small step along the gradient changes the loss by the gradient's length.
        let gradients = sum.backward().unwrap();
        let names: Vec<String> = own.vars().map(|(name, _)| name.to_owned()).collect();
        for name in names.iter().filter(|name| !name.contains("norm")) {
            let var = own.vars().find(|(other, _)| other == name).unwrap().1;
            let (var, start) = (var.clone(), var.copy().unwrap());
            let gradient = gradients.get(&var).unwrap();
            let length = gradient.sqr().unwrap().sum_all().unwrap().sqrt().unwrap();
            let length = f64::from(length.to_scalar::<f32>().unwrap());
            let mut at = |step: f64| {
                let moved = (&start + (gradient * (step / length)).unwrap()).unwrap();
                own.put(name.clone(), &moved).unwrap();
                f64::from(loss(&own, false).0.to_scalar::<f32>().unwrap())
            };
            let step = 1e-3;
            let slope = (at(step) - at(-step)) / (2.0 * step);
            at(0.0);
            assert!(
                (slope - length).abs() < 0.02 * length + 1e-3,
                "{name}: {slope}, wanted {length}"
            );
        }
    }
}
