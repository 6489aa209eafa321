//! Conversion of labelled chains into examples for a reward model.

use std::path::Path;

use beamgen_labels::{LabelRule, LabelledChain, Stat};
use beamgen_prm::ChainWriter;

use super::batches::Read;
use super::{Example, Label};
use crate::{Error, Result};

/// The training target of a reward model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The label of every step that has one: a process reward model (PRM).
    Process,
    /// The label of the whole chain, read after its last step: an outcome reward model (ORM).
    Outcome,
}

impl Target {
    /// Returns the name in run files and in the names of bundled models.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "prm",
            Self::Outcome => "orm",
        }
    }
}

/// The settings by which labelled chains become examples.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// Whether steps or whole chains are labelled.
    pub target: Target,
    /// The rule that turns facts into labels.
    pub rule: LabelRule,
    /// Whether the alternatives of a step become chains of their own.
    pub alternatives: bool,
    /// The factor of the loss of a wrong step; a soft label gets a factor between 1 and this one.
    pub wrong_weight: f32,
}

impl Labels {
    /// Reads a file in any format of [`beamgen_labels::FORMATS`]; `writer` turns the chains into
    /// tokens. Examples of more than `longest` tokens are left out.
    ///
    /// # Errors
    /// The file cannot be read, the model's format cannot express a chain, or no example remains.
    pub fn read(&self, path: &Path, writer: &ChainWriter, longest: usize) -> Result<Read> {
        let file = beamgen_labels::open(path, None)?;
        let mut read = Read {
            rejected: file.rejected.len(),
            ..Read::default()
        };
        for chain in &file.chains {
            let most = if self.alternatives { usize::MAX } else { 1 };
            // The chain itself comes first, its alternatives follow.
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

    /// Returns a chain's tokens with the labels at the positions from which scores are read; `None`
    /// without labels.
    fn example(
        &self,
        chain: &LabelledChain,
        writer: &ChainWriter,
    ) -> std::result::Result<Option<Example>, String> {
        let mut labels = self.labels(chain);
        let Some(last) = labels.iter().rposition(Option::is_some) else {
            return Ok(None);
        };
        // Attention is causal: text after the last label cannot change any predicted score.
        labels.truncate(last + 1);
        let steps: Vec<&str> = chain.steps[..=last]
            .iter()
            .map(|step| step.text.as_str())
            .collect();
        let written = writer
            .written(&chain.problem, &steps)
            .map_err(|error| error.to_string())?;
        // Formats skip empty steps, so the labels would shift.
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
