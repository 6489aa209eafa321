//! Conversion of labelled chains into training examples for a reward model.

use beamgen_labels::{DataSource, LabelRule, LabelledChain, Stat};
use beamgen_prm::{ChainWriter, Written};
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::batches::Read;
use super::{Example, Label};
use crate::{Error, Result};

/// The seed of the choice of beginnings.
const PARTIAL_SEED: u64 = 0;

/// The kind of reward model to train: one that scores steps, or one that scores outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process reward model (PRM): each labelled step is a target.
    Process,
    /// An outcome reward model (ORM): the chain's outcome is the only target, read after the last step.
    Outcome,
}

impl Target {
    /// Returns the name in run files, also the name of the bundled model of this kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "prm",
            Self::Outcome => "orm",
        }
    }
}

/// The settings that turn labelled chains into examples: targets, rule and weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// The kind of targets: the steps, or the outcome of the whole chain.
    pub target: Target,
    /// The rule that computes a label from the facts in the file.
    pub rule: LabelRule,
    /// If true, alternative steps give more chains: the steps before, then the alternative.
    pub alternatives: bool,
    /// The weight of the label 0. A label between 0 and 1 has a weight between this one and 1.
    pub wrong_weight: f32,
    /// The number of beginnings of steps that each chain gives as further examples: the chain up to a step and the
    /// first words of this step, with the label of the whole step. A model that is to score unfinished steps needs
    /// them. The steps and the words are chosen by a random number generator with a fixed seed.
    pub partial: usize,
}

impl Labels {
    /// Reads a file in any format of [`beamgen_labels::FORMATS`]. `writer` turns chains into tokens in the format of
    /// the model. Examples with more than `longest` tokens are left out.
    ///
    /// # Errors
    /// The file cannot be read, a chain cannot be written in the format of the model, or no example remains.
    pub fn read(
        &self,
        source: impl Into<DataSource>,
        writer: &ChainWriter,
        longest: usize,
    ) -> Result<Read> {
        let source = source.into();
        let file = beamgen_labels::open(&source, None)?;
        let mut random = ChaCha8Rng::seed_from_u64(PARTIAL_SEED);
        let mut read = Read {
            rejected: file.rejected.len(),
            ..Read::default()
        };
        for chain in &file.chains {
            let most = if self.alternatives { usize::MAX } else { 1 };
            // `with_alternatives` returns the chain itself first.
            for chain in chain.with_alternatives().into_iter().take(most) {
                let example = self.example(&chain, writer).map_err(|reason| {
                    let name = chain.id.as_deref().unwrap_or(&chain.problem);
                    Error::Config(format!("{}: chain {name:?}: {reason}", source.name))
                })?;
                match example {
                    None => read.unlabelled += 1,
                    Some(example) if example.ids.len() > longest => read.too_long += 1,
                    Some(example) => {
                        read.examples.push(example);
                        read.problems.push(chain.problem.clone());
                        for _ in 0..self.partial {
                            if let Some(example) = self.beginning(&chain, writer, &mut random) {
                                read.examples.push(example);
                                read.problems.push(chain.problem.clone());
                            }
                        }
                    }
                }
            }
        }
        if read.examples.is_empty() {
            let path = &source.name;
            Err(Error::Config(if read.too_long > 0 {
                format!("{path}: no labelled chain has at most {longest} tokens")
            } else {
                let stat = Stat::of(&file.chains, &[], &self.rule);
                let facts: Vec<&str> = stat.facts.keys().map(String::as_str).collect();
                format!(
                    "{path}: no labelled chain: what is known of the steps ({}) gives no label by the rule: name rules \
                     that give some, such as judge or verdict",
                    if facts.is_empty() {
                        "nothing".to_owned()
                    } else {
                        facts.join(", ")
                    }
                )
            }))
        } else {
            Ok(read)
        }
    }

    /// Returns the tokens of a chain, with labels at the rows where scores are read; `None` if no step has a label.
    fn example(
        &self,
        chain: &LabelledChain,
        writer: &ChainWriter,
    ) -> std::result::Result<Option<Example>, String> {
        let mut labels = self.labels(chain);
        let Some(last) = labels.iter().rposition(Option::is_some) else {
            return Ok(None);
        };
        // Attention is causal, so text after the last label has no influence on any score.
        labels.truncate(last + 1);
        let steps: Vec<&str> = chain.steps[..=last]
            .iter()
            .map(|step| step.text.as_str())
            .collect();
        let written = writer
            .written(&chain.problem, &steps)
            .map_err(|error| error.to_string())?;
        // Formats skip empty steps, and labels would be assigned to the wrong steps.
        if written.read_at.len() != labels.len() {
            return Err("has an empty step".into());
        }
        let labels = labels.into_iter().enumerate();
        let labels = labels.filter_map(|(step, right)| Some(self.label(&written, step, right?)));
        Ok(Some(Example {
            labels: labels.collect(),
            ids: written.tokens,
            next: Vec::new(),
        }))
    }

    /// Returns an example of the beginning of a labelled step; `None` if the step that is chosen has only one word.
    fn beginning(
        &self,
        chain: &LabelledChain,
        writer: &ChainWriter,
        random: &mut ChaCha8Rng,
    ) -> Option<Example> {
        let labels = self.labels(chain);
        let labelled = labels.iter().enumerate();
        let labelled: Vec<(usize, f64)> = labelled
            .filter_map(|(at, label)| Some((at, (*label)?)))
            .collect();
        let &(at, right) = labelled.choose(random)?;
        let text = chain.steps[at].text.as_str();
        let words = text.split_inclusive(char::is_whitespace).map(str::len);
        let ends: Vec<usize> = words
            .scan(0, |end, length| {
                *end += length;
                Some(*end)
            })
            .filter(|&end| !text[end..].trim().is_empty() && !text[..end].trim().is_empty())
            .collect();
        let beginning = text[..*ends.choose(random)?].trim_end();
        let before = chain.steps[..at].iter().map(|step| step.text.as_str());
        let steps: Vec<&str> = before.chain([beginning]).collect();
        let written = writer.written(&chain.problem, &steps).ok()?;
        let label = self.label(&written, written.read_at.len().checked_sub(1)?, right);
        Some(Example {
            labels: vec![label],
            ids: written.tokens,
            next: Vec::new(),
        })
    }

    /// Returns the label of a step, or the label of the whole chain after that step.
    fn label(&self, written: &Written, step: usize, right: f64) -> Label {
        let (right, starts) = (right as f32, &written.starts);
        let start = match self.target {
            Target::Process => starts[step],
            Target::Outcome => starts[0],
        };
        let end = starts.get(step + 1).copied();
        Label {
            row: written.read_at[step] as u32,
            right,
            weight: right + (1.0 - right) * self.wrong_weight,
            // The first token of a sequence is predicted by none.
            text: [start.max(1), end.unwrap_or(written.tokens.len())].map(|token| token as u32),
        }
    }

    fn labels(&self, chain: &LabelledChain) -> Vec<Option<f64>> {
        match self.target {
            Target::Process => self.rule.labels(chain),
            Target::Outcome => {
                let mut labels = vec![None; chain.steps.len()];
                if let Some(last) = labels.last_mut() {
                    *last = self.rule.chain_label(chain);
                }
                labels
            }
        }
    }
}
