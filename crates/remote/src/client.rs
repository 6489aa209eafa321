//! One request to one server: no retries, no redirects, no proxies that nobody asked for.

use std::time::Duration;

use beamgen_certificates::{ADVICE, Certificates, refusal};
use reqwest::Certificate;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use serde_json::Value;
use tokio::time::timeout;

use crate::address::{Address, ApiKey};
use crate::error::{Error, Failure, one_line, said};
use crate::stream::Completion;

/// The largest answer that is read, in bytes.
const MOST_BYTES: usize = 64 << 20;
const CONNECT: Duration = Duration::from_secs(10);

/// A route with what is sent there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// Begins with a slash.
    pub route: &'static str,
    /// What is posted as JSON; without it the route is only read.
    pub body: Option<Value>,
    /// Streamed, and read until one of these strings is in its text.
    pub until: Option<Vec<String>>,
}

impl Call {
    pub fn get(route: &'static str) -> Self {
        Self {
            route,
            body: None,
            until: None,
        }
    }

    pub fn post(route: &'static str, body: Value) -> Self {
        Self {
            route,
            body: Some(body),
            until: None,
        }
    }
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// For the first byte of an answer, which an engine sends when the step is done.
    pub first_byte: Duration,
    /// For the rest of it, or for the next part of a stream.
    pub rest: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    patience: Patience,
}

impl Client {
    pub fn new(patience: Patience, certificates: &Certificates) -> Result<Self, Error> {
        let trusted = certificates.own()?;
        let trusted = trusted.iter().map(|der| Certificate::from_der(der));
        let trusted: Vec<_> = trusted
            .collect::<Result<_, _>>()
            .map_err(|error| Error::Runtime(whole(&error)))?;
        // Whoever was first has chosen the same: the program's other requests are ring's, too.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            // The system's are trusted, too.
            .tls_certs_merge(trusted)
            .user_agent(concat!("beamgen/", env!("CARGO_PKG_VERSION")))
            // A key goes where it was meant to go, and nowhere else.
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(usize::MAX)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| Error::Runtime(whole(&error)))?;
        Ok(Self { http, patience })
    }

    /// Makes a request. Dropping the future closes the connection, at which the engines that are
    /// known here stop generating. `session` is the same for all requests of a problem, for
    /// routers.
    pub async fn send(
        &self,
        address: &Address,
        key: Option<&ApiKey>,
        session: &str,
        call: &Call,
    ) -> Result<Value, Failure> {
        let Patience { first_byte, rest } = self.patience;
        let mut again = true;
        let response = loop {
            let request = self.request(address, key, session, call);
            match timeout(first_byte, request.send()).await {
                Err(_) => return Err(Failure::Silent(first_byte)),
                Ok(Err(error)) if error.is_connect() || error.is_builder() => {
                    return Err(Failure::Unreachable(unreachable(&error)));
                }
                // A server may close a connection that was kept for the next request, just as that
                // is sent.
                Ok(Err(_)) if again => again = false,
                Ok(Err(error)) => return Err(Failure::Cut(whole(&error))),
                Ok(Ok(response)) => break response,
            }
        };
        let status = response.status();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        if let (Some(until), true) = (&call.until, status.is_success()) {
            return streamed(response, until, rest).await;
        }
        let text = match timeout(rest, body(response)).await {
            Err(_) => return Err(incomplete(rest)),
            Ok(text) => text?,
        };
        if !status.is_success() {
            return Err(Failure::Status {
                status: status.as_u16(),
                message: said(&text),
                retry_after,
            });
        }
        parsed(&text)
    }

    fn request(
        &self,
        address: &Address,
        key: Option<&ApiKey>,
        session: &str,
        call: &Call,
    ) -> reqwest::RequestBuilder {
        let url = address.route(call.route);
        let request = match &call.body {
            None => self.http.get(url),
            Some(body) => self
                .http
                .post(url)
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string()),
        };
        let request = request
            .header(ACCEPT, "application/json, text/event-stream")
            .header("X-Session-ID", session)
            .header("X-SMG-Routing-Key", session);
        match key {
            Some(key) => request.header(AUTHORIZATION, format!("Bearer {}", key.expose())),
            None => request,
        }
    }
}

fn parsed(text: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(text).map_err(|error| {
        let text = one_line(&String::from_utf8_lossy(text));
        Failure::Answer(format!("{error}: {text:?}"))
    })
}

/// Reads a stream up to one of the strings; each of its parts comes within `idle`. The connection
/// closes when the rest is not wanted.
async fn streamed(
    mut response: reqwest::Response,
    until: &[String],
    idle: Duration,
) -> Result<Value, Failure> {
    let mut completion = Completion::new(until);
    let kind = response.headers().get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        let text = timeout(idle, body(response)).await;
        let text = text.map_err(|_| incomplete(idle))??;
        return completion.of_whole(&parsed(&text)?);
    }
    let mut bytes = 0;
    loop {
        let part = timeout(idle, response.chunk()).await;
        match part.map_err(|_| incomplete(idle))? {
            Err(error) => return Err(Failure::Cut(whole(&error))),
            Ok(None) => return completion.whole(),
            Ok(Some(part)) => {
                bytes += part.len();
                if bytes > MOST_BYTES {
                    return Err(too_long());
                }
                if completion.push(&part)? {
                    return completion.whole();
                }
            }
        }
    }
}

fn incomplete(waited: Duration) -> Failure {
    Failure::Cut(format!(
        "it was not complete after {} s",
        waited.as_secs_f64()
    ))
}

fn too_long() -> Failure {
    Failure::Answer(format!("it has more than {MOST_BYTES} bytes"))
}

async fn body(mut response: reqwest::Response) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    loop {
        match response.chunk().await {
            Err(error) => return Err(Failure::Cut(whole(&error))),
            Ok(None) => return Ok(text),
            Ok(Some(more)) if text.len() + more.len() > MOST_BYTES => return Err(too_long()),
            Ok(Some(more)) => text.extend_from_slice(&more),
        }
    }
}

/// Why there is no connection, and what helps if it is a certificate.
fn unreachable(error: &reqwest::Error) -> String {
    match refusal(error) {
        Some(reason) => format!("its certificate is not trusted ({reason}); {ADVICE}"),
        None => whole(error),
    }
}

/// An error with its causes: reqwest's own says little.
fn whole(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    one_line(&last.to_string())
}
