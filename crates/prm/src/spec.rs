//! The description of a reward model's format as data.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::recognise::Recognise;

/// The format of a reward model. It says how a chain is written and where it is read. It names the
/// head, which turns a hidden state into numbers, and the normaliser, which turns the numbers into
/// a probability.
///
/// Files in `configs/prm/` are this structure as TOML; its README explains how to write one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrmSpec {
    /// The family's name or the file it comes from, for messages.
    #[serde(skip)]
    pub name: String,
    /// The rules by which checkpoints of this format are recognised if no format is named.
    #[serde(default, skip_serializing)]
    pub recognise: Recognise,
    /// Whether the model was trained to score the beginnings of steps, too, as `beamgen train prm
    /// --partial` does. Early rejection depends on such scores.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The text before the first step, which contains the problem.
    #[serde(default)]
    pub prompt: PromptSpec,
    /// The text of a step, and how it becomes tokens.
    #[serde(default)]
    pub step: StepSpec,
    /// The computation of numbers from a hidden state.
    pub head: HeadSpec,
    /// The computation of a probability from the head's numbers.
    pub normaliser: Normaliser,
}

/// The text before the first step: a template of its own, or the checkpoint's chat template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptSpec {
    /// A Jinja template with `problem` and `bos`. If `None`, the checkpoint's chat template is
    /// used: the problem is the user's turn and the steps are the assistant's turn.
    pub text: Option<String>,
    /// The system's turn of the chat.
    pub system: Option<String>,
    /// The date, `YYYY-MM-DD`, for chat templates that write it; `None`: the current date.
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

/// The segment of a step: its text, and the way in which it becomes tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepSpec {
    /// A Jinja template with `step` (without white space around it) and `index` (from 1).
    pub text: String,
    /// The template of the first step, if it differs. With `turns` it may also contain `problem`.
    pub first: Option<String>,
    /// Whether each step is a turn of the user, answered by a turn of the assistant with the
    /// `verdict`.
    pub turns: bool,
    /// A question that is read after each step and then removed, so that later steps follow the
    /// step as if it had not been asked. The score is read at its end. In a chat it is a turn of
    /// the user, before a turn of the assistant; after a `prompt.text` it is written as it is.
    pub question: Option<String>,
    /// With `turns` or a `question` in a chat: the beginning of the assistant's turn, after which
    /// the score is read.
    pub lead: Option<String>,
    /// The text after the step. The score is read at the token that predicts this text.
    pub verdict: Option<String>,
    /// The way in which prompt and steps become tokens.
    pub tokenise: Tokenise,
    /// With `pieces`: the text after each step, which is tokenised separately.
    pub separator: Option<String>,
    /// With `pieces`: whether separators inside a step cut the step into parts, each followed by a
    /// separator.
    pub split: bool,
    /// The token at which the score must be read, as a check. It is not written.
    pub tag: Option<String>,
    /// Whether the generator's own tokens may be read instead of the step's text, if the generator
    /// has the same tokenizer.
    pub share_tokens: bool,
}

impl Default for StepSpec {
    fn default() -> Self {
        Self {
            text: "{{ step }}".into(),
            first: None,
            turns: false,
            question: None,
            lead: None,
            verdict: None,
            tokenise: Tokenise::Text,
            separator: None,
            split: false,
            tag: None,
            share_tokens: false,
        }
    }
}

/// The way in which prompt and steps become tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tokenise {
    /// The whole chain is tokenised at once, so a token may span its parts.
    Text,
    /// Prompt, step and separator are tokenised separately, so no token spans two of them.
    Pieces,
}

/// The computation of numbers from hidden states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadSpec {
    /// Linear layers with `ReLU` between them, on the hidden state of the step's token.
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
    /// The name of the tensor with the weights `[outputs, inputs]`.
    pub weight: String,
    /// The name of the tensor with the bias `[outputs]`; `None`: the bias is 0.
    pub bias: Option<String>,
}

/// `beta * (log p(step) - log p_reference(step))`, the implicit reward of DPO (Yuan et al., "Free
/// process rewards without process labels", 2024).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRatio {
    /// The factor of the log-ratio, as the model was trained; finite and not 0.
    pub beta: f64,
}

/// The computation of a probability from numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normaliser {
    /// The softmax over all numbers, of which the probability of one class is taken, or the sum of
    /// several.
    Softmax(Classes),
    /// The softmax over all numbers, and the expected value of these values, one for each number:
    /// at least 0, divided by the largest. For judges that answer with a digit.
    Expected(Vec<f64>),
    /// The logistic function of the only number.
    Sigmoid,
    /// The mean of the logistic functions of all numbers, as of an ensemble of heads.
    MeanSigmoid,
    /// The only number, limited to the range from 0 to 1.
    Clamp,
}

/// One class or several, by their indices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Classes {
    /// One class.
    One(usize),
    /// Several classes, whose probabilities are added.
    Several(Vec<usize>),
}

impl Classes {
    /// The indices of the classes.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        match self {
            Self::One(class) => std::slice::from_ref(class),
            Self::Several(classes) => classes,
        }
    }
}

/// The most bytes of a spec's file.
const MAX_BYTES: u64 = 1 << 20;

impl PrmSpec {
    /// Reads a spec from TOML. `name` is its name in error messages.
    ///
    /// # Errors
    /// [`Error::SpecFile`] with the line, or [`Error::Spec`] with the field.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, Error> {
        let mut spec: Self = toml::from_str(text).map_err(|error| {
            // The parser reports a byte offset; the message has to name a line.
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

    /// Reads a spec from a regular TOML file of at most 1 MiB. A file whose name ends in `.json` is
    /// read as the `prm.json` of a checkpoint.
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

    /// Writes the spec as TOML, which [`from_toml`](Self::from_toml) can read again.
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
        // The label tokens, whether the head is empty, and the number of its outputs, which for
        // linear layers only the checkpoint knows.
        let (labels, empty, outputs): (&[String], bool, Option<usize>) = match &self.head {
            HeadSpec::Linear(layers) => (&[], layers.is_empty(), None),
            HeadSpec::Tokens(tokens) => (tokens, tokens.is_empty(), Some(tokens.len())),
            HeadSpec::LogRatio(_) => (&[], false, Some(1)),
        };
        let is_softmax = matches!(
            self.normaliser,
            Normaliser::Softmax(_) | Normaliser::Expected(_)
        );
        let label_twice = (1..labels.len()).any(|i| labels[..i].contains(&labels[i]));
        let beta = match &self.head {
            HeadSpec::LogRatio(head) => head.beta,
            _ => 1.0,
        };
        // Under this condition a step's own text becomes tokens separately, exactly as the
        // generator sampled it.
        let plain_pieces = pieces && step.text == "{{ step }}" && step.first.is_none();
        let asks_in_chat = step.question.is_some() && self.prompt.text.is_none();
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
                step.question.is_some() && step.turns,
                "step.question",
                "works only without turns, which stay in the chain",
            ),
            (
                step.question.is_some() && step.verdict.is_some(),
                "step.verdict",
                "works only without a question, whose answer is not kept",
            ),
            (
                step.lead.is_some() && !(step.turns || asks_in_chat),
                "step.lead",
                "works only in a chat with turns or a question: write it into the text instead",
            ),
            (
                step.question.is_some() && matches!(self.head, HeadSpec::LogRatio(_)),
                "step.question",
                "has no log-ratio: use a head that is read at one token",
            ),
            (
                labels.len() > 1 && !is_softmax,
                "normaliser",
                "must be { softmax = CLASS } or { expected = [VALUES] } over several tokens",
            ),
            (
                labels.len() == 1 && is_softmax,
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
                !beta.is_finite() || beta == 0.0,
                "head.log-ratio.beta",
                "must be a finite number other than 0",
            ),
        ];
        let found = faults.into_iter().find(|fault| fault.0);
        let found = found.map(|(_, field, reason)| (field, reason.to_owned()));
        let found = found.or_else(|| Some(("normaliser", self.normaliser.fault(outputs)?)));
        match found {
            Some((field, reason)) => Err(Error::Spec {
                spec: self.name.clone(),
                field,
                reason,
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
        assert_eq!(spec.normaliser, Normaliser::Softmax(Classes::One(1)));
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
