//! Answers in the format of OpenAI's API, with an additional object `beamgen`.

use beamgen::eval::Record;
use beamgen::result::Stopped;
use beamgen::strategy::NodeId;
use beamgen::{ProblemResult, bundled};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::{App, now};
use crate::ask::{Ask, Shape};

/// The fields that every chunk of an answer repeats.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub shape: Shape,
    pub id: String,
    pub created: u64,
    pub model: String,
}

impl Head {
    pub(crate) fn new(app: &App, ask: &Ask) -> Self {
        Self {
            shape: ask.shape,
            id: app.next_id(match ask.shape {
                Shape::Chat => "chatcmpl",
                Shape::Completion => "cmpl",
            }),
            created: now(),
            model: ask.model.clone(),
        }
    }

    /// Returns the outermost object of an answer or a chunk.
    pub(crate) fn object(&self, is_chunk: bool, choices: Value) -> Value {
        let object = match (self.shape, is_chunk) {
            (Shape::Chat, false) => "chat.completion",
            (Shape::Chat, true) => "chat.completion.chunk",
            (Shape::Completion, _) => "text_completion",
        };
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }
}

/// The object `beamgen` of an answer: a line of a run file, with facts about the search.
#[derive(Serialize)]
struct Twin<'a> {
    model: &'a str,
    strategy: &'a str,
    n: usize,
    m: usize,
    seed: u64,
    #[serde(flatten)]
    record: Record,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<Stopped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    elapsed_seconds: f64,
}

/// The note on a problem of another kind than the bundled models were trained on.
const FOREIGN: &str =
    "this answer means nothing: the bundled models know problems like those of /v1/problems only";

/// The parts of a result that an answer shows.
pub(crate) struct Solved {
    /// The steps of the chosen chain; joined, they are the text of the answer.
    pub pieces: Vec<String>,
    /// The reason if the answer has no text.
    pub refusal: Option<String>,
    pub finish_reason: &'static str,
    pub usage: Value,
    pub beamgen: Value,
}

impl Solved {
    pub(crate) fn new(app: &App, ask: &Ask, result: &ProblemResult, seconds: f64) -> Self {
        let refusal = result.withheld.as_ref().map(|_| {
            if let Some(unsound) = &result.unsound {
                return format!("the work of the best answer is unsound: {unsound}");
            }
            let score = result.score.unwrap_or(0.0);
            let threshold = ask.settings.search.threshold;
            format!("the best answer scores {score:.3}, below the threshold {threshold}")
        });
        // Given steps are part of the prompt, so they do not count as completion tokens.
        let given = NodeId(result.problem.steps.len() as u32);
        let given = result.chosen.map_or(0, |_| result.tree.token_count(given));
        let completion = result
            .chosen
            .map_or(0, |node| result.tree.token_count(node) - given);
        // Prompt tokens as the generator computed them, once for all chains.
        let prompt = result.ledger.prompt_tokens;
        let finish = result.chosen_chain().map(|chain| chain.finish);
        let search = &ask.settings.search;
        let is_foreign = app.models.has_bundled && !bundled::knows(&ask.problem.with_context());
        let mut notes = ask.notes.clone();
        notes.extend(is_foreign.then(|| FOREIGN.to_owned()));
        let twin = Twin {
            model: &ask.model,
            strategy: search.strategy.name(),
            n: search.n,
            m: search.m,
            seed: ask.settings.generator.seed,
            record: Record::new(result, ask.tree),
            stopped: result.stopped,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            elapsed_seconds: seconds,
        };
        Self {
            pieces: match refusal {
                // A client that ignores `refusal` must not show the text of a withheld answer.
                Some(_) => Vec::new(),
                None => pieces(result),
            },
            refusal,
            finish_reason: if finish.is_some_and(beamgen::strategy::Finish::is_complete) {
                "stop"
            } else {
                "length"
            },
            usage: json!({
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion as u64,
            }),
            beamgen: serde_json::to_value(twin).unwrap_or_default(),
        }
    }

    /// Returns the answer as a single object.
    pub(crate) fn whole(self, head: &Head) -> Value {
        let text = self.pieces.concat();
        let choice = match head.shape {
            Shape::Chat => {
                let content = self.refusal.is_none().then_some(text);
                let message =
                    json!({"role": "assistant", "content": content, "refusal": self.refusal});
                json!({"index": 0, "message": message, "logprobs": null, "finish_reason": self.finish_reason})
            }
            Shape::Completion => {
                json!({"index": 0, "text": text, "logprobs": null, "finish_reason": self.finish_reason})
            }
        };
        let mut answer = head.object(false, json!([choice]));
        answer["usage"] = self.usage;
        answer["beamgen"] = self.beamgen;
        answer
    }
}

/// Returns the chosen chain's steps, without white space at the start of the first and the end of the
/// last step.
fn pieces(result: &ProblemResult) -> Vec<String> {
    let Some(chosen) = result.chosen else {
        return Vec::new();
    };
    // Without blank steps at the ends, trimming the first and the last piece trims the whole text.
    let texts = result.tree.path(chosen).into_iter();
    let mut pieces: Vec<String> = texts
        .map(|node| result.tree.node(node).text.clone())
        .skip_while(|text| text.trim().is_empty())
        .collect();
    while pieces.last().is_some_and(|text| text.trim().is_empty()) {
        pieces.pop();
    }
    if let Some(first) = pieces.first_mut() {
        *first = first.trim_start().to_owned();
    }
    if let Some(last) = pieces.last_mut() {
        last.truncate(last.trim_end().len());
    }
    pieces
}
