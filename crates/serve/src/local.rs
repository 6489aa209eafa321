//! A page for one person on this machine. It is served on 127.0.0.1 under a path that nobody can
//! guess, and what it says goes to one function.

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

/// The function that a page's messages go to: its answer, or one line that says what is wrong.
pub type Answer = Box<dyn FnMut(Value) -> Result<Value, String> + Send>;

/// A server for one page, which listens already.
#[derive(Debug)]
pub struct LocalPage {
    listener: TcpListener,
    token: String,
}

impl LocalPage {
    /// Listens on a free port of this machine.
    ///
    /// # Errors
    /// There is no such port.
    pub fn bind() -> Result<Self, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|source| Error::Bind { address, source })?;
        // SipHash under a key of the system's randomness.
        let key = RandomState::new();
        let token = format!("{:016x}{:016x}", key.hash_one(0), key.hash_one(1));
        Ok(Self { listener, token })
    }

    /// The address of the page.
    ///
    /// # Errors
    /// The operating system does not say.
    pub fn url(&self) -> Result<String, Error> {
        let address = self.listener.local_addr().map_err(Error::Runtime)?;
        Ok(format!("http://{address}/{}/", self.token))
    }

    /// Serves the page until it is told to stop. What the page posts to `act` next to it goes to
    /// `answer`, one message after the other.
    ///
    /// # Errors
    /// There is nothing to run on.
    pub fn run(self, page: LivePage, answer: Answer, stop: &Stop) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(Error::Runtime)?;
        let shown = move || async move { served(&page) };
        let router = Router::new()
            .route(&format!("/{}/", self.token), get(shown))
            .route(&format!("/{}/act", self.token), post(act))
            .with_state(Arc::new(Mutex::new(answer)));
        let listening = async {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let mut stopped = Box::pin(stop.reached(Phase::Draining));
            while let Some(accepted) = unless(&mut stopped, listener.accept()).await {
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let service = TowerToHyperService::new(router.clone());
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), service);
                // What goes wrong on a connection is its browser's concern alone.
                tokio::spawn(async move { _ = connection.await });
            }
            Ok(())
        };
        runtime.block_on(listening).map_err(Error::Runtime)
    }
}

/// Hands a message on. It has to be JSON by name, which no other site can send without asking.
async fn act(State(answer): State<Arc<Mutex<Answer>>>, Json(message): Json<Value>) -> Response {
    let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
    match (answer)(message) {
        Ok(value) => Json(value).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response(),
    }
}
