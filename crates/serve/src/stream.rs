//! Streams an answer as server-sent events: the search's events while it runs, then the answer.
//! During pauses it sends comments, so that proxies keep the connection open.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Bytes, HttpBody};
use beamgen::ProblemResult;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::time::{Sleep, sleep};

use crate::answer::{Choice, Head, Solved, Total};
use crate::app::App;
use crate::ask::{Ask, Shape};
use crate::events::Events;
use crate::parts::{Done, Part, withdraw};
use crate::refusal::Refusal;
use crate::search::Search;
use crate::text::Piece;

/// The time during which events are collected into one chunk.
const GATHER: Duration = Duration::from_millis(25);

/// The body of a streamed answer. Dropping the body cancels its searches.
pub(crate) struct AnswerStream {
    app: Arc<App>,
    ask: Ask,
    head: Head,
    /// The searches that have no result yet.
    running: Vec<Running>,
    total: Total,
    /// Formatted chunks that wait to be sent.
    ready: VecDeque<Bytes>,
    /// The timer until the next events are sent; `None` if they are sent at once.
    gather: Option<Pin<Box<Sleep>>>,
    keep_alive: Pin<Box<Sleep>>,
}

/// A running search of the answer.
struct Running {
    part: Part,
    search: Search,
    events: Events,
    /// Whether all events of the search were sent.
    events_over: bool,
}

impl AnswerStream {
    pub(crate) fn new(app: &Arc<App>, ask: Ask, searches: Vec<(Part, Search)>) -> Self {
        let running = searches.into_iter().map(|(part, search)| Running {
            part,
            search,
            events: Events::default(),
            events_over: !ask.events,
        });
        let mut stream = Self {
            head: Head::new(app, &ask),
            keep_alive: Box::pin(sleep(app.limits.keep_alive)),
            app: Arc::clone(app),
            running: running.collect(),
            total: Total::default(),
            ready: VecDeque::new(),
            gather: None,
            ask,
        };
        // OpenAI's API sends the role in the first chunk, before any text. Only choice 0 begins
        // now, since a search may find fewer answers than the request asks for.
        stream.push_beginning(0);
        stream
    }

    /// Queues a chunk in the format of OpenAI's API; `more` is an additional field of the chunk.
    fn push(&mut self, choices: Value, more: Option<(&str, Value)>) {
        let mut chunk = self.head.object(true, choices);
        // With `include_usage`, OpenAI's API has `usage` in all chunks, which is null except in the
        // last one.
        if self.ask.include_usage {
            chunk["usage"] = Value::Null;
        }
        if let Some((key, value)) = more {
            chunk[key] = value;
        }
        self.ready.push_back(line(&chunk));
    }

    /// Queues the first chunk of a choice, which has the role.
    fn push_beginning(&mut self, index: usize) {
        if self.head.shape == Shape::Chat {
            let delta = json!({"role": "assistant", "content": ""});
            let choice =
                json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null});
            self.push(json!([choice]), None);
        }
    }

    /// Queues the answers of a finished search: a chunk for each step, then one with the reason of
    /// the end. The last chunk of the last search has the object `beamgen`; after that, the stream
    /// ends.
    fn push_answers(&mut self, done: Done) {
        let mut solved = Solved::new(&self.app, &self.ask, done);
        let choices = std::mem::take(&mut solved.choices);
        self.total.add(&self.ask, solved);
        let is_end = self.running.is_empty();
        let count = choices.len();
        for (at, choice) in choices.into_iter().enumerate() {
            if choice.index > 0 {
                self.push_beginning(choice.index);
            }
            for piece in &choice.pieces {
                let key = if piece.is_thought {
                    "reasoning_content"
                } else {
                    "content"
                };
                self.push(json!([self.said(&choice, key, piece)]), None);
            }
            if let Some(refusal) = &choice.refusal {
                let refusal = Piece::new(refusal, Vec::new());
                self.push(json!([self.said(&choice, "refusal", &refusal)]), None);
            }
            for (at, call) in choice.calls.iter().enumerate() {
                let mut call = call.clone();
                call["index"] = at.into();
                let delta = json!({"tool_calls": [call]});
                self.push(json!([choice.object("delta", delta, &[], None)]), None);
            }
            let finish_reason = Some(choice.finish_reason);
            let last = match self.head.shape {
                Shape::Chat => choice.object("delta", json!({}), &[], finish_reason),
                Shape::Completion => choice.object("text", "".into(), &[], finish_reason),
            };
            let own = (is_end && at + 1 == count).then(|| ("beamgen", self.total.own(&self.ask)));
            self.push(json!([last]), own);
        }
        if is_end {
            if self.ask.include_usage {
                self.push(json!([]), Some(("usage", self.total.usage())));
            }
            self.push_done();
        }
    }

    /// Returns the choice of a chunk with a part of an answer. A completion's format has no field
    /// for a refusal, so its text stays empty.
    fn said(&self, choice: &Choice, key: &str, piece: &Piece) -> Value {
        let text = piece.text.as_str();
        // Clients match log-probabilities with the content.
        let tokens = if piece.is_thought {
            &[][..]
        } else {
            &piece.tokens
        };
        match self.head.shape {
            Shape::Chat => choice.object("delta", json!({key: text}), tokens, None),
            Shape::Completion if key == "content" => {
                choice.object("text", text.into(), tokens, None)
            }
            Shape::Completion => choice.object("text", "".into(), &[], None),
        }
    }

    fn push_refusal(&mut self, refusal: &Refusal) {
        // The response began with status 200 and without a code, so `gate` could not count the
        // refusal.
        self.app.metrics.refused(refusal.code);
        self.ready.push_back(line(&refusal.body()));
        self.push_done();
    }

    fn push_done(&mut self) {
        self.ready
            .push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }

    /// Queues all events and results that are available now.
    fn advance(&mut self, cx: &mut Context<'_>) {
        if let Some(gather) = &mut self.gather {
            if gather.as_mut().poll(cx).is_pending() {
                return;
            }
            self.gather = None;
        }
        let mut at = 0;
        while at < self.running.len() {
            let running = &mut self.running[at];
            if let Some(told) = running.poll_events(cx, self.ask.is_plural()) {
                self.push(json!([]), Some(("beamgen", told)));
                // Without the pause, each event would be sent as a chunk of its own, and a search
                // of hundreds of steps would overwhelm slow clients.
                self.gather.get_or_insert_with(|| Box::pin(sleep(GATHER)));
                at += 1;
                continue;
            }
            // The result is taken only after the last event, so that the client sees them in order.
            let Poll::Ready(result) = running.poll_result(cx) else {
                at += 1;
                continue;
            };
            let Running { part, search, .. } = self.running.remove(at);
            match result {
                Ok(result) => {
                    let seconds = search.seconds();
                    self.push_answers(Done {
                        part,
                        result,
                        seconds,
                    });
                }
                Err(refusal) => {
                    let others = self.running.drain(..);
                    withdraw(others.map(|running| (running.part, running.search)));
                    self.push_refusal(&refusal);
                }
            }
        }
    }
}

impl Running {
    /// Returns the events since the last call; `None` if there are none. If `is_plural`, the object
    /// names the search by its first choice.
    fn poll_events(&mut self, cx: &mut Context<'_>, is_plural: bool) -> Option<Value> {
        if self.events_over {
            return None;
        }
        let progress = match self.search.poll_events(cx) {
            Poll::Pending => return None,
            Poll::Ready(Some(progress)) => progress,
            Poll::Ready(None) => {
                self.events_over = true;
                return None;
            }
        };
        let mut events = Vec::new();
        for progress in &progress {
            self.events.add(progress, &mut events);
        }
        let mut told = json!({
            "events": events,
            "tokens": self.events.tokens,
            "seconds": self.search.seconds(),
        });
        if is_plural {
            told["choice"] = self.part.first.into();
        }
        if self.search.missed() > 0 {
            told["missed"] = self.search.missed().into();
        }
        Some(told)
    }

    /// Returns the result after all events were sent.
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<ProblemResult, Refusal>> {
        if self.events_over {
            self.search.poll_result(cx)
        } else {
            Poll::Pending
        }
    }
}

/// Formats a server-sent event. Serialized JSON contains no line break, so one `data` line
/// suffices.
fn line(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

impl HttpBody for AnswerStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        // While chunks wait for a slow client, new events stay in the ticket, which limits their
        // number.
        if this.ready.is_empty() {
            this.advance(cx);
        }
        if let Some(bytes) = this.ready.pop_front() {
            let next = Instant::now() + this.app.limits.keep_alive;
            this.keep_alive.as_mut().reset(next.into());
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if this.running.is_empty() {
            return Poll::Ready(None);
        }
        if this.keep_alive.as_mut().poll(cx).is_ready() {
            let next = Instant::now() + this.app.limits.keep_alive;
            this.keep_alive.as_mut().reset(next.into());
            let comment = Bytes::from_static(b": keep-alive\n\n");
            return Poll::Ready(Some(Ok(Frame::data(comment))));
        }
        Poll::Pending
    }
}
