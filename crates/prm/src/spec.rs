//! The format of a reward model, as data.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::recognise::Recognise;

/// The format of a reward model: how a chain is written and where it is read, the head that turns a
/// hidden state into numbers, and the normaliser that turns those into a probability.
///
/// Files in `configs/prm/` are this structure as TOML; its README explains how to write one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrmSpec {
    /// The family's name or the file it comes from, for messages.
    #[serde(skip)]
    pub name: String,
    /// Rules for the checkpoints that have this format if none is named.
    #[serde(default, skip_serializing)]
    pub recognise: Recognise,
    /// The text before the first step.
    #[serde(default)]
    pub prompt: PromptSpec,
    /// The text and the tokens of a step.
    #[serde(default)]
    pub step: StepSpec,
    /// The head, which turns hidden states into numbers.
    pub head: HeadSpec,
    /// The normaliser, which turns the head's numbers into a probability.
    pub normaliser: Normaliser,
}

/// The text before the first step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptSpec {
    /// Jinja template over `problem` and `bos`. If `None`, the checkpoint's chat template writes
    /// the problem as the user's turn, and the steps are the assistant's turn.
    pub text: Option<String>,
    /// The system's turn of the chat.
    pub system: Option<String>,
    /// The date, `YYYY-MM-DD`, for chat templates that write today's date; `None` means today.
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

/// The segment of a step: its text, and how that becomes tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepSpec {
    /// Jinja template over `step` (without white space around it) and `index` (from 1).
    pub text: String,
    /// Template of the first step, if it differs; with `turns` it may use `problem`, too.
    pub first: Option<String>,
    /// Whether each step is a user's turn, answered by an assistant's turn with the `verdict`.
    pub turns: bool,
    /// Text after the step; the score is read at the token that predicts it.
    pub verdict: Option<String>,
    /// The way in which segments become tokens.
    pub tokenise: Tokenise,
    /// With `pieces`: text that is tokenised on its own and follows the step's tokens.
    pub separator: Option<String>,
    /// With `pieces`: whether a step is cut at the separators in it, so that each part ends in one.
    pub split: bool,
    /// The single token at which the score is read. It is checked, not written.
    pub tag: Option<String>,
    /// Whether the generator's own tokens may be read in place of the step's text, if the generator
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

/// The way in which segments become tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tokenise {
    /// The tokens of the whole chain tokenised at once.
    Text,
    /// Prompt, step and separator, each tokenised on its own.
    Pieces,
}

/// The head: how hidden states become numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadSpec {
    /// Linear layers with `ReLU` between them.
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
    /// Name of the weights `[outputs, inputs]`.
    pub weight: String,
    /// Name of the bias `[outputs]`; `None` means zeros.
    pub bias: Option<String>,
}

/// `beta * (log p(step) - log p_reference(step))`, the implicit reward of DPO (Yuan et al., "Free
/// process rewards without process labels", 2024).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRatio {
    /// The factor that the model was trained with; finite and not 0.
    pub beta: f64,
}

/// The normaliser: how numbers become a probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normaliser {
    /// The softmax of this class, counted from 0.
    Softmax(usize),
    /// The logistic function of the head's only number.
    Sigmoid,
    /// The head's only number, clamped to 0 and 1.
    Clamp,
}

/// The largest size of a spec's file.
const MAX_BYTES: u64 = 1 << 20;

impl PrmSpec {
    /// Parses a spec from TOML; `name` is its name in messages.
    ///
    /// # Errors
    /// [`Error::SpecFile`] with the line, or [`Error::Spec`] with the field.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, Error> {
        let mut spec: Self = toml::from_str(text).map_err(|error| {
            // The parser reports a byte, but people look for a line.
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

    /// Reads a spec from a regular TOML file of at most 1 MiB. A file `*.json` is read as the
    /// `prm.json` of a checkpoint.
    ///
    /// # Errors
    /// [`Error::Unreadable`], or the errors of [`PrmSpec::from_toml`].
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

    /// Writes the spec as TOML, which [`from_toml`](Self::from_toml) reads back.
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
        // The labels and the number of classes. Only the checkpoint knows the classes of linear
        // layers.
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
        // Only then the step's own text becomes tokens by itself, as the generator sampled it.
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
                "works only with tokenise = \"pieces\": write it into the text instead",
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
                "must not be given with turns: the chat template writes the prompt",
            ),
            (
                self.prompt.system.is_some() && self.prompt.text.is_some(),
                "prompt.system",
                "is only for chat templates: write it into prompt.text",
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
                "has one label, whose share of itself is always 1: name the other labels, too, or use \
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
        fn fault(text: &str) -> String {
            let spec = PrmSpec::from_toml(text, "mine.toml");
            spec.unwrap_err().to_string()
        }
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
