use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::stream::hash_bytes;

/// The speaker of a turn in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person who asks.
    User,
    /// The model, whose turn answers the user's.
    Assistant,
}

impl Role {
    /// Returns the name in chats, such as `"user"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A turn of the chat before the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The writer of the turn: the user or the model.
    pub role: Role,
    /// The text of the turn, without the template's marks.
    pub content: String,
}

/// A question to be answered by a search, with the texts that belong to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Problem {
    /// The name in reports. It need not be unique: results are matched by their position in the
    /// input.
    pub id: String,
    /// The question. Scorers and judges read it [with the context](Self::with_context).
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
    /// The turns of the chat before the question, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// The text that every chain begins with, after `steps`, exactly as given. Whole steps in it
    /// are treated as `steps` are; the rest is the beginning of the first sampled step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// The tools that the chat template may describe, each as a JSON object in the template's form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<serde_json::Value>,
    /// The name of the verifier that judges the chains, if it is not the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<String>,
    /// The data by which a verifier judges, such as the tests of a program. Like the reference
    /// answer, the search never reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<serde_json::Value>,
}

impl Problem {
    /// Returns a stable 64-bit key of id, text, context, turns and tools. The key is the same on
    /// every machine and in every run. The problem's random numbers follow from it, so they do not
    /// depend on the other problems in flight.
    ///
    /// Given steps and the prefix do not change the key: a chain continues from given text as from
    /// the same text sampled.
    pub fn key(&self) -> u64 {
        let id = hash_bytes(self.id.as_bytes(), 0);
        let text = hash_bytes(self.text.as_bytes(), id);
        // A missing part adds nothing to the key: problems without it keep the keys of earlier
        // versions.
        let documents = self.context.iter();
        let key = documents.fold(text, |key, document| hash_bytes(document.as_bytes(), key));
        // The words "turn" and "tool" keep turns and tools apart from documents with the same text.
        let key = self.turns.iter().fold(key, |key, turn| {
            let role = hash_bytes(turn.role.name().as_bytes(), hash_bytes(b"turn", key));
            hash_bytes(turn.content.as_bytes(), role)
        });
        self.tools.iter().fold(key, |key, tool| {
            hash_bytes(tool.to_string().as_bytes(), hash_bytes(b"tool", key))
        })
    }

    /// Returns the problem as scorers and judges read it: the documents, then the earlier turns,
    /// then the question, separated by blank lines.
    pub fn with_context(&self) -> Cow<'_, str> {
        let turns = self.turns.iter().map(|turn| turn.content.as_str());
        self.after_context(turns)
    }

    /// Returns the question after the documents, separated by blank lines. Generators get the
    /// earlier turns separately, as turns of the chat.
    pub fn question(&self) -> Cow<'_, str> {
        self.after_context(std::iter::empty())
    }

    fn after_context<'a>(&'a self, turns: impl Iterator<Item = &'a str>) -> Cow<'a, str> {
        let documents = self.context.iter().map(String::as_str);
        let mut texts: Vec<&str> = documents.chain(turns).collect();
        if texts.is_empty() {
            return Cow::Borrowed(&self.text);
        }
        texts.push(&self.text);
        Cow::Owned(texts.join("\n\n"))
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

    #[test]
    fn turns_and_tools_change_the_key_and_a_prefix_does_not() {
        fn turn(role: Role, content: &str) -> Turn {
            let content = content.to_owned();
            Turn { role, content }
        }
        let plain = Problem::from("How many?");
        let chat = |turns: &[Turn]| Problem {
            turns: turns.to_vec(),
            ..plain.clone()
        };
        let (asked, said) = (turn(Role::User, "Hi."), turn(Role::Assistant, "Hi."));
        let both = chat(&[asked.clone(), said.clone()]);
        let document = Problem {
            context: vec!["Hi.".to_owned()],
            ..plain.clone()
        };
        let tools = Problem {
            tools: vec![serde_json::json!({"name": "sum"})],
            ..plain.clone()
        };
        let problems = [
            plain.clone(),
            both.clone(),
            chat(&[asked]),
            chat(&[said]),
            document,
            tools.clone(),
        ];
        let keys: std::collections::BTreeSet<u64> = problems.iter().map(Problem::key).collect();
        assert_eq!(keys.len(), problems.len());
        let begun = Problem {
            prefix: "So".to_owned(),
            ..both.clone()
        };
        assert_eq!(begun.key(), both.key());
        assert_eq!(both.with_context(), "Hi.\n\nHi.\n\nHow many?");
        assert_eq!(both.question(), "How many?");
        let written = serde_json::to_value(&plain).unwrap();
        assert_eq!(written, serde_json::json!({"id": "1", "text": "How many?"}));
        for problem in [begun, tools] {
            let written = serde_json::to_value(&problem).unwrap();
            assert_eq!(serde_json::from_value::<Problem>(written).unwrap(), problem);
        }
    }
}
