//! The trainable head of a reward model, as described by a [`PrmSpec`].

use beamgen_engine::{Tokenizer, Weights};
use beamgen_prm::{Classes, HeadSpec, LayerSpec, Normaliser, PrmSpec};
use candle_core::{Device, Tensor};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::decoder::normal;
use super::{Decoder, Label};
use crate::{Error, Result};

/// The standard deviation of random weights, the default `initializer_range` of `transformers`.
const FRESH: f64 = 0.02;

/// A function from hidden states to the log-odds that a step is right. Its tensors are stored in the decoder under
/// the names of the specification.
#[derive(Debug)]
pub struct RewardHead {
    outputs: Outputs,
    /// The class that means right, 0 or 1; `None` for a single output with a sigmoid.
    class: Option<usize>,
    is_fresh: bool,
}

#[derive(Debug)]
enum Outputs {
    /// Linear layers, with `ReLU` between two layers.
    Layers(Vec<LayerSpec>),
    /// The token ids of the two labels, `[2]`. The outputs are their rows of the language-model head.
    Tokens(Tensor),
}

impl RewardHead {
    /// Adds the head of `spec` to `decoder`. Tensors that the checkpoint lacks are made: normal weights of deviation
    /// 0.02 from `seed`, and biases of 0.
    ///
    /// # Errors
    /// [`Error::Config`] for heads that cannot be trained: more than two classes, a clamped number. A log-ratio has no
    /// head: see [`LogRatio`](super::LogRatio). A tensor of the checkpoint has another shape.
    pub fn new(
        decoder: &mut Decoder,
        spec: &PrmSpec,
        tokenizer: &Tokenizer,
        weights: &Weights,
        seed: u64,
    ) -> Result<Self> {
        let class = match spec.normaliser {
            Normaliser::Sigmoid => None,
            Normaliser::Softmax(Classes::One(class @ (0 | 1))) => Some(class),
            Normaliser::Softmax(_) | Normaliser::Expected(_) | Normaliser::MeanSigmoid => {
                return Err(refused(
                    spec,
                    "a head of more than two classes cannot be trained",
                ));
            }
            Normaliser::Clamp => {
                return Err(refused(
                    spec,
                    "a head without a normaliser cannot be trained",
                ));
            }
        };
        match &spec.head {
            HeadSpec::LogRatio(_) => Err(refused(spec, "a log-ratio has no head to train")),
            HeadSpec::Tokens(tokens) => {
                let ids = label_tokens(tokens, class, tokenizer, spec)?;
                Ok(Self {
                    outputs: Outputs::Tokens(Tensor::new(ids, &Device::Cpu)?),
                    class,
                    is_fresh: false,
                })
            }
            HeadSpec::Linear(layers) => {
                let hidden = decoder.config.hidden_size;
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let mut is_fresh = false;
                for (i, layer) in layers.iter().enumerate() {
                    let outputs = match (i + 1 == layers.len(), class) {
                        (false, _) => hidden,
                        (true, Some(_)) => 2,
                        (true, None) => 1,
                    };
                    let shape = [outputs, hidden];
                    let weight = if weights.contains(&layer.weight) {
                        weights.values(&layer.weight, &shape)?
                    } else {
                        is_fresh = true;
                        (0..outputs * hidden)
                            .map(|_| (FRESH * f64::from(normal(&mut rng))) as f32)
                            .collect()
                    };
                    let weight = Tensor::from_vec(weight, &shape, &Device::Cpu)?;
                    // The decoder's tensors are trained, saved and exported, so the head's tensors are put there too.
                    decoder.put(layer.weight.clone(), &weight)?;
                    let Some(bias) = &layer.bias else { continue };
                    let values = if weights.contains(bias) {
                        weights.values(bias, &[outputs])?
                    } else {
                        vec![0.0; outputs]
                    };
                    decoder.put(bias.clone(), &Tensor::new(values, &Device::Cpu)?)?;
                }
                Ok(Self {
                    outputs: Outputs::Layers(layers.clone()),
                    class,
                    is_fresh,
                })
            }
        }
    }

    /// Returns a head of one linear layer with a bias and a sigmoid. The caller adds both tensors to the decoder.
    #[must_use]
    pub fn linear(weight: &str, bias: &str) -> Self {
        let layer = LayerSpec {
            weight: weight.to_owned(),
            bias: Some(bias.to_owned()),
        };
        Self {
            outputs: Outputs::Layers(vec![layer]),
            class: None,
            is_fresh: true,
        }
    }

    /// Returns whether some weights of the head are new, not from the checkpoint.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Returns the log-odds `[rows]` of hidden states `[rows, hidden]`.
    ///
    /// # Errors
    /// The head's tensors are missing or do not fit the hidden states.
    pub fn log_odds(&self, decoder: &Decoder, hidden: &Tensor) -> Result<Tensor> {
        let outputs = match &self.outputs {
            Outputs::Tokens(ids) => hidden.matmul(&decoder.head()?.index_select(ids, 0)?.t()?)?,
            Outputs::Layers(layers) => {
                let mut x = hidden.clone();
                for (i, layer) in layers.iter().enumerate() {
                    if i > 0 {
                        x = x.relu()?;
                    }
                    x = x.matmul(&decoder.expect(&layer.weight)?.t()?)?;
                    if let Some(bias) = &layer.bias {
                        x = x.broadcast_add(decoder.expect(bias)?)?;
                    }
                }
                x
            }
        };
        let column = |class: usize| outputs.narrow(1, class, 1)?.squeeze(1);
        Ok(match self.class {
            // softmax(a, b)_a = sigmoid(a - b), so the log-odds are the difference of the outputs.
            Some(class) => (column(class)? - column(1 - class)?)?,
            None => column(0)?,
        })
    }
}

/// Returns the sum of the weighted cross-entropies of `labels`, whose log-odds are `[labels]`. A label `z` with
/// log-odds `s` has the loss `log(1 + e^s) - z s`, where `z` may be any probability.
///
/// # Errors
/// `log_odds` and `labels` differ in length.
pub fn cross_entropy(log_odds: &Tensor, labels: &[Label]) -> Result<Tensor> {
    let (right, weight): (Vec<f32>, Vec<f32>) = labels
        .iter()
        .map(|label| (label.right, label.weight))
        .unzip();
    let right = Tensor::new(right, &Device::Cpu)?;
    let weight = Tensor::new(weight, &Device::Cpu)?;
    // log(1 + e^s) = max(s, 0) + log(1 + e^-|s|), where the exponent cannot overflow.
    let softplus = (log_odds.relu()? + (log_odds.abs()?.neg()?.exp()? + 1.0)?.log()?)?;
    Ok(((softplus - (log_odds * right)?)? * weight)?.sum_all()?)
}

fn label_tokens(
    tokens: &[String],
    class: Option<usize>,
    tokenizer: &Tokenizer,
    spec: &PrmSpec,
) -> Result<Vec<u32>> {
    if tokens.len() != 2 || class.is_none() {
        let reason = "only heads of two label tokens can be trained";
        return Err(refused(spec, reason));
    }
    tokens
        .iter()
        .map(|token| match tokenizer.encode(token, false)?[..] {
            [id] => Ok(id),
            ref ids => {
                let count = ids.len();
                let reason = format!(
                    "label {token:?} is {count} tokens of the model: it must be a single token"
                );
                Err(refused(spec, &reason))
            }
        })
        .collect()
}

fn refused(spec: &PrmSpec, reason: &str) -> Error {
    Error::Config(format!("PRM format {}: {reason}", spec.name))
}
