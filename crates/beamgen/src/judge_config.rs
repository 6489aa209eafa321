//! Settings of the judges, which score steps in addition to the scorer.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::server_config::ServerConfig;

/// A judge (`[[models.judges]]`). The rule `models.combine` combines the judge's scores with the
/// scorer's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeConfig {
    /// The judge: `prm` or `orm` (the bundled models), `exact` (the checker of the bundled world),
    /// or a reward model in one of the forms of `models.prm`. A classifier with a label
    /// `entailment` judges whether a step follows from the problem's context.
    pub judge: PathBuf,
    /// The judge's name in trees and ledgers. Absent: the last part of `judge`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The format of the reward model, in one of the forms of `models.prm_format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Another model whose tokenizer and chat template the judge has, in one of the forms of
    /// `models.prm_tokenizer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// The reference model, if the reward model is an implicit one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<PathBuf>,
    /// The servers that run the judge's reward model, instead of this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerConfig>,
    /// Whether the judge can only reject steps, whatever the rule. A step that the judge scores
    /// below 0.5 gets the score 0; other steps keep the score of the other judges.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub veto: bool,
    /// Whether the judge scores only the last step of a chain, for the whole chain. Absent: true
    /// for `orm`, false for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_end: Option<bool>,
}

impl JudgeConfig {
    /// Returns a judge with default settings, by a reserved word, a folder, a file, or a name on a
    /// hub.
    pub fn new(judge: impl Into<PathBuf>) -> Self {
        Self {
            judge: judge.into(),
            ..Self::default()
        }
    }

    /// Returns the path or name of the reward model; `None` if `judge` is a reserved word.
    pub(crate) fn model(&self) -> Option<&PathBuf> {
        let is_word = ["prm", "orm", "exact"].iter().any(|word| self.is(word));
        (!is_word).then_some(&self.judge)
    }

    /// Whether `judge` is the reserved word `word`.
    pub(crate) fn is(&self, word: &str) -> bool {
        is_word(Some(&self.judge), word)
    }

    /// Whether the judge scores only the last steps of chains.
    pub(crate) fn judges_ends(&self) -> bool {
        self.at_end.unwrap_or_else(|| self.is("orm"))
    }

    /// Whether the judge is a bundled model, and so knows only problems of the bundled world.
    pub(crate) fn is_bundled_model(&self) -> bool {
        self.server.is_none() && (self.is("prm") || self.is("orm"))
    }

    /// Returns the judge's name, followed by a number if `taken` contains the name.
    pub(crate) fn name_beside(&self, taken: &[String]) -> String {
        let end = self.judge.file_name().unwrap_or(self.judge.as_os_str());
        let given = self.name.clone();
        let name = given.unwrap_or_else(|| Path::new(end).display().to_string());
        numbered(name, taken)
    }
}

/// Whether `model` is the reserved word `word`. A file or folder with that name wins over the word.
pub fn is_word(model: Option<&Path>, word: &str) -> bool {
    model.is_some_and(|name| name == Path::new(word) && !name.exists())
}

/// Returns `name`, with the first free number from 2 appended if the name is taken.
pub(crate) fn numbered(name: String, taken: &[String]) -> String {
    let mut unique = name.clone();
    let mut number = 2;
    while taken.contains(&unique) {
        unique = format!("{name}-{number}");
        number += 1;
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_has_the_end_of_its_name_and_names_are_told_apart() {
        let name = |judge: &str, taken: &[&str]| {
            let taken: Vec<String> = taken.iter().map(|name| (*name).to_owned()).collect();
            JudgeConfig::new(judge).name_beside(&taken)
        };
        assert_eq!(name("models/my-prm/", &[]), "my-prm");
        assert_eq!(name("Qwen/Qwen2.5-Math-PRM-7B", &[]), "Qwen2.5-Math-PRM-7B");
        assert_eq!(name("prm", &["prm", "prm-2"]), "prm-3");
    }
}
