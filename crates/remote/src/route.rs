//! The routes by which a server's reward model is asked for scores. The format of the reward model
//! decides which route is used.

use std::sync::Arc;

use beamgen_engine::Tokenizer;
use beamgen_prm::{HeadSpec, JudgeMessage, Normaliser, PrmSpec};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _};
use serde_json::json;

use crate::client::Call;
use crate::dialect::openai::text_of;
use crate::dialect::{Dialect, Label, Usage, chat, vllm};
use crate::reply::{Few, Reply};

/// The most classes that a reward model may have.
const MOST_CLASSES: usize = 64;
/// The size limit of a row of `MOST_CLASSES` numbers in an answer, in bytes.
const BYTES_OF_ROW: usize = 32 * MOST_CLASSES;
/// The size limit of a row of two numbers in an answer, in bytes.
const BYTES_OF_PAIR: usize = 128;

/// The probabilities of the classes for one step.
struct Row(Vec<f64>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let classes = Few::new(MOST_CLASSES).deserialize(from)?;
        classes
            .map(Self)
            .ok_or_else(|| D::Error::custom("a row without probabilities"))
    }
}

/// The tokens whose logits after a step are the verdict.
#[derive(Debug, Clone)]
pub(crate) struct Labels {
    labels: Vec<Label>,
    /// The tokenizer, for engines that exchange text.
    tokenizer: Arc<Tokenizer>,
}

/// A chain up to a step whose score is wanted.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub ids: Vec<u32>,
    /// The chain as a chat, for [`Route::Chat`]; empty for other routes.
    pub messages: Vec<JudgeMessage>,
}

/// The route by which a server returns scores.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// The server returns the logits of these tokens after a step. Any server of a generator can do
    /// that.
    Labels(Labels),
    /// The server lists the likeliest tokens at the end of a chat, and these tokens are found among
    /// them. For endpoints that have only `OpenAI`'s chats.
    Chat(Labels),
    /// The server classifies the chain up to a step (vLLM with `--runner pooling`, task
    /// `classify`). It has the prefix in its cache, so it reads only the new step.
    Classify,
    /// The server returns a row for each step of a chain (pooling of type `STEP`). It reads the
    /// whole chain each time.
    Steps,
}

impl Route {
    /// Returns the route for a reward model. A reward model with a head of its own may be served by
    /// two routes; then this is the one to try first.
    ///
    /// # Errors
    /// The engine cannot serve such a reward model; the message names an alternative.
    pub(crate) fn of(
        spec: &PrmSpec,
        tokenizer: &Arc<Tokenizer>,
        dialect: &dyn Dialect,
    ) -> Result<Self, String> {
        const LOCAL: &str = "run it in this process instead of on a server";
        let engine = dialect.name();
        match (&spec.head, &spec.normaliser) {
            (HeadSpec::Tokens(_), _) => {
                let ids = spec
                    .label_ids(tokenizer, tokenizer.checkpoint())
                    .map_err(|error| error.to_string())?;
                let ids = ids.unwrap_or_default();
                if ids.len() == 1 {
                    return Err(format!(
                        "{}: the probability of a single label needs raw logits, and servers return \
                         normalised ones: {LOCAL}",
                        spec.name
                    ));
                }
                let labels = ids.into_iter().map(|id| Label {
                    id,
                    text: String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned(),
                });
                Ok(Self::Labels(Labels {
                    labels: labels.collect(),
                    tokenizer: Arc::clone(tokenizer),
                }))
            }
            (HeadSpec::LogRatio(_), _) => Err(format!(
                "{}: a log-ratio needs the probabilities of a prompt's tokens, for which servers read the whole \
                 prompt again: {LOCAL}",
                spec.name
            )),
            (HeadSpec::Linear(_), _) if engine != "vllm" => Err(format!(
                "{}: {engine} has no route for a model's own head: use vLLM (--runner pooling), or {LOCAL}",
                spec.name
            )),
            (HeadSpec::Linear(_), Normaliser::Clamp | Normaliser::MeanSigmoid) => Err(format!(
                "{}: vLLM normalises the outputs of this head, which must stay unchanged: {LOCAL}",
                spec.name
            )),
            (HeadSpec::Linear(layers), _) if layers.len() > 1 => Ok(Self::Steps),
            (HeadSpec::Linear(_), _) => Ok(Self::Classify),
        }
    }

    /// Returns the name of the route in [`ServerFacts`](crate::ServerFacts).
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Labels(_) => "label tokens",
            Self::Chat(_) => "label tokens of chats",
            Self::Classify => "/classify",
            Self::Steps => "/pooling",
        }
    }

    /// Makes the request for the score of a chain's last step; with [`Route::Steps`], of all its
    /// steps.
    pub(crate) fn call(&self, dialect: &dyn Dialect, model: &str, asked: &Asked) -> Call {
        let ids = &asked.ids;
        let (path, most) = match self {
            Self::Chat(labels) => {
                let template = labels.tokenizer.chat_template().unwrap_or_default();
                let may_think = template.contains("enable_thinking");
                return chat::call(model, &asked.messages, may_think);
            }
            Self::Labels(Labels { labels, tokenizer }) => {
                let text = if dialect.is_text() {
                    text_of(ids, tokenizer)
                } else {
                    String::new()
                };
                return dialect.label_logits(model, ids, &text, labels);
            }
            Self::Classify => ("/classify", BYTES_OF_ROW),
            // A server with a wrong step tag returns a row for each token. The limit allows such an
            // answer, so that the error can name the tag.
            Self::Steps => ("/pooling", BYTES_OF_ROW + ids.len() * BYTES_OF_PAIR),
        };
        Call::post(path, json!({"model": model, "input": ids}), most)
    }

    /// Reads the scores from an answer, which must have one for each of `steps` steps.
    pub(crate) fn scores(
        &self,
        dialect: &dyn Dialect,
        normaliser: &Normaliser,
        steps: usize,
        answer: Reply<'_>,
    ) -> Result<(Vec<f32>, Usage), String> {
        match self {
            Self::Labels(labels) | Self::Chat(labels) => {
                let (logits, usage) = if let Self::Chat(_) = self {
                    chat::labels(answer, &labels.labels)?
                } else {
                    dialect.labels(answer, &labels.labels)?
                };
                let score = normaliser.probability(&logits);
                Ok((
                    vec![score.ok_or("label logits that are not finite")?],
                    usage,
                ))
            }
            Self::Classify => {
                let field = "data.0.probs";
                let row = answer.list(field, MOST_CLASSES)?;
                Ok((
                    vec![of_classes(field, &row, normaliser)?],
                    vllm::usage(answer),
                ))
            }
            Self::Steps => {
                let field = "data.0.data";
                let rows = answer.length(field).ok_or("without `data`")?;
                if rows != steps {
                    return Err(format!(
                        "{rows} rows for {steps} steps: is the step tag of its --pooler-config that of the model?"
                    ));
                }
                let rows = answer.list::<Row>(field, steps)?;
                let scores = rows
                    .iter()
                    .enumerate()
                    .map(|(at, row)| of_classes(&format!("{field}.{at}"), &row.0, normaliser));
                Ok((scores.collect::<Result<_, _>>()?, vllm::usage(answer)))
            }
        }
    }
}

/// Returns the probability of the class that means "right"; the row must be normalised.
fn of_classes(field: &str, row: &[f64], normaliser: &Normaliser) -> Result<f32, String> {
    let is_of_classes = matches!(normaliser, Normaliser::Softmax(_) | Normaliser::Expected(_));
    let total: f64 = row.iter().sum();
    // A server that does not apply the model's softmax returns logits, which must not be used as
    // scores.
    let normalised = row.iter().all(|value| (0.0..=1.0).contains(value))
        && (!is_of_classes || (total - 1.0).abs() < 1e-3)
        && (is_of_classes || row.len() == 1);
    if !normalised {
        return Err(format!(
            "`{field}` is {row:?}, which are not probabilities of classes"
        ));
    }
    let value = if is_of_classes {
        normaliser.of_classes(row)
    } else {
        row.first().copied()
    };
    let value = value.map(|value| value as f32);
    value.ok_or_else(|| format!("{} classes, and more are wanted", row.len()))
}

#[cfg(test)]
mod tests {
    use beamgen_prm::Classes;
    use serde_json::Value;

    use super::*;
    use crate::dialect::named;

    #[test]
    fn rows_are_counted_and_have_to_be_probabilities() {
        let vllm = named("vllm").unwrap();
        let scores = |answer: Value, steps| {
            let softmax = Normaliser::Softmax(Classes::One(1));
            let answer = answer.to_string();
            let answer = Reply::parse(answer.as_bytes()).unwrap();
            Route::Steps
                .scores(vllm, &softmax, steps, answer)
                .map(|(scores, _)| scores)
        };
        let rows = json!({"data": [{"data": [[0.25, 0.75], [1.0, 0.0]]}]});
        assert_eq!(scores(rows.clone(), 2), Ok(vec![0.75, 0.0]));
        assert!(scores(rows, 3).unwrap_err().contains("2 rows for 3 steps"));
        for bad in [
            json!({"data": []}),
            json!({"data": [{"data": [[0.25]]}]}),
            json!({"data": [{"data": [[-3.0, 4.0]]}]}),
            json!({"data": [{"data": [["x", 1.0]]}]}),
            json!({"data": [{"data": [null]}]}),
        ] {
            assert!(scores(bad.clone(), 1).is_err(), "{bad}");
        }
        let one = Reply::parse(br#"{"data": [{"probs": [0.125]}]}"#).unwrap();
        let sigmoid = Route::Classify.scores(vllm, &Normaliser::Sigmoid, 1, one);
        assert_eq!(sigmoid.unwrap().0, [0.125]);
        let row = [0.25, 0.125, 0.625];
        for (normaliser, expected) in [
            (Normaliser::Softmax(Classes::Several(vec![1, 2])), 0.75),
            (Normaliser::Expected(vec![0.0, 1.0, 2.0]), 0.6875),
        ] {
            assert_eq!(of_classes("probs", &row, &normaliser), Ok(expected));
            assert!(of_classes("probs", &row[..1], &normaliser).is_err());
        }
    }
}
