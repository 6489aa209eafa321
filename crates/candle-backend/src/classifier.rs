//! Sequence classifiers as reward models. A classifier reads the problem and the steps so far as a
//! pair of texts, and returns the probability that the last step is right. A model of entailment
//! (NLI) reads the context with the earlier steps as the first text and the last step as the
//! second. It returns the probability that the second follows from the first.

use std::panic::{AssertUnwindSafe, catch_unwind};

use beamgen_engine::{Checkpoint, Tokenizer, Weights};
use beamgen_search::{Cause, PerStep, Problem, ScoreError, Scorer, StepScorer};

use crate::classifier_config::ClassifierConfig;
use crate::classifiers::{Classifier, Input, Output};
use crate::error::{Error, first_line};
use crate::fields::check_tokens;
use crate::weights::LazyWeights;

/// A classifier whose files were checked; no weight was read yet.
#[derive(Debug)]
pub struct CandleClassifier {
    name: String,
    config: ClassifierConfig,
    weights: LazyWeights,
    tokenizer: Tokenizer,
}

impl CandleClassifier {
    /// Reads and checks the files of a checkpoint, except the values of the weights.
    ///
    /// # Errors
    /// [`Error`] if the family is unknown, if `config.json` asks for something that candle does not
    /// implement, if its labels give no score, or if a file is broken.
    pub fn open(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let config = ClassifierConfig::load(checkpoint)?;
        let tokenizer = Tokenizer::load(checkpoint.clone())?;
        check_tokens(checkpoint, config.vocab_size, &tokenizer)?;
        Ok(Self {
            name: checkpoint.path().display().to_string(),
            weights: LazyWeights::new(Weights::load(checkpoint.clone())?),
            config,
            tokenizer,
        })
    }

    /// Returns the most tokens of a problem with its steps, special tokens included.
    pub fn context(&self) -> usize {
        self.config.context
    }

    /// Returns the name of the label whose probability is the score.
    pub fn label(&self) -> &str {
        &self.config.labels[self.config.scored]
    }

    /// Whether a score is the probability that a step follows from the problem's context. If so,
    /// the classifier abstains on problems without context.
    pub fn entails(&self) -> bool {
        self.config.entails
    }

    /// Bytes of all weights in float32.
    ///
    /// # Errors
    /// An error of reading a tensor's shape; [`open`](Self::open) finds such errors first.
    pub fn weight_bytes(&self) -> Result<u64, Error> {
        Ok(self.weights.bytes()?)
    }

    /// Reads the weights and returns the scorer. The weights may take at most `memory` bytes in
    /// float32.
    ///
    /// # Errors
    /// [`Error`] if the weights do not fit the configuration, or need more than `memory`.
    pub fn load(self, memory: u64) -> Result<impl Scorer + Send, Error> {
        self.weights.fit(&self.name, memory)?;
        Ok(PerStep::new(LoadedClassifier {
            model: self.config.classifier(&self.name, self.weights)?,
            tokenizer: self.tokenizer,
            context: self.config.context,
            has_types: self.config.has_types,
            output: self.config.family.output,
            labels: self.config.labels.len(),
            scored: self.config.scored,
            entails: self.config.entails,
            name: self.name,
            read: 0,
        }))
    }
}

/// A classifier that reads the whole chain for each step. Its attention looks in both directions,
/// so nothing can be cached from step to step.
struct LoadedClassifier {
    name: String,
    model: Classifier,
    tokenizer: Tokenizer,
    context: usize,
    has_types: bool,
    output: Output,
    labels: usize,
    scored: usize,
    entails: bool,
    /// The number of tokens that were read for the last score.
    read: usize,
}

impl LoadedClassifier {
    fn failed(&self, reason: String) -> ScoreError {
        ScoreError::Failed(Cause::new(Error::Candle {
            model: self.name.clone(),
            reason,
        }))
    }

    /// Runs the model and returns a number for each label.
    fn outputs(&self, input: &Input) -> Result<Vec<f32>, String> {
        // candle panics for some configurations, which must fail only this score.
        match catch_unwind(AssertUnwindSafe(|| {
            (self.model)(input)?.flatten_all()?.to_vec1::<f32>()
        })) {
            Ok(Ok(outputs)) => Ok(outputs),
            Ok(Err(error)) => Err(first_line(&error)),
            Err(_) => Err("candle-transformers panicked".to_owned()),
        }
    }

    /// The probability of the label that is the score.
    fn probability(&self, outputs: &[f32]) -> f32 {
        if outputs.len() != self.labels {
            return f32::NAN;
        }
        let own = outputs[self.scored];
        if self.output == Output::Softmax {
            return own;
        }
        let others = outputs.iter().enumerate();
        let others = others.filter(|(label, _)| *label != self.scored);
        let others: Vec<f32> = others.map(|(_, logit)| *logit).collect();
        // The log-odds against all other labels: their logits become one by log-sum-exp, which is
        // exact for a single other label.
        match others.iter().copied().reduce(f32::max) {
            Some(most) => {
                let sum: f32 = others.iter().map(|logit| (logit - most).exp()).sum();
                sigmoid(own - (most + sum.ln()))
            }
            None => sigmoid(own),
        }
    }
}

impl StepScorer for LoadedClassifier {
    fn score(&mut self, problem: &Problem, steps: &[&str]) -> Result<f32, ScoreError> {
        let context = self.context;
        let (first, second) = if self.entails {
            let (step, before) = steps.split_last().unwrap_or((&"", &[]));
            let documents = problem.context.join("\n\n");
            let premise = [&documents, "\n\n", &before.concat()].concat();
            (premise.trim_end().to_owned(), step.trim().to_owned())
        } else {
            let chain = steps.concat();
            let second = chain.trim_end().to_owned();
            (problem.with_context().into_owned(), second)
        };
        // Each step has at least one token, so too many steps are refused without tokenising.
        if steps.len() > context || self.tokenizer.exceeds(&[&first, &second], context) {
            let texts = problem.with_context();
            return Err(ScoreError::text_too_long(&texts, steps, context));
        }
        let pair = self.tokenizer.encode_pair(&first, &second);
        let mut pair = pair.map_err(|error| ScoreError::Prompt(error.to_string()))?;
        let tokens = pair.tokens.len();
        if tokens > context {
            return Err(ScoreError::TooLong { tokens, context });
        }
        if !self.has_types {
            pair.types.fill(0);
        }
        let input = Input::new(&pair.tokens, &pair.types);
        let input = input.map_err(|error| self.failed(first_line(&error)))?;
        let outputs = self.outputs(&input).map_err(|reason| self.failed(reason))?;
        self.read = tokens;
        let score = self.probability(&outputs);
        if score.is_nan() {
            return Err(self.failed(format!("it gives {outputs:?} for its labels")));
        }
        Ok(score.clamp(0.0, 1.0))
    }

    fn abstains(&self, problem: &Problem) -> bool {
        self.entails && problem.context.is_empty()
    }

    fn read_tokens(&self) -> usize {
        self.read
    }
}

fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}
