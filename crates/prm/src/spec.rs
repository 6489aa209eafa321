//! How a reward model is read, as data.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::recognise::Recognise;

/// How a reward model is read: how a chain is written down, where it is read, which head turns a
/// hidden state into numbers, and which normaliser turns those into a probability.
///
/// Files in `configs/prm/` are this structure as TOML; its README explains how to write one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrmSpec {
    /// The family's name or the file it comes from, for messages.
    #[serde(skip)]
    pub name: String,
    /// The checkpoints that are read like this when nobody says how.
    #[serde(default, skip_serializing)]
    pub recognise: Recognise,
    /// What stands before the first step.
    #[serde(default)]
    pub prompt: PromptSpec,
    /// How a step is written down.
    #[serde(default)]
    pub step: StepSpec,
    /// From hidden states to numbers.
    pub head: HeadSpec,
    /// From numbers to a probability.
    pub normaliser: Normaliser,
}

/// What stands before the first step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptSpec {
    /// Jinja over `problem` and `bos`. Without it, the checkpoint's chat template writes the
    /// problem as the user's turn and the steps are the assistant's.
    pub text: Option<String>,
    /// The system's turn of the chat.
    pub system: Option<String>,
    /// The day, `YYYY-MM-DD`, that a chat template which asks takes for today. Without it: today.
    pub date: Option<String>,
    /// Whether the tokenizer adds to `text` the special tokens it adds to any text (not those that
    /// a chat template writes itself).
    pub special_tokens: bool,
}

impl Default for PromptSpec {
    fn default() -> Self {
        Self {
            text: None,
            system: None,
            date: None,
            special_tokens: true,
        }
    }
}

/// How a step is written down: its segment of the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepSpec {
    /// Jinja over `step` (without white space around it) and `index` (from 1).
    pub text: String,
    /// In place of `text` for the first step; with `turns` also over `problem`.
    pub first: Option<String>,
    /// Each step is a user's turn, answered by an assistant's with the `verdict`.
    pub turns: bool,
    /// Written behind the text; the score is read where the model predicts it.
    pub verdict: Option<String>,
    /// How segments become tokens.
    pub tokenise: Tokenise,
    /// With `pieces`: tokenised on its own and put behind the step's tokens.
    pub separator: Option<String>,
    /// With `pieces`: a step is cut at the separators in it, and each part ends in one.
    pub split: bool,
    /// The one token that the score is read at. Checked, not written.
    pub tag: Option<String>,
    /// The generator's own tokens may be read in place of the step's text tokenised anew, if it
    /// has the same tokenizer.
    pub share_tokens: bool,
}

impl Default for StepSpec {
    fn default() -> Self {
        Self {
            text: "{{ step }}".into(),
            first: None,
            turns: false,
            verdict: None,
            tokenise: Tokenise::Text,
            separator: None,
            split: false,
            tag: None,
            share_tokens: false,
        }
    }
}

/// How segments become tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tokenise {
    /// As if the whole chain were tokenised at once.
    Text,
    /// Each piece on its own: prompt, step, separator.
    Pieces,
}

/// From hidden states to numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadSpec {
    /// Linear layers, `ReLU` between them.
    Linear(Vec<LayerSpec>),
    /// The language model's logits of these tokens.
    Tokens(Vec<String>),
    /// The log-ratio of two language models over the step's tokens.
    LogRatio(LogRatio),
}

/// Tensors of a linear layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerSpec {
    /// `[outputs, inputs]`.
    pub weight: String,
    /// `[outputs]`.
    pub bias: Option<String>,
}

/// `beta * (log p(step) - log p_reference(step))`, the implicit reward of DPO (Yuan et al., "Free
/// process rewards without process labels", 2024).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRatio {
    /// The factor of training.
    pub beta: f64,
}

/// From numbers to a probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normaliser {
    /// The share of this class, from 0.
    Softmax(usize),
    /// The logistic function of the one number.
    Sigmoid,
    /// The one number, cut to 0 and 1.
    Clamp,
}

/// The largest file of a spec read.
const MAX_BYTES: u64 = 1 << 20;

impl PrmSpec {
    /// A spec from TOML; `name` is what messages call it.
    ///
    /// # Errors
    /// [`Error::SpecFile`] with the line, or [`Error::Spec`] with the field.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, Error> {
        let mut spec: Self = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.get(..start).unwrap_or_default();
            Error::SpecFile {
                path: name.into(),
                line: before.matches('\n').count() + 1,
                reason: error.message().replace('\n', " "),
            }
        })?;
        spec.name = name.to_owned();
        spec.check()?;
        Ok(spec)
    }

    /// A spec from a TOML file, a regular one of at most 1 MiB. A file `*.json` is read as the
    /// `prm.json` of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Unreadable`], or what [`PrmSpec::from_toml`] says.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text =
            beamgen_files::read_text_file(path, MAX_BYTES).map_err(|source| Error::Unreadable {
                path: path.to_owned(),
                source,
            })?;
        if path.extension().is_some_and(|end| end == "json") {
            Self::from_json(&text, path)
        } else {
            Self::from_toml(&text, &path.display().to_string())
        }
    }

    /// The spec as a TOML file, which [`from_toml`](Self::from_toml) reads back.
    ///
    /// # Errors
    /// [`Error::Spec`] if a field has no form in TOML.
    pub fn to_toml(&self) -> Result<String, Error> {
        toml::to_string(self).map_err(|error| Error::Spec {
            spec: self.name.clone(),
            field: "file",
            reason: format!("cannot be written: {error}"),
        })
    }

    /// Refuses fields that contradict each other.
    ///
    /// # Errors
    /// [`Error::Spec`].
    pub fn check(&self) -> Result<(), Error> {
        let (step, pieces) = (&self.step, self.step.tokenise == Tokenise::Pieces);
        // The labels, and how many classes the head has; of layers the checkpoint says that.
        let (labels, empty, classes): (&[String], bool, usize) = match &self.head {
            HeadSpec::Linear(layers) => (&[], layers.is_empty(), usize::MAX),
            HeadSpec::Tokens(tokens) => (tokens, tokens.is_empty(), tokens.len()),
            HeadSpec::LogRatio(_) => (&[], false, 0),
        };
        let class = match self.normaliser {
            Normaliser::Softmax(class) => Some(class),
            Normaliser::Sigmoid | Normaliser::Clamp => None,
        };
        let label_twice = (1..labels.len()).any(|i| labels[..i].contains(&labels[i]));
        let beta = match &self.head {
            HeadSpec::LogRatio(head) => head.beta,
            _ => 1.0,
        };
        let plain_pieces = pieces && step.text == "{{ step }}" && step.first.is_none();
        let faults = [
            (
                pieces && step.separator.is_none(),
                "step.separator",
                "is needed with tokenise = \"pieces\"",
            ),
            (
                !pieces && step.separator.is_some(),
                "step.separator",
                "works only with tokenise = \"pieces\"; otherwise it is part of the text",
            ),
            (
                step.split && !pieces,
                "step.split",
                "works only with tokenise = \"pieces\"",
            ),
            (
                pieces && (step.turns || step.verdict.is_some()),
                "step.tokenise",
                "must be \"text\" with turns or a verdict",
            ),
            (
                step.turns && step.verdict.is_none(),
                "step.verdict",
                "is needed with turns: it is the assistant's turn",
            ),
            (
                step.turns && self.prompt.text.is_some(),
                "prompt.text",
                "has no place beside turns: the chat template writes the prompt",
            ),
            (
                self.prompt.system.is_some() && self.prompt.text.is_some(),
                "prompt.system",
                "belongs to a chat; write it into prompt.text",
            ),
            (
                step.share_tokens && (!plain_pieces || step.split),
                "step.share_tokens",
                "is exact only with tokenise = \"pieces\" and text = \"{{ step }}\"",
            ),
            (empty, "head", "has neither a layer nor a token"),
            (
                labels.len() > 1 && class.is_none(),
                "normaliser",
                "must be { softmax = CLASS } over several tokens",
            ),
            (
                labels.len() == 1 && class.is_some(),
                "head.tokens",
                "has one label, whose share of itself is always 1; name the other labels, too, or take \
                 normaliser = \"sigmoid\"",
            ),
            (
                label_twice,
                "head.tokens",
                "names a label twice: its share would be halved whatever the model says",
            ),
            (
                class.is_some_and(|class| class >= classes),
                "normaliser",
                "names a class that the head does not have",
            ),
            (
                !beta.is_finite() || beta == 0.0,
                "head.log-ratio.beta",
                "must be a finite number other than 0",
            ),
        ];
        match faults.into_iter().find(|fault| fault.0) {
            Some((_, field, reason)) => Err(Error::Spec {
                spec: self.name.clone(),
                field,
                reason: reason.into(),
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QWEN: &str = "normaliser = { softmax = 1 }\n\
        [step]\ntext = \"{{ step }}<extra_0>\"\n\
        [[head.linear]]\nweight = \"score.0.weight\"\nbias = \"score.0.bias\"\n\
        [[head.linear]]\nweight = \"score.2.weight\"\n";

    #[test]
    fn a_spec_is_read_and_has_defaults() {
        let spec = PrmSpec::from_toml(QWEN, "mine.toml").unwrap();
        assert_eq!(spec.normaliser, Normaliser::Softmax(1));
        let HeadSpec::Linear(layers) = &spec.head else {
            panic!("{:?}", spec.head)
        };
        assert_eq!(layers[1].weight, "score.2.weight");
        assert_eq!(layers[1].bias, None);
        assert_eq!(spec.prompt, PromptSpec::default());
        assert_eq!(spec.step.tokenise, Tokenise::Text);
        let tokens = "normaliser = { softmax = 0 }\n[head]\ntokens = [\"+\", \"-\"]";
        assert!(PrmSpec::from_toml(tokens, "x").is_ok());
        let ratio = "normaliser = \"sigmoid\"\n[head.log-ratio]\nbeta = 0.05";
        let spec = PrmSpec::from_toml(ratio, "x").unwrap();
        assert_eq!(spec.head, HeadSpec::LogRatio(LogRatio { beta: 0.05 }));
    }

    #[test]
    fn mistakes_are_named_with_file_and_line_or_field() {
        let fault = |text: &str| {
            PrmSpec::from_toml(text, "mine.toml")
                .unwrap_err()
                .to_string()
        };
        let unknown = fault(&QWEN.replace("text =", "txt ="));
        assert!(unknown.starts_with("mine.toml:3: "), "{unknown}");
        assert!(unknown.contains("txt"), "{unknown}");
        for (from, to, field) in [
            ("text =", "separator =", "step.separator"),
            ("[step]", "[step]\ntokenise = \"pieces\"", "step.separator"),
            ("[step]", "[step]\nsplit = true", "step.split"),
            ("[step]", "[step]\nturns = true", "step.verdict"),
            ("[step]", "[step]\nshare_tokens = true", "step.share_tokens"),
            (
                "[step]",
                "[prompt]\ntext = \"\"\nsystem = \"\"\n[step]",
                "prompt.system",
            ),
        ] {
            let error = fault(&QWEN.replace(from, to));
            assert!(error.contains(field), "{field}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        for (text, field) in [
            ("normaliser = \"sigmoid\"\nhead.linear = []", "head"),
            (
                "normaliser = \"sigmoid\"\nhead.tokens = [\"+\", \"-\"]",
                "normaliser",
            ),
            (
                "normaliser = { softmax = 2 }\nhead.tokens = [\"+\", \"-\"]",
                "normaliser",
            ),
            (
                "normaliser = { softmax = 0 }\nhead.log-ratio.beta = 1.0",
                "normaliser",
            ),
            (
                "normaliser = \"sigmoid\"\nhead.log-ratio.beta = inf",
                "head.log-ratio.beta",
            ),
            (
                "normaliser = \"sigmoid\"\nhead.log-ratio.beta = 0.0",
                "head.log-ratio.beta",
            ),
            // The score would be a constant.
            (
                "normaliser = { softmax = 0 }\nhead.tokens = [\"+\"]",
                "head.tokens",
            ),
            (
                "normaliser = { softmax = 0 }\nhead.tokens = [\"+\", \"+\"]",
                "head.tokens",
            ),
            (
                "normaliser = { softmax = 1 }\nhead.tokens = [\"+\", \"-\", \"+\"]",
                "head.tokens",
            ),
        ] {
            assert!(fault(text).contains(field), "{}", fault(text));
        }
    }
}
