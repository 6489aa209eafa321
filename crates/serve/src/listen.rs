//! Accepts connections up to a limit, each on its own task, and ends them when the server stops.

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

/// The time for last answers to be sent after all searches were ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Accepts connections until the server has to stop, and then ends the open ones.
pub(crate) async fn listen(listener: TcpListener, app: Arc<App>, router: Router) {
    let places = Arc::new(Semaphore::new(app.limits.connections));
    let connections = GracefulShutdown::new();
    let mut stopped = Box::pin(app.stop.reached(Phase::Draining));
    while let Some(accepted) = unless(&mut stopped, accept(&listener, &places)).await {
        match accepted {
            Some((stream, place)) => serve(stream, place, &app, router.clone(), &connections),
            // An error such as too many open files may be over in a moment; without the pause this
            // loop would take a core.
            None => sleep(Duration::from_millis(50)).await,
        }
    }
    // New connections are refused while the open ones finish.
    drop(listener);
    let mut all_done = Box::pin(connections.shutdown());
    if timeout(app.limits.drain_time, &mut all_done).await.is_err() {
        // The time is over: searches end with partial results, which need a moment to be sent.
        app.stop.cut();
        let _ = timeout(LAST_WORDS, all_done).await;
    }
}

/// Accepts the next connection, when the limit allows it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    // The place comes first: without one, further clients wait in the system's backlog.
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    Some((stream, place))
}

/// Returns the output of a future; `None` if `end` resolves before.
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
        // An error of a connection ends that connection only.
        let _ = connection.await;
        app.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        // Held until the connection is closed, so that the limit counts idle connections, too.
        drop(place);
    });
}
