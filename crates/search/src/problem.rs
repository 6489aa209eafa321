use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::stream::hash_bytes;

/// A question to be answered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Problem {
    /// Name in reports. Need not be unique: results are told apart by their position in the input.
    pub id: String,
    /// The question. Generator, scorers, and judges read it [with the context](Self::with_context).
    pub text: String,
    /// The reference answer, if known. The search never looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The steps that every chain begins with, exactly as if they had been sampled; none of them
    /// blank. A step that lacks a boundary at its end gets one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// The documents that the answer has to follow from; none of them blank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
}

impl Problem {
    /// Stable 64-bit key of id, text, and context: the same on every machine and in every run, so
    /// that a problem draws the same random numbers whatever else is solved beside it. Given steps do
    /// not change it: a chain goes on from them as from steps that it sampled.
    pub fn key(&self) -> u64 {
        let id = hash_bytes(self.id.as_bytes(), 0);
        let text = hash_bytes(self.text.as_bytes(), id);
        let documents = self.context.iter();
        documents.fold(text, |key, document| hash_bytes(document.as_bytes(), key))
    }

    /// Returns the problem as generator, scorers, and judges read it: the documents, then the
    /// question, with a blank line between them; without context the text alone.
    pub fn with_context(&self) -> Cow<'_, str> {
        if self.context.is_empty() {
            return Cow::Borrowed(&self.text);
        }
        Cow::Owned(format!("{}\n\n{}", self.context.join("\n\n"), self.text))
    }
}

impl From<&str> for Problem {
    /// A problem that is named "1", without a reference answer.
    fn from(text: &str) -> Self {
        Self {
            id: "1".to_owned(),
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&Problem> for Problem {
    fn from(problem: &Problem) -> Self {
        problem.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_changes_text_and_key_only_where_it_is() {
        let plain = Problem::from("How many?");
        let documents = |context: &[&str]| Problem {
            context: context.iter().map(|&text| text.to_owned()).collect(),
            ..plain.clone()
        };
        assert_eq!(plain.with_context(), "How many?");
        let two = documents(&["Three.", "Four."]);
        assert_eq!(two.with_context(), "Three.\n\nFour.\n\nHow many?");
        let written = |problem: &Problem| serde_json::to_value(problem).unwrap();
        assert!(written(&plain).get("context").is_none());
        assert_eq!(
            serde_json::from_value::<Problem>(written(&two)).unwrap(),
            two
        );
        let before = hash_bytes(b"How many?", hash_bytes(b"1", 0));
        assert_eq!(documents(&[]).key(), before);
        let keys = [&["Three.", "Four."][..], &["Four.", "Three."], &["Three."]];
        let mut keys = keys.map(|context| documents(context).key()).to_vec();
        keys.push(before);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 4);
    }
}
