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
use http_body::Frame;
use serde_json::{Value, json};
use tokio::time::{Sleep, sleep};

use crate::answer::{Head, Solved};
use crate::app::App;
use crate::ask::{Ask, Shape};
use crate::events::Events;
use crate::refusal::Refusal;
use crate::search::Search;

/// Events within this time are sent together.
const GATHER: Duration = Duration::from_millis(25);

/// The body of a streamed answer. Dropping it cancels the search.
pub(crate) struct AnswerStream {
    app: Arc<App>,
    ask: Ask,
    head: Head,
    /// The search; `None` after its result.
    search: Option<Search>,
    events: Events,
    /// Whether all events were sent.
    events_over: bool,
    /// Bytes that are ready to be sent.
    ready: VecDeque<Bytes>,
    /// The timer after which gathered events are sent.
    gather: Option<Pin<Box<Sleep>>>,
    keep_alive: Pin<Box<Sleep>>,
}

impl AnswerStream {
    pub(crate) fn new(app: &Arc<App>, ask: Ask, search: Search) -> Self {
        let mut stream = Self {
            head: Head::new(app, &ask),
            keep_alive: Box::pin(sleep(app.limits.keep_alive)),
            app: Arc::clone(app),
            events: Events::default(),
            events_over: !ask.events,
            search: Some(search),
            ready: VecDeque::new(),
            gather: None,
            ask,
        };
        // OpenAI's API has the role in the first chunk, before any text.
        if stream.head.shape == Shape::Chat {
            stream.push_delta(json!({"role": "assistant", "content": ""}), None);
        }
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

    fn push_delta(&mut self, delta: Value, finish_reason: Option<&str>) {
        let choice = self.choice(delta, finish_reason);
        self.push(choice, None);
    }

    fn choice(&self, delta: Value, finish_reason: Option<&str>) -> Value {
        match self.head.shape {
            Shape::Chat => {
                json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}])
            }
            Shape::Completion => {
                let text = delta["content"].as_str().unwrap_or_default();
                json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": finish_reason}])
            }
        }
    }

    /// Adds the chunks of the answer: its steps, the reason of its end, its costs.
    fn push_answer(&mut self, solved: Solved) {
        if let Some(refusal) = solved.refusal {
            self.push_delta(json!({"refusal": refusal}), None);
        }
        for piece in solved.pieces {
            self.push_delta(json!({"content": piece}), None);
        }
        let last = self.choice(json!({}), Some(solved.finish_reason));
        self.push(last, Some(("beamgen", solved.beamgen)));
        if self.ask.include_usage {
            self.push(json!([]), Some(("usage", solved.usage)));
        }
        self.push_done();
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
        let Some(search) = &mut self.search else {
            return;
        };
        if !self.events_over {
            match search.poll_events(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(progress)) => {
                    let mut events = Vec::new();
                    for progress in &progress {
                        self.events.add(progress, &mut events);
                    }
                    let mut told = json!({
                        "events": events,
                        "tokens": self.events.tokens,
                        "seconds": search.seconds(),
                    });
                    if search.missed() > 0 {
                        told["missed"] = search.missed().into();
                    }
                    self.push(json!([]), Some(("beamgen", told)));
                    // Without the pause, each event would be a chunk of its own, and hundreds of
                    // steps would swamp slow clients.
                    self.gather = Some(Box::pin(sleep(GATHER)));
                    return;
                }
                // The result is polled only after all events, so that the client sees them in
                // order.
                Poll::Ready(None) => self.events_over = true,
            }
        }
        if let Poll::Ready(result) = search.poll_result(cx) {
            let seconds = search.seconds();
            self.search = None;
            match result {
                Ok(result) => {
                    let solved = Solved::new(&self.app, &self.ask, &result, seconds);
                    self.push_answer(solved);
                }
                Err(refusal) => self.push_refusal(&refusal),
            }
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
        if this.search.is_none() {
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
