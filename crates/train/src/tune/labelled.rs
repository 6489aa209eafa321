//! Labelled chains as examples for a reward model.

use std::path::Path;

use beamgen_labels::{LabelRule, LabelledChain, Stat};
use beamgen_prm::ChainWriter;

use super::batches::Read;
use super::{Example, Label};
use crate::{Error, Result};

/// What a reward model learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The label of every step that has one (PRM).
    Process,
    /// Whether the chain's answer is right, or what the rules say of the whole chain, read after its
    /// last step (ORM).
    Outcome,
}

impl Target {
    /// The name of the reward model: in run files, and of a bundled one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "prm",
            Self::Outcome => "orm",
        }
    }
}

/// How labelled chains become examples.
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    /// Process or outcome.
    pub target: Target,
    /// How raw facts become labels.
    pub rule: LabelRule,
    /// Whether a step's alternatives are chains of their own.
    pub alternatives: bool,
    /// What a wrong step's loss is multiplied with; a soft label lies between.
    pub wrong_weight: f32,
}

impl Labels {
    /// The examples of a file of any of the formats of [`beamgen_labels::FORMATS`], as `writer`
    /// writes them, of at most `longest` tokens.
    ///
    /// # Errors
    /// A file that cannot be read, a chain that the model's format cannot write, or no example at
    /// all.
    pub fn read(&self, path: &Path, writer: &ChainWriter, longest: usize) -> Result<Read> {
        let file = beamgen_labels::open(path, None)?;
        let mut read = Read {
            rejected: file.rejected.len(),
            ..Read::default()
        };
        for chain in &file.chains {
            let most = if self.alternatives { usize::MAX } else { 1 };
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
                format!("{path}: no labelled chain of at most {longest} tokens")
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

    /// A chain's tokens with a label at each place where the model is read; `None` without any
    /// label.
    fn example(
        &self,
        chain: &LabelledChain,
        writer: &ChainWriter,
    ) -> std::result::Result<Option<Example>, String> {
        let mut labels = self.labels(chain);
        let Some(last) = labels.iter().rposition(Option::is_some) else {
            return Ok(None);
        };
        // What stands behind the last label changes nothing before it.
        labels.truncate(last + 1);
        let steps: Vec<&str> = chain.steps[..=last]
            .iter()
            .map(|step| step.text.as_str())
            .collect();
        let written = writer
            .written(&chain.problem, &steps)
            .map_err(|error| error.to_string())?;
        if written.read_at.len() != labels.len() {
            return Err("a step is empty".into());
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
