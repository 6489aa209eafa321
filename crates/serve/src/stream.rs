//! Answers as server-sent events: events of the search while it runs, the answer at its end, and
//! comments when nothing else is sent, so that proxies keep the connection.

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

/// Events within this time are sent together.
const GATHER: Duration = Duration::from_millis(25);

/// The body of a streamed answer. Dropping it cancels the search.
pub(crate) struct AnswerStream {
    app: Arc<App>,
    ask: Ask,
    head: Head,
    /// The searches without a result yet.
    running: Vec<Running>,
    total: Total,
    /// Bytes that are ready to be sent.
    ready: VecDeque<Bytes>,
    /// The timer after which gathered events are sent.
    gather: Option<Pin<Box<Sleep>>>,
    keep_alive: Pin<Box<Sleep>>,
}

/// A search of the answer.
struct Running {
    part: Part,
    search: Search,
    events: Events,
    /// Whether all events were sent.
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
        // OpenAI's API has the role in the first chunk, before any text. The others begin with their
        // answers: a search may give fewer than are asked for.
        stream.push_beginning(0);
        stream
    }

    /// Adds a chunk in the format of OpenAI's API.
    fn push(&mut self, choices: Value, more: Option<(&str, Value)>) {
        let mut chunk = self.head.object(true, choices);
        // OpenAI's API has the key in all chunks, and its value in the last one only.
        if self.ask.include_usage {
            chunk["usage"] = Value::Null;
        }
        if let Some((key, value)) = more {
            chunk[key] = value;
        }
        self.ready.push_back(line(&chunk));
    }

    /// Adds the first chunk of a choice.
    fn push_beginning(&mut self, index: usize) {
        if self.head.shape == Shape::Chat {
            let delta = json!({"role": "assistant", "content": ""});
            let choice =
                json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null});
            self.push(json!([choice]), None);
        }
    }

    /// Adds the chunks of a search's answers: steps, and the reason of the end. The last chunk of all has
    /// the object `beamgen`.
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
                self.push(json!([self.said(&choice, "content", piece)]), None);
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

    /// Returns the choice of a chunk with a part of an answer. A completion has no place for a refusal.
    fn said(&self, choice: &Choice, key: &str, piece: &Piece) -> Value {
        let (text, tokens) = (piece.text.as_str(), &piece.tokens);
        match self.head.shape {
            Shape::Chat => choice.object("delta", json!({key: text}), tokens, None),
            Shape::Completion if key == "content" => {
                choice.object("text", text.into(), tokens, None)
            }
            Shape::Completion => choice.object("text", "".into(), &[], None),
        }
    }

    fn push_refusal(&mut self, refusal: &Refusal) {
        // The head with status 200 was sent before, so `gate` saw no code to count.
        self.app.metrics.refused(refusal.code);
        self.ready.push_back(line(&refusal.body()));
        self.push_done();
    }

    fn push_done(&mut self) {
        self.ready
            .push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }

    /// Moves everything that is available now to `ready`.
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
                // Without the pause, each event would be a chunk of its own, and hundreds of
                // steps would swamp slow clients.
                self.gather.get_or_insert_with(|| Box::pin(sleep(GATHER)));
                at += 1;
                continue;
            }
            // The result is polled only after all events, so that the client sees them in order.
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
    /// Returns the events since the last call; `None` if there is none. `is_plural`: whether the client
    /// has to be told which answers they belong to.
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

    /// Returns the result if all events are sent.
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<ProblemResult, Refusal>> {
        if self.events_over {
            self.search.poll_result(cx)
        } else {
            Poll::Pending
        }
    }
}

/// Formats a server-sent event. Serialized JSON has no line breaks, so it is a single line.
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
        // While a slow client leaves chunks unsent, events wait in the ticket, which bounds their
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
