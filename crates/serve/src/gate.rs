//! The middleware of every request: its id, access checks, headers for pages of other origins, and
//! metrics.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};

use crate::access::{check_key, check_key_of_page};
use crate::app::App;
use crate::log::{Event, Served};
use crate::origins;
use crate::refusal::{Code, Refusal};
use crate::request_id::{self, X_REQUEST_ID};
use crate::routes::{WITHOUT_KEY, label};
use crate::spent::Spent;

/// The routes that answer while the server stops.
const WHILE_STOPPING: [&str; 3] = ["/health", "/ready", "/metrics"];

/// Counts a request in metrics and log when dropped: at the end of its answer, or when its client
/// disconnects.
struct Timed {
    app: Arc<App>,
    request_id: String,
    route: &'static str,
    status: u16,
    spent: Spent,
    started: Instant,
}

impl Drop for Timed {
    fn drop(&mut self) {
        let served = Served {
            request_id: std::mem::take(&mut self.request_id),
            route: self.route,
            status: self.status,
            seconds: self.started.elapsed().as_secs_f64(),
            tokens: self.spent.tokens(),
        };
        let metrics = &self.app.metrics;
        metrics.request(served.route, served.status, served.seconds);
        self.app.tell(&Event::Served(&served));
    }
}

/// A body that holds the [`Timed`] of its request, so that a stream is counted at its end.
struct TimedBody {
    body: Body,
    timed: Timed,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let spent = self.timed.spent.clone();
        spent.within(|| Pin::new(&mut self.body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The middleware of all requests: checks access, adds the request's id, and counts the request at
/// its end.
pub(crate) async fn gate(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let spent = Spent::default();
    let mut timed = Timed {
        app: Arc::clone(&app),
        request_id: request_id::of(request.headers(), &app),
        route: label(request.uri().path()),
        // The status of nginx for a client that disconnected. It stays in effect if the handler is
        // dropped before it answers.
        status: 499,
        spent: spent.clone(),
        started: Instant::now(),
    };
    let mut response = respond(&app, request, next, &spent).await;
    // Every refusal passes here with its code attached to the response, so it is counted only once.
    if let Some(Code(code)) = response.extensions().get::<Code>() {
        app.metrics.refused(code);
    }
    if let Ok(id) = HeaderValue::from_str(&timed.request_id) {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    // The body may be a stream that ends later, so `timed` moves into it.
    timed.status = response.status().as_u16();
    response.map(|body| Body::new(TimedBody { body, timed }))
}

/// Answers a request, or refuses it if it has no access.
async fn respond(app: &App, request: Request, next: Next, spent: &Spent) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    // Host and origin are checked before the key: a page of another origin must not find out
    // whether a key is right.
    let host = app.access.check_host(uri, headers);
    let page = match host.and_then(|()| app.access.check_origin(headers)) {
        Ok(page) => page,
        Err(refusal) => return refusal.into_response(),
    };
    let mut response = if page.is_some() && origins::is_preflight(request.method(), headers) {
        // A browser never sends a key with a preflight request.
        origins::preflight(headers)
    } else {
        match check(app, &request, page.is_some()) {
            Ok(()) => spent.during(next.run(request)).await,
            Err(refusal) => refusal.into_response(),
        }
    };
    if app.access.has_origins() {
        origins::open(&mut response, page);
    }
    response
}

fn check(app: &App, request: &Request, is_from_page: bool) -> Result<(), Refusal> {
    let (path, headers) = (request.uri().path(), request.headers());
    if path != WITHOUT_KEY && is_from_page {
        check_key_of_page(&app.keys(), headers)?;
    } else if path != WITHOUT_KEY {
        check_key(&app.keys(), headers)?;
    }
    if app.stop.is_serving() || WHILE_STOPPING.contains(&path) {
        Ok(())
    } else {
        Err(Refusal::stopping())
    }
}
