//! Accepts connections up to a limit, serves each in its own task, and closes all when the server
//! stops.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::stall::StallGuard;
use crate::stop::Phase;

/// The time to send the last answers after all searches were ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves connections until the server stops, then lets the open ones finish within `drain_time`.
pub(crate) async fn listen(listener: TcpListener, app: Arc<App>, router: Router) {
    let places = Arc::new(Semaphore::new(app.limits.connections));
    let connections = GracefulShutdown::new();
    let mut stopped = Box::pin(app.stop.reached(Phase::Draining));
    while let Some(accepted) = unless(&mut stopped, accept(&listener, &places)).await {
        match accepted {
            Some((stream, place)) => serve(stream, place, &app, router.clone(), &connections),
            // Some errors, such as too many open files, pass after a moment. The pause keeps this
            // loop from using a whole core.
            None => sleep(Duration::from_millis(50)).await,
        }
    }
    // New connections are refused while the open ones finish.
    drop(listener);
    let mut all_done = Box::pin(connections.shutdown());
    if timeout(app.limits.drain_time, &mut all_done).await.is_err() {
        // The time is over: searches return partial results, which need a moment to be sent.
        app.stop.cut();
        let _ = timeout(LAST_WORDS, all_done).await;
    }
}

/// Waits for a free place, then for a connection.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    // The place is taken first: while all are taken, new clients wait in the system's backlog.
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    Some((stream, place))
}

/// Returns the output of `wanted`, or `None` if `end` resolves first.
pub(crate) async fn unless<T>(
    end: &mut (impl Future<Output = ()> + Unpin),
    wanted: impl Future<Output = T>,
) -> Option<T> {
    let mut wanted = pin!(wanted);
    poll_fn(|cx| match Pin::new(&mut *end).poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => wanted.as_mut().poll(cx).map(Some),
    })
    .await
}

fn serve(
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    app: &Arc<App>,
    router: Router,
    connections: &GracefulShutdown,
) {
    let limits = &app.limits;
    // Without Nagle's algorithm, the small chunks of a stream are sent at once.
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(StallGuard::new(stream, limits.stall_time));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_headers(limits.headers)
        .max_buf_size(limits.head_bytes)
        .serve_connection(io, TowerToHyperService::new(router));
    let connection = connections.watch(connection);
    let app = Arc::clone(app);
    tokio::spawn(async move {
        app.metrics.connections.fetch_add(1, Ordering::Relaxed);
        // An error of a connection concerns its client only.
        let _ = connection.await;
        app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        // The place is held until the connection closes, so the limit includes idle connections.
        drop(place);
    });
}
