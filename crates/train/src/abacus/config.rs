//! The configuration of `beamgen train abacus`. Equal configurations give equal models.

use super::mining::Mining;
use super::model::Shape;
use super::stage::Schedule;
use crate::{Error, Result};
use beamgen_world::{Difficulty, ErrorRates, NAMES};
use serde::{Deserialize, Serialize};

/// All settings of `beamgen train abacus`. The default trains the bundled models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// The seed of fresh weights, of problems and of their order.
    pub seed: u64,
    /// The shape of the base model. The generator has the same shape; the reward models have `extra_layers` more.
    pub shape: Shape,
    /// The difficulty of all problems, in training and evaluation.
    pub difficulty: Difficulty,
    /// The schedule of the base model, a language model of right solutions.
    #[serde(alias = "body")]
    pub base: Schedule,
    /// The schedule of the generator, which continues the base model on noisy solutions.
    pub generator: Schedule,
    /// The rate of each kind of mistake in noisy solutions.
    #[serde(alias = "slips")]
    pub error_rates: ErrorRates,
    /// The number of chains sampled from the generator at temperature 1, to train the reward
    /// models.
    pub chains: usize,
    /// The number of layers that PRM and ORM have in addition to `shape.layers`.
    pub extra_layers: usize,
    /// The schedule of replaced-token detection, from which PRM and ORM start.
    pub detector: Schedule,
    /// The schedule of the process reward model on sampled chains, before the rounds of `hard`.
    pub prm: Schedule,
    /// The search for hard negatives: mistakes that a reward model rates as right.
    pub mining: Mining,
    /// The schedule of one round of training PRM or ORM on hard negatives.
    #[serde(alias = "prm_hard")]
    pub hard: Schedule,
    /// The schedule of the outcome reward model on sampled chains, before the rounds of `hard`.
    pub orm: Schedule,
    /// The number of problems of the test split in the evaluation.
    #[serde(alias = "gate_problems")]
    pub evaluation_problems: usize,
    /// The number of updates between two saved states of a stage.
    pub save_every: usize,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            shape: Shape {
                hidden: 128,
                layers: 4,
                heads: 4,
                feed_forward: 320,
            },
            difficulty: Difficulty::BUNDLED,
            base: schedule(2400, 100, 2e-3),
            generator: schedule(400, 50, 8e-4),
            error_rates: ErrorRates::default(),
            chains: 24_000,
            extra_layers: 2,
            detector: schedule(1200, 100, 1.5e-3),
            prm: schedule(1500, 40, 1.2e-3),
            mining: Mining {
                rounds: 12,
                orm_rounds: 6,
                problems: 2000,
                samples: 32,
                temperature: 1.3,
                keep: 6,
            },
            hard: schedule(500, 30, 8e-4),
            orm: schedule(300, 40, 8e-4),
            evaluation_problems: 500,
            save_every: 200,
        }
    }
}

impl TrainConfig {
    /// Checks the range of each setting.
    ///
    /// # Errors
    /// [`Error::Config`] with the field and its range.
    pub fn check(&self) -> Result<()> {
        let (hidden, heads) = (self.shape.hidden, self.shape.heads);
        if heads == 0 || hidden % heads != 0 || ![16, 32, 64].contains(&(hidden / heads)) {
            return refuse("shape.hidden", "must be 16, 32 or 64 times shape.heads");
        }
        if self.shape.layers == 0 || self.shape.feed_forward == 0 {
            return refuse("shape.layers and shape.feed_forward", "must be at least 1");
        }
        let d = self.difficulty;
        if d.dependency_distance == 0
            || d.min_people < 2
            || d.max_people < d.min_people
            || d.max_people > NAMES.len()
        {
            return refuse(
                "difficulty",
                "needs 2 <= min_people <= max_people <= 16 and dependency_distance >= 1",
            );
        }
        for (name, s) in [
            ("base", self.base),
            ("generator", self.generator),
            ("detector", self.detector),
            ("prm", self.prm),
            ("hard", self.hard),
            ("orm", self.orm),
        ] {
            if s.steps == 0
                || s.batch_tokens == 0
                || s.learning_rate.is_nan()
                || s.learning_rate <= 0.0
            {
                return refuse(name, "needs steps, batch_tokens and learning_rate above 0");
            }
        }
        let m = self.mining;
        if m.problems == 0 || m.samples == 0 || m.keep == 0 {
            return refuse("mining", "needs problems, samples and keep above 0");
        }
        if !(m.temperature > 0.0 && m.temperature.is_finite()) {
            return refuse("mining.temperature", "must be above 0");
        }
        if self.chains == 0 || self.evaluation_problems == 0 || self.save_every == 0 {
            return refuse(
                "chains, evaluation_problems and save_every",
                "must be at least 1",
            );
        }
        Ok(())
    }

    /// Returns a configuration with small models and easy problems, for tests: the whole pipeline takes about a
    /// minute.
    pub fn quick() -> Self {
        Self {
            shape: Shape {
                hidden: 64,
                layers: 2,
                heads: 4,
                feed_forward: 128,
            },
            difficulty: Difficulty {
                min_people: 2,
                max_people: 3,
                dependency_distance: 1,
            },
            base: quick_schedule(300),
            generator: quick_schedule(40),
            chains: 400,
            extra_layers: 1,
            detector: quick_schedule(60),
            prm: quick_schedule(60),
            mining: Mining {
                rounds: 2,
                orm_rounds: 2,
                problems: 40,
                samples: 8,
                temperature: 1.3,
                keep: 4,
            },
            hard: quick_schedule(20),
            orm: quick_schedule(40),
            evaluation_problems: 60,
            ..Self::default()
        }
    }
}

fn refuse(field: &str, must: &str) -> Result<()> {
    Err(Error::Config(format!("{field}: {must}")))
}

fn schedule(steps: usize, warmup: usize, learning_rate: f64) -> Schedule {
    Schedule {
        steps,
        warmup,
        learning_rate,
        batch_tokens: 4096,
    }
}

fn quick_schedule(steps: usize) -> Schedule {
    Schedule {
        batch_tokens: 1024,
        ..schedule(steps, 10, 3e-3)
    }
}
