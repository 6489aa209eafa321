//! Serves one page on 127.0.0.1 to a person on this machine, under a path that cannot be guessed. A
//! function answers the page's messages.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use beamgen_view::LivePage;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use crate::Error;
use crate::listen::unless;
use crate::page::served;
use crate::stop::{Phase, Stop};

/// The function that answers a page's messages, or returns an error of one line.
pub type Answer = Box<dyn FnMut(Value) -> Result<Value, String> + Send>;

/// A server for a single page. It listens already, so a browser may connect before
/// [`run`](Self::run).
#[derive(Debug)]
pub struct LocalPage {
    listener: TcpListener,
    token: String,
}

impl LocalPage {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// Returns an error if no port is available.
    pub fn bind() -> Result<Self, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // Tokio requires listeners that do not block.
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|source| Error::Bind { address, source })?;
        // The standard library seeds `RandomState` from the system's randomness, so nobody can
        // guess a hash under its keys.
        let key = RandomState::new();
        let token = format!("{:016x}{:016x}", key.hash_one(0), key.hash_one(1));
        Ok(Self { listener, token })
    }

    /// Returns the address of the page, with its secret path.
    ///
    /// # Errors
    /// Returns an error if the operating system does not report the port.
    pub fn url(&self) -> Result<String, Error> {
        let address = self.listener.local_addr().map_err(Error::Runtime)?;
        Ok(format!("http://{address}/{}/", self.token))
    }

    /// Serves the page until `stop`. `answer` gets the messages that the page posts to `act`, one
    /// at a time.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread, a timer or the listener.
    pub fn run(self, page: LivePage, answer: Answer, stop: &Stop) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(Error::Runtime)?;
        let shown = get(move || async move { served(&page) });
        let router = Router::new()
            .route(&format!("/{}/", self.token), shown)
            .route(&format!("/{}/act", self.token), post(act))
            .with_state(Arc::new(Mutex::new(answer)));
        let listening = async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let mut stopped = Box::pin(stop.reached(Phase::Draining));
            while let Some(accepted) = unless(&mut stopped, listener.accept()).await {
                // Some errors, such as too many open files, pass after a moment. The pause keeps
                // this loop from using a whole core.
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let service = TowerToHyperService::new(router.clone());
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), service);
                // An error of a connection concerns its client only.
                tokio::spawn(async move { _ = connection.await });
            }
            Ok(())
        };
        runtime.block_on(listening).map_err(Error::Runtime)
    }
}

/// Answers a message of the page. `Json` requires the content type of JSON, which a page of another
/// origin cannot send without a preflight request.
async fn act(State(answer): State<Arc<Mutex<Answer>>>, Json(message): Json<Value>) -> Response {
    let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
    match (answer)(message) {
        Ok(value) => Json(value).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response(),
    }
}
