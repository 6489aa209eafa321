use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::stream::hash_bytes;

/// A question to be answered by a search.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Problem {
    /// The name in reports. It need not be unique: results are matched by their position in the
    /// input.
    pub id: String,
    /// The question. Generator, scorers and judges read it [with the context](Self::with_context).
    pub text: String,
    /// The reference answer, if known. The search never reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The steps that every chain begins with, treated as if they had been sampled. No step may be
    /// blank; a missing boundary at the end of a step is added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// The documents that the answer has to follow from. No document may be blank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
}

impl Problem {
    /// Returns a stable 64-bit key of id, text and context. The key is the same on every machine
    /// and in every run, so that a problem has the same random numbers whatever else is in flight.
    ///
    /// Given steps do not change the key: chains continue from given steps as from sampled ones.
    pub fn key(&self) -> u64 {
        let id = hash_bytes(self.id.as_bytes(), 0);
        let text = hash_bytes(self.text.as_bytes(), id);
        // Without documents the key is the one that problems had before contexts existed.
        let documents = self.context.iter();
        documents.fold(text, |key, document| hash_bytes(document.as_bytes(), key))
    }

    /// Returns the problem as generator, scorers and judges read it: the documents, then the
    /// question, separated by blank lines.
    pub fn with_context(&self) -> Cow<'_, str> {
        if self.context.is_empty() {
            return Cow::Borrowed(&self.text);
        }
        Cow::Owned(format!("{}\n\n{}", self.context.join("\n\n"), self.text))
    }
}

impl From<&str> for Problem {
    /// Makes a problem with the id "1" and without a reference answer.
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
        fn written(problem: &Problem) -> serde_json::Value {
            serde_json::to_value(problem).unwrap()
        }
        let plain = Problem::from("How many?");
        let documents = |context: &[&str]| Problem {
            context: context.iter().map(|&text| text.to_owned()).collect(),
            ..plain.clone()
        };
        assert_eq!(plain.with_context(), "How many?");
        let two = documents(&["Three.", "Four."]);
        assert_eq!(two.with_context(), "Three.\n\nFour.\n\nHow many?");
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
