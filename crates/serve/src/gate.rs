//! The middleware of every request: access checks, and metrics.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};

use crate::access::Access;
use crate::app::App;
use crate::labels::label;
use crate::options::Served;
use crate::refusal::{Code, Refusal};

/// The route that never needs a key.
const WITHOUT_KEY: &str = "/health";

/// The routes that still answer while the server stops.
const WHILE_STOPPING: [&str; 3] = ["/health", "/ready", "/metrics"];

/// Counts a request when this value is dropped: at the end of its answer, or when its client
/// disconnects.
struct Timed {
    app: Arc<App>,
    route: &'static str,
    status: u16,
    started: Instant,
}

impl Drop for Timed {
    fn drop(&mut self) {
        let served = Served {
            route: self.route,
            status: self.status,
            seconds: self.started.elapsed().as_secs_f64(),
        };
        let metrics = &self.app.metrics;
        metrics.request(served.route, served.status, served.seconds);
        if let Some(observe) = &self.app.options.observe {
            observe(&served);
        }
    }
}

/// A body that owns the [`Timed`] of its request, so that a stream counts when it ends.
struct TimedBody {
    body: Body,
    _timed: Timed,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Checks the access of a request, and counts it.
pub(crate) async fn gate(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut timed = Timed {
        app: Arc::clone(&app),
        route: label(request.uri().path()),
        // nginx's status for a client that disconnected: it stays if the handler is dropped.
        status: 499,
        started: Instant::now(),
    };
    let response = match check(&app, &request) {
        Err(refusal) => refusal.into_response(),
        Ok(()) => next.run(request).await,
    };
    // Handlers attach the code to their response, so refusals are counted at this place only.
    if let Some(Code(code)) = response.extensions().get::<Code>() {
        app.metrics.refused(code);
    }
    // The body may be a stream: `timed` moves into it, and counts the request when it ends.
    timed.status = response.status().as_u16();
    response.map(|body| {
        Body::new(TimedBody {
            body,
            _timed: timed,
        })
    })
}

fn check(app: &App, request: &Request) -> Result<(), Refusal> {
    let (uri, headers) = (request.uri(), request.headers());
    app.access.check_host(uri, headers)?;
    // Host and origin come before the key: a foreign page must not be able to tell a right key from
    // a wrong one.
    Access::check_origin(headers)?;
    if uri.path() != WITHOUT_KEY {
        app.access.check_key(headers)?;
    }
    if app.stop.is_serving() || WHILE_STOPPING.contains(&uri.path()) {
        Ok(())
    } else {
        Err(Refusal::stopping())
    }
}
