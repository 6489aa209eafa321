//! Answers in the format of OpenAI's API, with an additional object `beamgen`.

use beamgen::bundled;
use beamgen::eval::answer::compare;
use beamgen::eval::chain_verdict;
use beamgen::eval::{Record, Spent, Verdict};
use beamgen::generator::TokenLogprobs;
use beamgen::result::{FinishedChain, Stopped};
use beamgen::strategy::{Finish, NodeId};
use beamgen_view::{Finding, Search, findings};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::{App, now};
use crate::ask::{Ask, Shape};
use crate::calls::Call;
use crate::choices;
use crate::parts::Done;
use crate::text::{Piece, given_steps, given_tokens, logprobs, pieces};

/// The fields that are the same in an answer and in each chunk of a stream.
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

    /// Returns the outermost object, of a whole answer or of a chunk of a stream.
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

/// The object `beamgen` of an answer: the line that a run file has for the problem, with the
/// settings of the search.
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
    /// Explanations of a wrong or unsound answer, with the ids of steps of the tree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<Finding>,
}

/// The note on a problem of a kind that the bundled models were not trained on.
const FOREIGN: &str =
    "this answer means nothing: the bundled models know problems like those of /v1/problems only";

/// An entry of `choices` in an answer.
pub(crate) struct Choice {
    pub index: usize,
    /// The steps of the chain; the text of the answer is the steps in a row.
    pub pieces: Vec<Piece>,
    /// The calls of tools as entries of `tool_calls`.
    pub calls: Vec<Value>,
    /// The reason why the text of the answer is withheld; `None` if the answer has a text.
    pub refusal: Option<String>,
    pub finish_reason: &'static str,
    /// The entry of `stop` that the chain ended with, or null if that is unknown. `None` if the
    /// request has no `stop`.
    stop_reason: Option<Value>,
    /// The number of likeliest tokens to list for each token; `None` without log-probabilities.
    logprobs: Option<usize>,
    shape: Shape,
    /// Facts about the chain (see [`facts`]), if the answer has several choices.
    facts: Option<Value>,
}

impl Choice {
    fn new(app: &App, ask: &Ask, done: &Done, at: usize, node: Option<NodeId>) -> Self {
        let result = &done.result;
        let refusal = result.withheld.as_ref().map(|_| {
            if let Some(unsound) = &result.unsound {
                return format!("the work of the best answer is unsound: {unsound}");
            }
            let score = result.score.unwrap_or(0.0);
            let threshold = ask.settings.search.threshold;
            format!("the best answer scores {score:.3}, below the threshold {threshold}")
        });
        let chain = node.and_then(|node| result.finished.iter().find(|chain| chain.node == node));
        let mut pieces = match (node, &refusal) {
            // A client that ignores `refusal` must not show the text of a withheld answer.
            (Some(node), None) => pieces(ask, result, node),
            _ => Vec::new(),
        };
        pieces.retain(|piece| ask.has_reasoning || !piece.is_thought);
        let calls = take_calls(app, ask, &mut pieces);
        let finish = chain.map(|chain| chain.finish);
        let generator = &ask.settings.generator;
        Self {
            index: done.part.first + at,
            finish_reason: if !calls.is_empty() {
                "tool_calls"
            } else if finish.is_some_and(Finish::is_complete) {
                "stop"
            } else {
                "length"
            },
            stop_reason: (!generator.stop.is_empty()).then(|| stop_reason(ask, finish, &pieces)),
            logprobs: generator.logprobs,
            shape: ask.shape,
            pieces,
            calls,
            refusal,
            facts: ask.is_plural().then(|| facts(ask, done, chain)),
        }
    }

    /// Returns an entry of `choices`, of a whole answer or of a chunk. `said` is written under
    /// `key`; `tokens` are the tokens of its text.
    pub(crate) fn object(
        &self,
        key: &str,
        said: Value,
        tokens: &[(usize, TokenLogprobs)],
        finish_reason: Option<&str>,
    ) -> Value {
        let most = self.logprobs.filter(|_| !tokens.is_empty());
        let mut choice = json!({
            "index": self.index,
            key: said,
            "logprobs": most.map(|most| logprobs(self.shape, tokens, most)),
            "finish_reason": finish_reason,
        });
        // A stream sends the stop reason and the facts only in the last chunk of a choice.
        if finish_reason.is_some() {
            if let Some(reason) = &self.stop_reason {
                choice["stop_reason"] = reason.clone();
            }
            if let Some(facts) = &self.facts {
                choice["beamgen"] = facts.clone();
            }
        }
        choice
    }

    /// Returns the entry of `choices` in an answer that is not streamed.
    fn whole(&self) -> Value {
        let text = joined(&self.pieces, false);
        let spoken = self.pieces.iter().filter(|piece| !piece.is_thought);
        let tokens = spoken.flat_map(|piece| piece.tokens.clone());
        let tokens: Vec<_> = tokens.collect();
        let finish_reason = Some(self.finish_reason);
        if self.shape == Shape::Completion {
            return self.object("text", text.into(), &tokens, finish_reason);
        }
        // Clients show an empty text as the answer, unless the content is null.
        let is_silent = self.refusal.is_some() || (!self.calls.is_empty() && text.is_empty());
        let content = (!is_silent).then_some(text);
        let mut message = json!({"role": "assistant", "content": content, "refusal": self.refusal});
        let reasoning = joined(&self.pieces, true);
        if !reasoning.is_empty() {
            message["reasoning_content"] = reasoning.into();
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = json!(self.calls);
        }
        self.object("message", message, &tokens, finish_reason)
    }
}

/// Returns the text of the answer, or of the thought before it.
fn joined(pieces: &[Piece], is_thought: bool) -> String {
    let pieces = pieces.iter().filter(|piece| piece.is_thought == is_thought);
    pieces.map(|piece| piece.text.as_str()).collect()
}

/// Removes the calls of tools from the text, and returns them. If there are calls, the rest of the
/// text becomes a single piece.
fn take_calls(app: &App, ask: &Ask, pieces: &mut Vec<Piece>) -> Vec<Value> {
    let Some(form) = ask.calls else {
        return Vec::new();
    };
    let text = joined(pieces, false);
    let (before, mut calls) = form.read(&text);
    if calls.is_empty() {
        return Vec::new();
    }
    if !ask.parallel_calls {
        calls.truncate(1);
    }
    let spoken = pieces.iter_mut().filter(|piece| !piece.is_thought);
    let tokens = spoken.flat_map(|piece| std::mem::take(&mut piece.tokens));
    let before = Piece::new(before.trim_end(), tokens.collect());
    pieces.retain(|piece| piece.is_thought);
    pieces.push(before);
    let calls = calls.into_iter().map(|Call { name, arguments }| {
        json!({
            "id": app.next_id("call"),
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        })
    });
    calls.collect()
}

/// Returns the stop text that a chain ended with. If the request has several, the text is known
/// only if `include_stop` leaves it in the answer.
fn stop_reason(ask: &Ask, finish: Option<Finish>, pieces: &[Piece]) -> Value {
    let generator = &ask.settings.generator;
    let text = joined(pieces, false);
    let stops = generator.stop.iter();
    let found = match &generator.stop[..] {
        _ if finish != Some(Finish::Stop) => None,
        [only] => Some(only),
        _ if generator.include_stop => {
            let ends = stops.filter(|stop| text.ends_with(stop.as_str()));
            ends.max_by_key(|stop| stop.len())
        }
        _ => None,
    };
    json!(found)
}

/// Returns facts about a chain, under the keys that the line of a problem in a run file has.
fn facts(ask: &Ask, done: &Done, chain: Option<&FinishedChain>) -> Value {
    let answer = chain.and_then(|chain| chain.answer.as_deref());
    let answer = answer.filter(|_| done.result.withheld.is_none());
    let mut facts = json!({
        "seed": done.part.seed,
        "answer": answer,
        "score": chain.and_then(|chain| chain.score),
        "finish": chain.map_or("stopped", |chain| chain.finish.name()),
    });
    if chain.is_some_and(|chain| chain.is_guess) {
        facts["guess"] = true.into();
    }
    if done.result.verifier.is_some() {
        let verdict = chain.filter(|_| answer.is_some()).map(chain_verdict);
        facts["correct"] = (verdict == Some(Verdict::Same)).into();
        facts["outcome"] = json!(chain.and_then(|chain| chain.outcome.as_ref()));
    } else if let Some(reference) = &done.result.problem.answer {
        let is_correct = |answer| compare(answer, reference) == Verdict::Same;
        facts["correct"] = answer.is_some_and(is_correct).into();
    }
    // A search has one tree for all its choices, in the object `beamgen` of the answer.
    if ask.tree && !ask.is_search() {
        facts["tree"] = json!(done.result.tree);
    }
    facts
}

/// The choices of a finished search.
pub(crate) struct Solved {
    pub choices: Vec<Choice>,
    /// The number of requested choices that the search did not find.
    missing: usize,
    is_foreign: bool,
    prompt_tokens: u64,
    completion_tokens: u64,
    reasoning_tokens: u64,
    spent: Spent,
    own: Value,
    done: Done,
}

impl Solved {
    pub(crate) fn new(app: &App, ask: &Ask, done: Done) -> Self {
        let (part, result) = (&done.part, &done.result);
        let search = &ask.settings.search;
        let nodes = choices::best(result, part.choices, search.threshold);
        // Given steps count as prompt tokens, so the completion tokens leave them out.
        let counts = nodes.iter().map(|&node| {
            let all = result.tree.sampled_count(node);
            all.saturating_sub(given_tokens(result, node)) as u64
        });
        let completion_tokens = counts.sum();
        let thoughts = nodes
            .iter()
            .map(|&node| result.tree.thought_tokens(node) as u64);
        let reasoning_tokens = thoughts.sum();
        let mut nodes: Vec<Option<NodeId>> = nodes.into_iter().map(Some).collect();
        // Clients expect at least one choice, even if no chain was chosen.
        if nodes.is_empty() {
            nodes.push(None);
        }
        let mut record = Record::new(result, ask.tree);
        // Whole steps of a given beginning of the answer (a prefix) count as given steps.
        record.given = result.chosen.map_or(0, |node| given_steps(result, node));
        let spent = record.ledger.clone();
        let findings = if ask.tree {
            findings(
                &record,
                &Search::of(&record, search.aggregation, &bundled::last_is_right),
            )
        } else {
            Vec::new()
        };
        let twin = Twin {
            model: &ask.model,
            strategy: search.strategy.name(),
            n: search.n,
            m: search.m,
            seed: part.seed,
            record,
            stopped: result.stopped,
            findings,
        };
        let choices = nodes.iter().enumerate();
        let choices = choices.map(|(at, &node)| Choice::new(app, ask, &done, at, node));
        Self {
            choices: choices.collect(),
            missing: part.choices - nodes.len(),
            is_foreign: app.models.has_bundled && !bundled::knows(&result.problem.with_context()),
            // The generator reads the prompt once for all chains of a search.
            prompt_tokens: result.ledger.prompt_tokens,
            completion_tokens,
            reasoning_tokens,
            spent,
            own: serde_json::to_value(twin).unwrap_or_default(),
            done,
        }
    }
}

/// The sums over all searches of a request, and the object `beamgen` of the first one.
#[derive(Default)]
pub(crate) struct Total {
    own: Option<(usize, Value)>,
    spent: Spent,
    prompt_tokens: u64,
    completion_tokens: u64,
    reasoning_tokens: u64,
    missing: usize,
    is_foreign: bool,
    seconds: f64,
}

impl Total {
    /// Adds a search. Searches may finish in any order, so the first one is found by its first
    /// choice.
    pub(crate) fn add(&mut self, ask: &Ask, solved: Solved) {
        let first = solved.done.part.first;
        if self.own.as_ref().is_none_or(|(known, _)| first < *known) {
            self.own = Some((first, solved.own));
        }
        self.spent.add(&solved.spent);
        // Several searches may answer the same prompt, whose tokens count once.
        if first.is_multiple_of(ask.n) {
            self.prompt_tokens += solved.prompt_tokens;
        }
        self.completion_tokens += solved.completion_tokens;
        self.reasoning_tokens += solved.reasoning_tokens;
        self.missing += solved.missing;
        self.is_foreign |= solved.is_foreign;
        self.seconds = self.seconds.max(solved.done.seconds);
    }

    pub(crate) fn usage(&self) -> Value {
        let mut usage = json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        });
        if self.reasoning_tokens > 0 {
            let details = json!({"reasoning_tokens": self.reasoning_tokens});
            usage["completion_tokens_details"] = details;
        }
        usage
    }

    /// Returns the object `beamgen` of the whole answer: that of the first search, with the costs
    /// of all searches and the notes.
    pub(crate) fn own(&self, ask: &Ask) -> Value {
        let (_, mut own) = self.own.clone().unwrap_or_default();
        own["ledger"] = json!(self.spent);
        let mut notes = ask.notes.clone();
        if self.missing > 0 {
            let all = ask.n * ask.problems.len();
            notes.push(format!(
                "{} of {all} choices: the search finished no more chains of other texts",
                all - self.missing
            ));
        }
        notes.extend(self.is_foreign.then(|| FOREIGN.to_owned()));
        if !notes.is_empty() {
            own["note"] = notes.join("; ").into();
        }
        if !ask.ignored.is_empty() {
            own["ignored"] = json!(ask.ignored);
        }
        own["elapsed_seconds"] = self.seconds.into();
        own
    }
}

/// Returns the answer that is not streamed.
pub(crate) fn whole(app: &App, ask: &Ask, all: Vec<Done>) -> Value {
    let (mut total, mut choices) = (Total::default(), Vec::new());
    for done in all {
        let solved = Solved::new(app, ask, done);
        choices.extend(solved.choices.iter().map(Choice::whole));
        total.add(ask, solved);
    }
    let mut answer = Head::new(app, ask).object(false, choices.into());
    answer["usage"] = total.usage();
    answer["beamgen"] = total.own(ask);
    answer
}
