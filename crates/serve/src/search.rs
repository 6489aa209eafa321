//! The running search of a request. Dropping the request cancels the search.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::http::StatusCode;
use beamgen::eval::answer::{Verdict, compare};
use beamgen::eval::number::counted;
use beamgen::result::Stopped;
use beamgen::service::ServiceError;
use beamgen::{ProblemResult, Progress, Request, Ticket};

use crate::app::App;
use crate::ask::Ask;
use crate::refusal::Refusal;
use crate::stop::Phase;

/// The settings that only the generator can check, because validity depends on its vocabulary.
const BY_GENERATOR: [&str; 3] = ["logit_bias", "grammar", "logprobs"];

/// A running search. Dropping it before its result counts as a client that disconnected, and
/// cancels the search.
pub(crate) struct Search {
    app: Arc<App>,
    ticket: Ticket,
    started: Instant,
    /// The name of the field with the text of the problem, for errors about the problem.
    problem_field: String,
    date_field: Option<String>,
    /// The settings of [`BY_GENERATOR`] that the request set, each with the name of its field.
    setting_fields: Vec<(&'static str, String)>,
    /// Resolves when the server ends running searches; `None` after that.
    cut: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The name of the preset.
    model: String,
    /// The search to repeat without the reward model, if its turn comes.
    shadow: Option<Request>,
    is_done: bool,
}

impl Search {
    /// Queues a search with the request's deadline. `problem` is the index of its problem in `ask`.
    pub(crate) async fn of(
        app: &Arc<App>,
        request: Request,
        ask: &Ask,
        problem: usize,
    ) -> Result<Self, Refusal> {
        let problem_field = ask.problem_field(problem);
        let request = request.timeout(ask.deadline);
        let system = request.settings.generator.system_prompt.as_deref();
        let problem = &request.problem;
        let given = problem.steps.iter().map(String::len).sum::<usize>();
        let tools = problem.tools.iter().map(|tool| tool.to_string().len());
        let bytes = problem.with_context().len()
            + given
            + problem.prefix.len()
            + tools.sum::<usize>()
            + system.unwrap_or_default().len();
        let date_field = ask.field_of("date").map(str::to_owned);
        let setting_fields = BY_GENERATOR.iter().filter_map(|setting| {
            let field = ask.field_of(setting)?;
            Some((*setting, field.to_owned()))
        });
        let setting_fields = setting_fields.collect();
        let taker = Arc::clone(app);
        let model = ask.model.clone();
        let shadow = app.metrics.monitor.without_scores(&request);
        // If the client disconnects meanwhile, nobody takes the result, so the new search is
        // dropped and thereby cancelled.
        let begun = move || {
            let ticket = taker.service.submit(request);
            let ticket = ticket.map_err(|error| not_taken(&taker, &error))?;
            let stop = taker.stop.clone();
            Ok(Self {
                app: taker,
                ticket,
                started: Instant::now(),
                problem_field,
                date_field,
                setting_fields,
                cut: Some(Box::pin(async move { stop.reached(Phase::Cut).await })),
                model,
                shadow,
                is_done: false,
            })
        };
        app.long_texts.run(bytes, begun).await?
    }

    /// Returns the seconds since the search was queued.
    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Returns the number of events that were dropped because the reader was too slow.
    pub(crate) fn missed(&self) -> u64 {
        self.ticket.dropped_events()
    }

    /// Returns the events since the last call; `None` after the last one.
    pub(crate) fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Progress>>> {
        self.heed_stop(cx);
        self.ticket.poll_events(cx)
    }

    /// Returns the result, once. A result without a chain to return is an error.
    pub(crate) fn poll_result(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ProblemResult, Refusal>> {
        let result = self.poll_any_result(cx);
        result.map(|result| result.and_then(|result| self.usable(result)))
    }

    /// Returns the result, once, even without a chain to return.
    fn poll_any_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<ProblemResult, Refusal>> {
        self.heed_stop(cx);
        let Poll::Ready(result) = Pin::new(&mut self.ticket).poll(cx) else {
            return Poll::Pending;
        };
        // The search is over, so dropping it no longer means that the client disconnected.
        self.is_done = true;
        let missed = self.ticket.dropped_events();
        let metrics = &self.app.metrics;
        metrics.missed_events.fetch_add(missed, Ordering::Relaxed);
        let result = result.map_err(|error| not_taken(&self.app, &error));
        if let Ok(result) = &result {
            metrics.searched(result, self.seconds());
            if let Some(stopped) = result.stopped {
                metrics.stopped(reason(stopped));
            } else if metrics.monitor.searched(&self.model, result)
                && let (Some(request), Some(answer)) = (self.shadow.take(), &result.answer)
            {
                repeat(&self.app, self.model.clone(), request, answer.clone());
            }
        }
        Poll::Ready(result)
    }

    /// Waits for the result, even without a chain to return.
    pub(crate) async fn any_result(&mut self) -> Result<ProblemResult, Refusal> {
        poll_fn(|cx| self.poll_any_result(cx)).await
    }

    /// Waits for the result. A result without a chain to return is an error.
    pub(crate) async fn result(&mut self) -> Result<ProblemResult, Refusal> {
        poll_fn(|cx| self.poll_result(cx)).await
    }

    /// Returns the result if it has a chain to return, or else the reason as a refusal.
    fn usable(&self, result: ProblemResult) -> Result<ProblemResult, Refusal> {
        if let Some(reason) = &result.error {
            // An error before the first sampled token is due to the request; a later one is due to
            // the server.
            let is_input = result.ledger.generated_tokens == 0;
            let (problem, date) = (self.problem_field.as_str(), self.date_field.as_deref());
            let at_fault = |field: &str, code| Refusal {
                param: Some(field.to_owned()),
                ..Refusal::input(code, reason.clone())
            };
            return Err(match (result.too_long, is_input) {
                (true, _) => at_fault(problem, "context_length_exceeded"),
                (_, true) => {
                    let mut settings = self.setting_fields.iter();
                    let setting = settings.find(|(name, _)| reason.contains(&format!("`{name}`")));
                    let field = setting.map(|(_, field)| field.as_str()).or(date);
                    at_fault(field.unwrap_or(problem), "invalid_request")
                }
                (_, false) => {
                    let status = StatusCode::INTERNAL_SERVER_ERROR;
                    Refusal::new(status, "search_failed", reason.clone())
                }
            });
        }
        match result.stopped {
            Some(Stopped::Deadline) if result.chosen.is_none() => {
                let message = "the deadline passed before a chain was finished: raise timeout, or use fewer chains";
                let status = StatusCode::GATEWAY_TIMEOUT;
                Err(Refusal::new(status, "deadline_exceeded", message))
            }
            // A client that disconnects takes no result, so it was the end of the server that
            // cancelled this search.
            Some(_) if result.chosen.is_none() => Err(Refusal::stopping()),
            _ => Ok(result),
        }
    }

    /// Cancels the search because nobody needs its result.
    pub(crate) fn withdraw(mut self) {
        // The client is still connected, so this drop must not count as a disconnect.
        self.is_done = true;
        self.ticket.cancel();
        self.app.metrics.stopped(reason(Stopped::Cancelled));
    }

    /// Cancels the search if the server ends running searches; the partial result becomes the
    /// answer.
    fn heed_stop(&mut self, cx: &mut Context<'_>) {
        if let Some(cut) = &mut self.cut
            && cut.as_mut().poll(cx).is_ready()
        {
            // A finished future must not be polled again.
            self.cut = None;
            self.ticket.cancel();
        }
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        if !self.is_done {
            self.ticket.cancel();
            self.app.metrics.stopped("disconnected");
        }
    }
}

/// Repeats a search in the background and compares the answers. A repeated search waits for nobody: it is left out
/// while requests wait.
fn repeat(app: &Arc<App>, model: String, request: Request, answer: String) {
    if app.service.waiting() > 0 {
        return;
    }
    let app = Arc::clone(app);
    let request = request.timeout(app.limits.search_time);
    tokio::spawn(async move {
        let Ok(ticket) = app.service.submit(request) else {
            return;
        };
        // A search that failed has no answer to compare.
        if let Ok(result) = ticket.await
            && result.error.is_none()
        {
            let other = result.answer.as_deref();
            let is_same = other.is_some_and(|other| compare(other, &answer) == Verdict::Same);
            app.metrics.monitor.repeated(&model, !is_same);
        }
    });
}

/// Returns the label of a reason in the metrics.
pub(crate) fn reason(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::Deadline => "deadline",
        _ => "cancelled",
    }
}

/// Converts the reason why the service refused a request, or gave no result, to an answer. Stops
/// the server if a model was lost.
pub(crate) fn not_taken(app: &App, error: &ServiceError) -> Refusal {
    match error {
        ServiceError::Full { waiting } => {
            let message = counted(*waiting, "request waits already", "requests wait already");
            let seconds = app.metrics.seconds_to_wait(&app.service);
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message).retry_after(seconds)
        }
        ServiceError::Closed => Refusal::stopping(),
        ServiceError::Setting(error) => {
            Refusal::field("invalid_value", "beamgen", &error.to_string())
        }
        _ => {
            // Without its models the server can solve nothing, so it stops.
            app.stop.begin();
            Refusal::engine_lost()
        }
    }
}
