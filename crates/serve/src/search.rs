//! The running search of a request, which is cancelled when the request is dropped.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::http::StatusCode;
use beamgen::eval::number::counted;
use beamgen::result::Stopped;
use beamgen::service::ServiceError;
use beamgen::{ProblemResult, Progress, Request, Ticket};

use crate::app::App;
use crate::ask::Ask;
use crate::refusal::Refusal;
use crate::stop::Phase;

/// The settings that only the generator can check, by the tokens that it has.
const BY_GENERATOR: [&str; 3] = ["logit_bias", "grammar", "logprobs"];

/// A running search. Dropping it before its result cancels the search: its client has disconnected.
pub(crate) struct Search {
    app: Arc<App>,
    ticket: Ticket,
    started: Instant,
    /// The name of the field with the problem, for an error about it.
    problem_field: String,
    date_field: Option<String>,
    /// The fields of the settings that only the generator can check, by the settings' names.
    setting_fields: Vec<(&'static str, String)>,
    /// Resolves when the server ends running searches.
    cut: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_done: bool,
}

impl Search {
    /// Queues a search, with the deadline of a client's request. `problem` is the number of its problem.
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
        // If the client disconnects meanwhile, the new search is dropped on that thread, which
        // cancels it.
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
                is_done: false,
            })
        };
        app.long_texts.run(bytes, begun).await?
    }

    /// Returns the seconds since the request was taken.
    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Returns the number of events that were dropped because the reader was slow.
    pub(crate) fn missed(&self) -> u64 {
        self.ticket.dropped_events()
    }

    /// Returns the events since the last call; `None` after the last event.
    pub(crate) fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Progress>>> {
        self.heed_stop(cx);
        self.ticket.poll_events(cx)
    }

    /// Returns the result, once; a result without anything to show is an error.
    pub(crate) fn poll_result(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ProblemResult, Refusal>> {
        let result = self.poll_any_result(cx);
        result.map(|result| result.and_then(|result| self.usable(result)))
    }

    /// Returns the result, once, even if it has nothing to show.
    fn poll_any_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<ProblemResult, Refusal>> {
        self.heed_stop(cx);
        let Poll::Ready(result) = Pin::new(&mut self.ticket).poll(cx) else {
            return Poll::Pending;
        };
        // From here on, dropping the search must not count as a client that disconnected.
        self.is_done = true;
        let missed = self.ticket.dropped_events();
        let metrics = &self.app.metrics;
        metrics.missed_events.fetch_add(missed, Ordering::Relaxed);
        let result = result.map_err(|error| not_taken(&self.app, &error));
        if let Ok(result) = &result {
            metrics.searched(result, self.seconds());
            if let Some(stopped) = result.stopped {
                metrics.stopped(reason(stopped));
            }
        }
        Poll::Ready(result)
    }

    /// Waits for the result, even if it has nothing to show.
    pub(crate) async fn any_result(&mut self) -> Result<ProblemResult, Refusal> {
        poll_fn(|cx| self.poll_any_result(cx)).await
    }

    /// Waits for the result; a result without anything to show is an error.
    pub(crate) async fn result(&mut self) -> Result<ProblemResult, Refusal> {
        poll_fn(|cx| self.poll_result(cx)).await
    }

    /// Returns the result if it has something to show, or else the reason why not.
    fn usable(&self, result: ProblemResult) -> Result<ProblemResult, Refusal> {
        if let Some(reason) = &result.error {
            // An error before anything was sampled is the fault of the request, a later one is not.
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
            // A client that left takes no result, so only the server's end can have cancelled this
            // one.
            Some(_) if result.chosen.is_none() => Err(Refusal::stopping()),
            _ => Ok(result),
        }
    }

    /// Ends the search, whose result is of no use any more.
    pub(crate) fn withdraw(mut self) {
        // Its client is still there.
        self.is_done = true;
        self.ticket.cancel();
        self.app.metrics.stopped(reason(Stopped::Cancelled));
    }

    /// Ends the search with its partial result if the server has to end now.
    fn heed_stop(&mut self, cx: &mut Context<'_>) {
        if let Some(cut) = &mut self.cut
            && cut.as_mut().poll(cx).is_ready()
        {
            // The future is finished, and must not be polled again.
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

/// Returns the name of a reason to end a search.
pub(crate) fn reason(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::Deadline => "deadline",
        _ => "cancelled",
    }
}

/// Converts the reason why the service did not take a request, or has no result for it.
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
            // Without its models the server can solve nothing more, so it ends.
            app.stop.begin();
            Refusal::engine_lost()
        }
    }
}
