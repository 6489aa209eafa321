//! How a reward model is asked on a server, which follows from how it is read.

use beamgen_engine::Tokenizer;
use beamgen_prm::{HeadSpec, Normaliser, PrmSpec};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _};
use serde_json::json;

use crate::client::Call;
use crate::dialect::{Dialect, Usage, vllm};
use crate::reply::{Few, Reply};

/// Classes that a reward model has, at most.
const MOST_CLASSES: usize = 64;
/// Bytes that an answer has for the classes of a row, at most.
const BYTES_OF_ROW: usize = 32 * MOST_CLASSES;
/// Bytes that it has for a row of two classes.
const BYTES_OF_PAIR: usize = 128;

/// The classes of a row.
struct Row(Vec<f64>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let classes = Few::new(MOST_CLASSES).deserialize(from)?;
        classes
            .map(Self)
            .ok_or_else(|| D::Error::custom("a row without probabilities"))
    }
}

/// What a server does for a score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// It gives the logits of these tokens behind a step, as any generator's server can.
    Labels(Vec<u32>),
    /// It classifies the chain up to a step (vLLM with `--runner pooling`, task `classify`). The
    /// prefix is cached, so it reads the new step alone.
    Classify,
    /// It gives a row for every step of a chain (pooling of type `STEP`), and reads all of it each
    /// time.
    Steps,
}

impl Route {
    /// The route for a reward model; for a head of the model's own, the first of two to be tried.
    ///
    /// # Errors
    /// Why the engine cannot, and what can.
    pub(crate) fn of(
        spec: &PrmSpec,
        tokenizer: &Tokenizer,
        dialect: &dyn Dialect,
    ) -> Result<Self, String> {
        const LOCAL: &str = "run it in this process instead of on a server";
        let engine = dialect.name();
        match (&spec.head, spec.normaliser) {
            (HeadSpec::Tokens(_), _) if !dialect.has_label_logits() => Err(format!(
                "{}: an endpoint with OpenAI's routes alone gives no logits of label tokens; vLLM, SGLang and llama.cpp do, or {LOCAL}",
                spec.name
            )),
            (HeadSpec::Tokens(_), _) => {
                let ids = spec
                    .label_ids(tokenizer, tokenizer.checkpoint())
                    .map_err(|error| error.to_string())?;
                let ids = ids.unwrap_or_default();
                match ids[..] {
                    [_] => Err(format!(
                        "{}: the probability of one label alone needs the logits themselves, and servers give \
                         their shares; {LOCAL}",
                        spec.name
                    )),
                    _ => Ok(Self::Labels(ids)),
                }
            }
            (HeadSpec::LogRatio(_), _) => Err(format!(
                "{}: a log-ratio needs the probabilities of a prompt's tokens, at which servers read all of it \
                 again; {LOCAL}",
                spec.name
            )),
            (HeadSpec::Linear(_), _) if engine != "vllm" => Err(format!(
                "{}: {engine} has no route for a head of the model's own; vLLM has (--runner pooling), or {LOCAL}",
                spec.name
            )),
            (HeadSpec::Linear(_), Normaliser::Clamp) => Err(format!(
                "{}: vLLM squeezes the number of a value head, which has to be read as it is; {LOCAL}",
                spec.name
            )),
            (HeadSpec::Linear(layers), _) if layers.len() > 1 => Ok(Self::Steps),
            (HeadSpec::Linear(_), _) => Ok(Self::Classify),
        }
    }

    /// In words, for the record.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Labels(_) => "label tokens",
            Self::Classify => "/classify",
            Self::Steps => "/pooling",
        }
    }

    /// Asks for the scores of a chain: of its last step, or of all with [`Route::Steps`].
    pub(crate) fn call(&self, dialect: &dyn Dialect, model: &str, ids: &[u32]) -> Call {
        let post = |path, most| Call::post(path, json!({"model": model, "input": ids}), most);
        match self {
            Self::Labels(labels) => dialect.label_logits(model, ids, labels),
            Self::Classify => post("/classify", BYTES_OF_ROW),
            // A server with the wrong tag has a row for each token, which is to be said.
            Self::Steps => post("/pooling", BYTES_OF_ROW + ids.len() * BYTES_OF_PAIR),
        }
    }

    /// The probabilities in an answer, one for each of the `steps` that a row was asked for.
    pub(crate) fn scores(
        &self,
        dialect: &dyn Dialect,
        normaliser: Normaliser,
        steps: usize,
        answer: Reply<'_>,
    ) -> Result<(Vec<f32>, Usage), String> {
        let usage = || vllm::usage(answer);
        match self {
            Self::Labels(labels) => {
                let (logits, usage) = dialect.labels(answer, labels)?;
                let score = normaliser.probability(&logits);
                Ok((
                    vec![score.ok_or("label logits that are no numbers")?],
                    usage,
                ))
            }
            Self::Classify => {
                let field = "data.0.probs";
                let row = answer.list(field, MOST_CLASSES)?;
                Ok((vec![of_classes(field, &row, normaliser)?], usage()))
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
                Ok((scores.collect::<Result<_, _>>()?, usage()))
            }
        }
    }
}

/// The probability in a row that the server has normalised.
fn of_classes(field: &str, row: &[f64], normaliser: Normaliser) -> Result<f32, String> {
    let (class, sum) = match normaliser {
        Normaliser::Softmax(class) => (class, Some(1.0)),
        Normaliser::Sigmoid | Normaliser::Clamp => (0, None),
    };
    let total: f64 = row.iter().sum();
    let normalised = row.iter().all(|value| (0.0..=1.0).contains(value))
        && sum.is_none_or(|sum| (total - sum).abs() < 1e-3)
        && (sum.is_some() || row.len() == 1);
    if !normalised {
        return Err(format!(
            "`{field}` is {row:?}, which are no probabilities of classes"
        ));
    }
    let value = row.get(class);
    value
        .map(|&value| value as f32)
        .ok_or_else(|| format!("{} classes, and class {class} is wanted", row.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::dialect::named;

    #[test]
    fn rows_are_counted_and_have_to_be_probabilities() {
        let vllm = named("vllm").unwrap();
        let scores = |answer: Value, steps| {
            let softmax = Normaliser::Softmax(1);
            let answer = answer.to_string();
            let answer = Reply::parse(answer.as_bytes()).unwrap();
            Route::Steps
                .scores(vllm, softmax, steps, answer)
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
        let sigmoid = Route::Classify.scores(vllm, Normaliser::Sigmoid, 1, one);
        assert_eq!(sigmoid.unwrap().0, [0.125]);
    }
}
