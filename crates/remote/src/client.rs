//! A single request to a server: no retries after failures, no redirects, no proxies from the
//! environment.

use std::time::Duration;

use beamgen_certificates::{ADVICE, Certificates, refusal};
use reqwest::Certificate;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use serde_json::Value;
use tokio::time::timeout;

use crate::address::{Address, ApiKey};
use crate::error::{Error, Failure, one_line};
use crate::reply::{Reply, said};
use crate::stream::{Completion, Until};

/// The size limit of the parts of an answer that do not grow with the request, and of a refusal, in
/// bytes.
const FRAME: usize = 64 << 10;
/// The size limit of a server's description of itself, such as a list of models, in bytes.
const ABOUT: usize = 4 << 20;
/// The longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// A request: a route and its body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// The path, with a slash at the beginning.
    pub route: &'static str,
    /// The JSON to be posted; `None` makes a GET request.
    pub body: Option<Value>,
    /// The end of a streamed answer; `None` for an answer that is not streamed.
    pub until: Option<Until>,
    /// The size limit of the answer in bytes.
    pub most_bytes: usize,
}

impl Call {
    pub(crate) fn get(route: &'static str) -> Self {
        Self {
            route,
            body: None,
            until: None,
            most_bytes: ABOUT,
        }
    }

    /// Makes a POST request; `grows` is the size limit of the parts of the answer that depend on
    /// the request.
    pub(crate) fn post(route: &'static str, body: Value, grows: usize) -> Self {
        Self {
            route,
            body: Some(body),
            until: None,
            most_bytes: FRAME.saturating_add(grows),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// The longest wait for the first byte of an answer, which an engine sends when the step is
    /// complete.
    first_byte: Duration,
    /// The longest wait for the rest of an answer, or for the next part of a stream.
    rest: Duration,
}

impl Client {
    pub(crate) fn new(
        first_byte: Duration,
        rest: Duration,
        certificates: &Certificates,
    ) -> Result<Self, Error> {
        let trusted = certificates.own()?;
        let trusted = trusted.iter().map(|der| Certificate::from_der(der));
        let trusted: Vec<_> = trusted
            .collect::<Result<_, _>>()
            .map_err(|error| Error::Runtime(whole(&error)))?;
        // An error means that a provider is installed already. The other requests of the program
        // use ring too, so it is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            // Merged: the certificates of the system stay trusted.
            .tls_certs_merge(trusted)
            .user_agent(concat!("beamgen/", env!("CARGO_PKG_VERSION")))
            // A redirect would send the key to another address.
            .redirect(Policy::none())
            // A proxy from the environment would see prompts and keys.
            .no_proxy()
            .connect_timeout(CONNECT)
            // A search sends hundreds of requests at a time; new connections would delay each of
            // them.
            .pool_max_idle_per_host(usize::MAX)
            // Requests are small, and Nagle's algorithm would hold them back.
            .tcp_nodelay(true)
            .build()
            .map_err(|error| Error::Runtime(whole(&error)))?;
        Ok(Self {
            http,
            first_byte,
            rest,
        })
    }

    /// Makes a request and reads its answer by `read`.
    pub(crate) async fn ask<T>(
        &self,
        address: &Address,
        key: Option<&ApiKey>,
        session: &str,
        call: &Call,
        read: impl Fn(Reply<'_>) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let answer = self.send(address, key, session, call).await?;
        let read = Reply::parse(&answer).and_then(read);
        read.map_err(Failure::Answer)
    }

    /// Makes a request; returns the body of the answer. Dropping the future closes the connection,
    /// which makes the supported engines stop generating. `session` is the same for all requests of
    /// a problem, for routers that keep caches together.
    pub(crate) async fn send(
        &self,
        address: &Address,
        key: Option<&ApiKey>,
        session: &str,
        call: &Call,
    ) -> Result<Vec<u8>, Failure> {
        let Self {
            first_byte, rest, ..
        } = *self;
        let mut again = true;
        let response = loop {
            let request = self.request(address, key, session, call);
            match timeout(first_byte, request.send()).await {
                Err(_) => return Err(Failure::Silent(first_byte)),
                Ok(Err(error)) if error.is_connect() || error.is_builder() => {
                    return Err(Failure::Unreachable(unreachable(&error)));
                }
                // A server may close an idle connection at the moment when the next request is
                // sent, so the first such failure is not the server's: the request is sent again.
                Ok(Err(_)) if again => again = false,
                Ok(Err(error)) => return Err(Failure::Cut(whole(&error))),
                Ok(Ok(response)) => break response,
            }
        };
        let status = response.status();
        // Only seconds are read; the header's other form, a date, is rare.
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        if let (Some(until), true) = (&call.until, status.is_success()) {
            return streamed(response, until, call.most_bytes, rest).await;
        }
        if status.is_success() {
            return whole_body(response, call.most_bytes, rest).await;
        }
        // A refusal may be cut: only its beginning is shown.
        let (text, _) = body(response, FRAME, rest).await?;
        Err(Failure::Status {
            status: status.as_u16(),
            message: said(&text),
            retry_after,
        })
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

/// Reads a stream up to its end or to one of the strings. Each part has to come within `idle`. The
/// connection is closed when the rest is not needed.
async fn streamed(
    mut response: reqwest::Response,
    until: &Until,
    most: usize,
    idle: Duration,
) -> Result<Vec<u8>, Failure> {
    let mut completion = Completion::new(until);
    let kind = response.headers().get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        // Some servers ignore `"stream": true` and send the whole answer.
        return completion.of_whole(&whole_body(response, most, idle).await?);
    }
    let mut bytes = 0;
    loop {
        let part = timeout(idle, response.chunk()).await;
        match part.map_err(|_| incomplete(idle))? {
            Err(error) => return Err(Failure::Cut(whole(&error))),
            Ok(None) => return completion.whole(),
            Ok(Some(part)) => {
                // Counted as it comes: an endless stream must not fill the memory.
                bytes += part.len();
                if bytes > most {
                    return Err(Failure::TooLong(most));
                }
                if completion.push(&part)? {
                    return completion.whole();
                }
            }
        }
    }
}

fn incomplete(waited: Duration) -> Failure {
    Failure::Cut(format!("incomplete after {} s", waited.as_secs_f64()))
}

/// Reads a body of at most `most` bytes.
async fn whole_body(
    response: reqwest::Response,
    most: usize,
    rest: Duration,
) -> Result<Vec<u8>, Failure> {
    match body(response, most, rest).await? {
        (text, true) => Ok(text),
        (_, false) => Err(Failure::TooLong(most)),
    }
}

/// Reads the first `most` bytes of a body; returns whether that is the whole body.
async fn body(
    mut response: reqwest::Response,
    most: usize,
    rest: Duration,
) -> Result<(Vec<u8>, bool), Failure> {
    let reading = async {
        let mut text = Vec::new();
        loop {
            match response.chunk().await {
                Err(error) => return Err(Failure::Cut(whole(&error))),
                Ok(None) => return Ok((text, true)),
                Ok(Some(more)) if text.len() + more.len() > most => {
                    text.extend_from_slice(&more[..most - text.len()]);
                    return Ok((text, false));
                }
                Ok(Some(more)) => text.extend_from_slice(&more),
            }
        }
    };
    let read = timeout(rest, reading).await;
    read.map_err(|_| incomplete(rest))?
}

/// Describes why no connection was made, with a remedy for certificates.
fn unreachable(error: &reqwest::Error) -> String {
    match refusal(error) {
        Some(reason) => format!("its certificate is not trusted ({reason}); {ADVICE}"),
        None => whole(error),
    }
}

/// Returns the innermost cause of an error: reqwest's own message does not name it.
fn whole(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    one_line(&last.to_string())
}
