//! Conversion of labelled chains into training examples for a reward model.

use std::path::Path;

use beamgen_labels::{LabelRule, LabelledChain, Stat};
use beamgen_prm::ChainWriter;

use super::batches::Read;
use super::{Example, Label};
use crate::{Error, Result};

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
}

impl Labels {
    /// Reads a file in any format of [`beamgen_labels::FORMATS`]. `writer` turns chains into tokens in the format of
    /// the model. Examples with more than `longest` tokens are left out.
    ///
    /// # Errors
    /// The file cannot be read, a chain cannot be written in the format of the model, or no example remains.
    pub fn read(&self, path: &Path, writer: &ChainWriter, longest: usize) -> Result<Read> {
        let file = beamgen_labels::open(path, None)?;
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
                    Error::Config(format!("{}: chain {name:?}: {reason}", path.display()))
                })?;
                match example {
                    None => read.unlabelled += 1,
                    Some(example) if example.ids.len() > longest => read.too_long += 1,
                    Some(example) => {
                        read.examples.push(example);
                        read.problems.push(chain.problem);
                    }
                }
            }
        }
        if read.examples.is_empty() {
            let path = path.display();
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
        let labels = labels.into_iter().zip(&written.read_at);
        let labels = labels.filter_map(|(right, &row)| {
            let right = right? as f32;
            Some(Label {
                row: row as u32,
                right,
                weight: right + (1.0 - right) * self.wrong_weight,
            })
        });
        Ok(Some(Example {
            labels: labels.collect(),
            ids: written.tokens,
            next: Vec::new(),
        }))
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
