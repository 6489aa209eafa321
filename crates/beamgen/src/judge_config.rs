//! Judges beside the scorer, as settings.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::server_config::ServerConfig;

/// A judge beside the scorer (`[[models.judges]]`): what the two say of a step is combined as
/// `models.combine` says.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeConfig {
    /// What judges: `prm` or `orm` (the bundled ones), `exact` (the checker of the bundled world),
    /// or a reward model as `models.prm` names one. A classifier with a label `entailment` judges
    /// whether a step follows from the problem's context.
    pub judge: PathBuf,
    /// The name of its scores in trees and of its costs in ledgers; absent: the end of `judge`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How a reward model is read, as `models.prm_format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The model that an implicit reward model is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<PathBuf>,
    /// Servers that run the reward model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerConfig>,
    /// Whether it can only fail steps, whatever the rule: what it scores below 0.5 has the score 0,
    /// the rest is left to the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub veto: bool,
    /// Whether it judges whole chains, and is asked about their last steps alone; absent: `orm`
    /// does, others do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_end: Option<bool>,
}

impl JudgeConfig {
    /// A judge by its word, folder, file or name on a hub.
    pub fn new(judge: impl Into<PathBuf>) -> Self {
        Self {
            judge: judge.into(),
            ..Self::default()
        }
    }

    /// The reward model, unless it is meant by a word.
    pub(crate) fn model(&self) -> Option<&PathBuf> {
        let is_word = ["prm", "orm", "exact"].iter().any(|word| self.is(word));
        (!is_word).then_some(&self.judge)
    }

    /// Whether it is this word.
    pub(crate) fn is(&self, word: &str) -> bool {
        is_word(Some(&self.judge), word)
    }

    /// Whether it is asked about the last steps of chains alone.
    pub(crate) fn judges_ends(&self) -> bool {
        self.at_end.unwrap_or_else(|| self.is("orm"))
    }

    /// Whether it knows the problems of the bundled world alone, and is no model of the user's.
    pub(crate) fn is_bundled_model(&self) -> bool {
        self.server.is_none() && (self.is("prm") || self.is("orm"))
    }

    /// Its name, unless it is one of those `taken`: then with a number.
    pub(crate) fn name_beside(&self, taken: &[String]) -> String {
        let end = || self.judge.file_name().unwrap_or(self.judge.as_os_str());
        let given = self.name.clone();
        let name = given.unwrap_or_else(|| Path::new(end()).display().to_string());
        numbered(name, taken)
    }
}

/// Whether a model's name is this word, and no file or folder here has that name.
pub fn is_word(model: Option<&Path>, word: &str) -> bool {
    model.is_some_and(|name| name == Path::new(word) && !name.exists())
}

/// The name, with a number behind it if it is taken.
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
