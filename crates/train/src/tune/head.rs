//! The head of a reward model that is trained: what the model's [`PrmSpec`] reads, as tensors.

use beamgen_engine::{Tokenizer, Weights};
use beamgen_prm::{HeadSpec, LayerSpec, Normaliser, PrmSpec};
use candle_core::{Device, Tensor};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::decoder::normal;
use super::{Decoder, Label};
use crate::{Error, Result};

/// Standard deviation of fresh weights, the default `initializer_range` of `transformers`.
const FRESH: f64 = 0.02;

/// From hidden states to the log-odds of a right step. Its own weights are among the decoder's.
#[derive(Debug)]
pub struct RewardHead {
    outputs: Outputs,
    /// The class of two that means right; `None` for a single number.
    class: Option<usize>,
    /// Weights that the checkpoint did not have.
    is_fresh: bool,
}

#[derive(Debug)]
enum Outputs {
    /// Linear layers, `ReLU` between them.
    Layers(Vec<LayerSpec>),
    /// Rows of the language-model head, `[2]` token ids.
    Tokens(Tensor),
}

impl RewardHead {
    /// The head that `spec` reads, added to `decoder`: with the checkpoint's tensors where it has
    /// them, otherwise with fresh ones (normal with deviation 0.02, biases 0) drawn from `seed`.
    ///
    /// # Errors
    /// [`Error::Config`] for a head that is not trained here: a log-ratio, more than two classes, a
    /// clamped number. A tensor of the checkpoint has another shape.
    pub fn new(
        decoder: &mut Decoder,
        spec: &PrmSpec,
        tokenizer: &Tokenizer,
        weights: &Weights,
        seed: u64,
    ) -> Result<Self> {
        let refused = |what: &str| {
            let name = &spec.name;
            Error::Config(format!("PRM format {name}: {what} cannot be trained"))
        };
        let class = match spec.normaliser {
            Normaliser::Sigmoid => None,
            Normaliser::Softmax(class @ (0 | 1)) => Some(class),
            Normaliser::Softmax(_) => return Err(refused("a head of more than two classes")),
            Normaliser::Clamp => return Err(refused("a head without a normaliser")),
        };
        match &spec.head {
            HeadSpec::LogRatio(_) => Err(refused("the log-ratio of two models")),
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
                        let draw = |_| (FRESH * f64::from(normal(&mut rng))) as f32;
                        (0..outputs * hidden).map(draw).collect()
                    };
                    let weight = Tensor::from_vec(weight, &shape, &Device::Cpu)?;
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

    /// One linear layer with a bias, whose number is a sigmoid's.
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

    /// Whether a part of it is not the checkpoint's.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// The log-odds `[rows]` of hidden states `[rows, hidden]`.
    ///
    /// # Errors
    /// The error of candle.
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
            // The logit of a softmax over two is their difference.
            Some(class) => (column(class)? - column(1 - class)?)?,
            None => column(0)?,
        })
    }
}

/// The summed cross-entropy of `labels` with the log-odds `[labels]`, each by its weight: for a
/// label `z` and log-odds `s`, `log(1 + e^s) - z s`. That is the two-class cross-entropy for hard
/// labels and the binary one with a soft target.
///
/// # Errors
/// The error of candle.
pub fn cross_entropy(log_odds: &Tensor, labels: &[Label]) -> Result<Tensor> {
    let of = |value: fn(&Label) -> f32| {
        let values: Vec<f32> = labels.iter().map(value).collect();
        Tensor::new(values, &Device::Cpu)
    };
    let (right, weight) = (of(|label| label.right)?, of(|label| label.weight)?);
    // log(1 + e^s) without an overflow
    let softplus = (log_odds.relu()? + (log_odds.abs()?.neg()?.exp()? + 1.0)?.log()?)?;
    Ok(((softplus - (log_odds * right)?)? * weight)?.sum_all()?)
}

fn label_tokens(
    tokens: &[String],
    class: Option<usize>,
    tokenizer: &Tokenizer,
    spec: &PrmSpec,
) -> Result<Vec<u32>> {
    let bad = |reason: String| Error::Config(format!("PRM format {}: {reason}", spec.name));
    if tokens.len() != 2 || class.is_none() {
        return Err(bad(
            "two label tokens can be trained, no other number".into()
        ));
    }
    tokens
        .iter()
        .map(|token| match tokenizer.encode(token, false)?[..] {
            [id] => Ok(id),
            ref ids => Err(bad(format!(
                "{token:?} is {} tokens of the model, not one",
                ids.len()
            ))),
        })
        .collect()
}
