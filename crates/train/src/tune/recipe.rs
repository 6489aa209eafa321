//! The hyperparameters of a run: which weights to train, learning rates, batches, length.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::optim::AdamW;

/// The weights to train. Both limits can be combined; the default trains all weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trained {
    /// The number of last layers to train, along with the final norm and the head. A head tied to the embedding stays
    /// frozen. `None` trains all layers.
    pub top: Option<usize>,
    /// The adapters to train instead of the weights; `None` trains the weights.
    pub lora: Option<Lora>,
}

/// Low-rank adapters (`LoRA`, arXiv 2106.09685) of every matrix in the trained layers: `W x` becomes
/// `W x + (alpha / rank) B A x`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// The number of rows of `A` and of columns of `B`, at most the smaller side of any matrix.
    pub rank: usize,
    /// The numerator of the adapters' scale, which falls with the rank.
    pub alpha: f64,
}

impl Trained {
    /// All weights, without adapters: the default.
    pub const ALL: Self = Self {
        top: None,
        lora: None,
    };

    /// Returns a setting that trains the last `layers` layers, without adapters.
    #[must_use]
    pub fn top(layers: usize) -> Self {
        Self {
            top: Some(layers),
            lora: None,
        }
    }
}

/// Parses `all`, or a comma-separated list of `top=LAYERS`, `lora=RANK` and `alpha=NUMBER`. Alpha is twice the rank
/// unless given.
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
        // `alpha` may come before `lora`, so the combination is checked at the end.
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

/// The course of the learning rate after the warm-up, by the formulas of `transformers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// The rate falls to 0 along half a cosine.
    Cosine,
    /// The rate falls to 0 along a straight line.
    Linear,
    /// The rate stays at the highest value to the end.
    Constant,
}

/// The hyperparameters of a run. Runs with equal recipes, examples and weights write equal bytes on the same kind of
/// machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The weights to train; all by default.
    pub train: Trained,
    /// The number of passes over the training set, each in another order.
    pub epochs: usize,
    /// The number of examples of an update; the last update of an epoch may have fewer.
    pub batch: usize,
    /// The largest number of tokens in a forward pass, padding included. Larger batches are split into micro-batches,
    /// whose gradients are summed.
    pub micro_tokens: usize,
    /// The learning rate at the end of the warm-up.
    pub learning_rate: f64,
    /// The fraction of all updates in which the learning rate rises linearly from 0.
    pub warmup: f64,
    /// The course of the learning rate from the end of the warm-up to the last update.
    pub decay: Decay,
    /// The weight decay of `AdamW`, which affects matrices only.
    pub weight_decay: f64,
    /// The decay rates of the first and second moment of `AdamW`.
    pub betas: (f64, f64),
    /// The largest L2 norm of all gradients together; gradients with a larger norm are scaled down to it.
    pub clip: f64,
    /// The seed of the order of examples, of the held-out split and of new weights.
    pub seed: u64,
    /// If true, the softmax of the loss covers only tokens that occur in the examples.
    pub restrict_vocabulary: bool,
    /// The fraction of all updates, at the start, that train only the head of a reward model. A new head would
    /// otherwise disturb the other weights (PURE, arXiv 2504.15275). The warm-up of the learning rate begins after
    /// these updates.
    pub head_warmup: f64,
    /// The constant learning rate of the updates that train only the head.
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
    /// Returns a new optimiser with the recipe's settings and moments of zero.
    pub fn optimizer(&self) -> AdamW {
        let mut optimizer = AdamW::default();
        optimizer.betas = self.betas;
        optimizer.weight_decay = self.weight_decay;
        optimizer.clip = self.clip;
        optimizer
    }

    /// Returns the learning rate of update `step` of `steps`, counted from 0. The formulas are those of
    /// `get_cosine_schedule_with_warmup` and its linear and constant variants in `transformers`.
    pub fn rate(&self, step: usize, steps: usize) -> f64 {
        let warmup = (self.warmup * steps as f64).ceil() as usize;
        // The first update has rate 0, as in `transformers`.
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
