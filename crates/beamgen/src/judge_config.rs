//! Settings of judges, which are asked in addition to the scorer.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::server_config::ServerConfig;

/// A judge (`[[models.judges]]`). The rule `models.combine` combines its scores with the scorer's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeConfig {
    /// The judge: `prm` or `orm` (the bundled models), `exact` (the checker of the bundled world), or a
    /// reward model named as for `models.prm`. A classifier with a label `entailment` judges whether
    /// a step follows from the problem's context.
    pub judge: PathBuf,
    /// The judge's name in trees and ledgers; absent: the last part of `judge`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The format of a reward model, as for `models.prm_format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The reference model of an implicit reward model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<PathBuf>,
    /// Servers that run the judge's reward model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerConfig>,
    /// Whether the judge can only fail steps, whatever the rule: a step that it scores below 0.5 has
    /// the score 0, and other steps keep the scores of the other judges.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub veto: bool,
    /// Whether the judge scores whole chains, and is asked about their last steps only; absent: true
    /// for `orm`, false otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_end: Option<bool>,
}

impl JudgeConfig {
    /// Returns a judge by its reserved word, folder, file or name on a hub.
    pub fn new(judge: impl Into<PathBuf>) -> Self {
        Self {
            judge: judge.into(),
            ..Self::default()
        }
    }

    /// Returns the path or name of the reward model, unless `judge` is a reserved word.
    pub(crate) fn model(&self) -> Option<&PathBuf> {
        let is_word = ["prm", "orm", "exact"].iter().any(|word| self.is(word));
        (!is_word).then_some(&self.judge)
    }

    /// Whether `judge` is this reserved word.
    pub(crate) fn is(&self, word: &str) -> bool {
        is_word(Some(&self.judge), word)
    }

    /// Whether the judge is asked about the last steps of chains only.
    pub(crate) fn judges_ends(&self) -> bool {
        self.at_end.unwrap_or_else(|| self.is("orm"))
    }

    /// Whether the judge is a bundled model, which knows problems of the bundled world only.
    pub(crate) fn is_bundled_model(&self) -> bool {
        self.server.is_none() && (self.is("prm") || self.is("orm"))
    }

    /// Returns the judge's name, with a number if the name is `taken`.
    pub(crate) fn name_beside(&self, taken: &[String]) -> String {
        let end = self.judge.file_name().unwrap_or(self.judge.as_os_str());
        let given = self.name.clone();
        let name = given.unwrap_or_else(|| Path::new(end).display().to_string());
        numbered(name, taken)
    }
}

/// Whether a model's name is this reserved word, and no file or folder has that name.
pub fn is_word(model: Option<&Path>, word: &str) -> bool {
    model.is_some_and(|name| name == Path::new(word) && !name.exists())
}

/// Returns the name, with a number after it if the name is taken.
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
