//! Hyperparameters of a run: trained weights, learning rates, batches, length.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::optim::AdamW;

/// The weights that are trained. Both limits may be set at once; without any, all weights are
/// trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trained {
    /// The number of last layers to train, with the final norm and the head. A language-model head
    /// that is tied to the embedding stays frozen.
    pub top: Option<usize>,
    /// Low-rank adapters to train in place of the weights themselves.
    pub lora: Option<Lora>,
}

/// Low-rank adapters (`LoRA`, 2106.09685) of every matrix in the trained layers: `W x` becomes
/// `W x + (alpha / rank) B A x`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// The number of rows of `A` and of columns of `B`.
    pub rank: usize,
    /// The numerator of the scale `alpha / rank`.
    pub alpha: f64,
}

impl Trained {
    /// Trains all weights, without adapters.
    pub const ALL: Self = Self {
        top: None,
        lora: None,
    };

    /// Trains the last `layers` layers.
    #[must_use]
    pub fn top(layers: usize) -> Self {
        Self {
            top: Some(layers),
            lora: None,
        }
    }
}

/// Parses `all`, or some of `top=LAYERS`, `lora=RANK` and `alpha=NUMBER`, separated by commas.
/// Alpha is twice the rank by default.
impl FromStr for Trained {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut trained = Self::ALL;
        if text == "all" {
            return Ok(trained);
        }
        let mut alpha = None;
        for part in text.split(',') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let count = value.parse().ok().filter(|&n| n > 0);
            match (name, count) {
                ("top", Some(layers)) => trained.top = Some(layers),
                ("lora", Some(rank)) => {
                    let alpha = 2.0 * rank as f64;
                    trained.lora = Some(Lora { rank, alpha });
                }
                ("alpha", _) => {
                    let number = value.parse::<f64>().ok();
                    alpha = number.filter(|x| x.is_finite() && *x > 0.0);
                    if alpha.is_none() {
                        return refused(format!("alpha={value}: must be a positive number"));
                    }
                }
                ("top" | "lora", None) => {
                    return refused(format!("{name}={value}: must be a positive whole number"));
                }
                _ => {
                    return refused(format!(
                        "invalid setting {part:?}: use all, or some of top=LAYERS, lora=RANK \
                             and alpha=NUMBER, separated by commas"
                    ));
                }
            }
        }
        // Checked at the end: `alpha` may come before `lora`.
        match (&mut trained.lora, alpha) {
            (Some(lora), Some(alpha)) => lora.alpha = alpha,
            (None, Some(_)) => return refused("alpha needs adapters: add lora=RANK".into()),
            _ => {}
        }
        Ok(trained)
    }
}

fn refused<T>(reason: String) -> Result<T, Error> {
    Err(Error::Config(reason))
}

/// The course of the learning rate after the warm-up, as in `transformers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// Falls to 0 along half a cosine.
    Cosine,
    /// Falls to 0 along a straight line.
    Linear,
    /// Stays at its highest value.
    Constant,
}

/// The hyperparameters of a run. Two runs with the same recipe, examples and weights write the same
/// bytes on the same kind of machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The weights that are trained.
    pub train: Trained,
    /// The number of passes over the training set.
    pub epochs: usize,
    /// The number of examples of an update.
    pub batch: usize,
    /// The largest number of padded tokens computed at once. A batch is split into such
    /// micro-batches, whose gradients add up.
    pub micro_tokens: usize,
    /// The highest learning rate, reached after the warm-up.
    pub learning_rate: f64,
    /// The fraction of all updates in which the learning rate rises from 0.
    pub warmup: f64,
    /// The course of the learning rate after the warm-up.
    pub decay: Decay,
    /// The weight decay of `AdamW`, applied to matrices only.
    pub weight_decay: f64,
    /// The decay rates of the first and second moment of `AdamW`.
    pub betas: (f64, f64),
    /// The largest L2 norm of all gradients together; larger ones are scaled down.
    pub clip: f64,
    /// The seed of the order of examples and of the held-out split.
    pub seed: u64,
    /// Whether the softmax covers only tokens that occur in the examples, not the whole vocabulary.
    pub restrict_vocabulary: bool,
    /// The fraction of all updates, at the beginning, in which only a reward model's head is
    /// trained. A fresh head would otherwise disturb the body (PURE, 2504.15275). The warm-up and
    /// the decay of the learning rate follow.
    pub head_warmup: f64,
    /// The learning rate of the updates that train only the head.
    pub head_rate: f64,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            train: Trained::ALL,
            epochs: 1,
            batch: 16,
            micro_tokens: 2048,
            learning_rate: 1e-4,
            warmup: 0.05,
            decay: Decay::Cosine,
            weight_decay: 0.0,
            betas: (0.9, 0.999),
            clip: 1.0,
            seed: 0,
            restrict_vocabulary: false,
            head_warmup: 0.0,
            head_rate: 1e-3,
        }
    }
}

impl Recipe {
    /// Makes a fresh optimiser with the settings of the recipe.
    pub fn optimizer(&self) -> AdamW {
        let mut optimizer = AdamW::default();
        optimizer.betas = self.betas;
        optimizer.weight_decay = self.weight_decay;
        optimizer.clip = self.clip;
        optimizer
    }

    /// Returns the learning rate of update `step`, counted from 0, of `steps`. The formulas are
    /// those of `get_cosine_schedule_with_warmup` and its siblings in `transformers`.
    pub fn rate(&self, step: usize, steps: usize) -> f64 {
        let warmup = (self.warmup * steps as f64).ceil() as usize;
        // As in `transformers`, the very first update has a rate of 0.
        if step < warmup {
            return self.learning_rate * step as f64 / warmup as f64;
        }
        let done = (step - warmup) as f64 / (steps - warmup).max(1) as f64;
        self.learning_rate
            * match self.decay {
                Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
                Decay::Linear => (1.0 - done).max(0.0),
                Decay::Constant => 1.0,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_falls() {
        let recipe = Recipe {
            learning_rate: 1.0,
            warmup: 0.2,
            ..Recipe::default()
        };
        let rates: Vec<f64> = (0..10).map(|step| recipe.rate(step, 10)).collect();
        assert_eq!(&rates[..3], [0.0, 0.5, 1.0]);
        assert!((rates[6] - 0.5).abs() < 1e-12, "{rates:?}");
        assert!(rates.windows(2).skip(2).all(|w| w[1] < w[0]), "{rates:?}");
    }

    #[test]
    fn trained_weights_are_named() {
        assert_eq!("all".parse::<Trained>().unwrap(), Trained::ALL);
        assert_eq!("top=3".parse::<Trained>().unwrap(), Trained::top(3));
        let adapters = |rank, alpha, top| Trained {
            lora: Some(Lora { rank, alpha }),
            top,
        };
        assert_eq!(
            "lora=8".parse::<Trained>().unwrap(),
            adapters(8, 16.0, None)
        );
        assert_eq!(
            "top=2,lora=8,alpha=4".parse::<Trained>().unwrap(),
            adapters(8, 4.0, Some(2))
        );
        for wrong in [
            "top",
            "top=0",
            "top=x",
            "most",
            "",
            "lora",
            "lora=0",
            "alpha=2",
            "lora=8,alpha=nan",
            "all,top=1",
        ] {
            assert!(wrong.parse::<Trained>().is_err(), "{wrong}");
        }
    }
}
