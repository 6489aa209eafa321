//! Sends single requests to servers: without retries after failures, redirects or proxies of the
//! environment.

use std::sync::Arc;
use std::time::Duration;

use beamgen_certificates::{ADVICE, Certificates, refusal};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::time::timeout;

use crate::address::{Address, ApiKey};
use crate::error::{Error, Failure, one_line};
use crate::reply::{Reply, said};
use crate::stream::{Completion, Until};

/// The size limit, in bytes, of a refusal, and of the parts of an answer whose size does not depend
/// on the request.
const FRAME: usize = 64 << 10;
/// The size limit, in bytes, of a server's description of itself, such as a list of models.
const ABOUT: usize = 4 << 20;
/// The longest wait until a connection is made.
const CONNECT: Duration = Duration::from_secs(10);
/// The time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);

/// A request: its route, its body, and the limits of its answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// The path, which begins with a slash.
    pub route: &'static str,
    /// The JSON to send by POST; `None` makes a GET request.
    pub body: Option<Value>,
    /// The conditions that end a streamed answer; `None` if the answer is not streamed.
    pub until: Option<Until>,
    /// The size limit of the answer, in bytes.
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

    /// Makes a POST request. `grows` is the size limit, in bytes, of the parts of the answer whose
    /// size depends on the request.
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
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The longest wait for the first byte of an answer. Engines send that byte when the whole step
    /// is sampled.
    first_byte: Duration,
    /// The longest wait for the rest of an answer, or for the next piece of a stream.
    rest: Duration,
}

impl Client {
    pub(crate) fn new(
        first_byte: Duration,
        rest: Duration,
        certificates: &Certificates,
    ) -> Result<Self, Error> {
        let mut trusted = RootCertStore::empty();
        // The system may have certificates that `rustls` rejects; the others are used.
        trusted.add_parsable_certificates(certificates.all()?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Runtime(error.to_string()))?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        // The HTTPS connector uses this one and passes addresses with https to it.
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT));
        // Nagle's algorithm would delay requests, which are small.
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        // A search sends hundreds of requests at once. The pool keeps as many connections as were
        // needed at the same time, since each new connection would delay its request.
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self {
            http,
            first_byte,
            rest,
        })
    }

    /// Sends a request and returns its answer, as read by `read`.
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
        read.map_err(|fault| Failure::Answer(fault).without(key.map(ApiKey::expose)))
    }

    /// Sends a request and returns the body of the answer. Dropping the future closes the
    /// connection; the supported engines then stop generating. `session` is the same for all
    /// requests of a problem, for routers that send requests with a common prefix to one server.
    pub(crate) async fn send(
        &self,
        address: &Address,
        key: Option<&ApiKey>,
        session: &str,
        call: &Call,
    ) -> Result<Vec<u8>, Failure> {
        let sent = self.exchange(address, key, session, call).await;
        sent.map_err(|failure| failure.without(key.map(ApiKey::expose)))
    }

    async fn exchange(
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
            let request = request(address, key, session, call)?;
            match timeout(first_byte, self.http.request(request)).await {
                Err(_) => return Err(Failure::Silent(first_byte)),
                Ok(Err(error)) if error.is_connect() => {
                    return Err(Failure::Unreachable(unreachable(&error)));
                }
                // A server may close an idle connection just when the next request is sent. So the
                // request is sent again once, without counting a failure.
                Ok(Err(_)) if again => again = false,
                Ok(Err(error)) => return Err(Failure::Cut(innermost(&error))),
                Ok(Ok(response)) => break response,
            }
        };
        let status = response.status();
        // The header may also contain a date, but that is rare and ignored.
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
        // The beginning of a refusal is enough for the message.
        let (text, _) = body(response, FRAME, rest).await?;
        Err(Failure::Status {
            status: status.as_u16(),
            message: said(&text),
            retry_after,
        })
    }
}

fn request(
    address: &Address,
    key: Option<&ApiKey>,
    session: &str,
    call: &Call,
) -> Result<Request<Full<Bytes>>, Failure> {
    let (method, body) = match &call.body {
        None => (Method::GET, String::new()),
        Some(body) => (Method::POST, body.to_string()),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(address.route(call.route))
        .header(USER_AGENT, concat!("beamgen/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "application/json, text/event-stream")
        .header("X-Session-ID", session)
        .header("X-SMG-Routing-Key", session);
    if call.body.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    if let Some(key) = key {
        request = request.header(AUTHORIZATION, format!("Bearer {}", key.expose()));
    }
    let request = request.body(Full::new(body.into()));
    request.map_err(|error| Failure::Unreachable(error.to_string()))
}

/// Returns the next bytes of a body; `None` at the end of the body.
async fn chunk(body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
    while let Some(frame) = body.frame().await {
        match frame {
            Err(error) => return Err(Failure::Cut(innermost(&error))),
            // The other kind of frame contains trailers, which no engine sends.
            Ok(frame) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
    Ok(None)
}

/// Reads a stream up to its end or to one of the strings in `until`. Each piece must arrive within
/// `idle`. The connection is closed when the rest is not needed.
async fn streamed(
    response: Response<Incoming>,
    until: &Until,
    most: usize,
    idle: Duration,
) -> Result<Vec<u8>, Failure> {
    let mut completion = Completion::new(until);
    let kind = response.headers().get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        // Some servers ignore `"stream": true` and send the whole answer as JSON.
        return completion.of_whole(&whole_body(response, most, idle).await?);
    }
    let mut body = response.into_body();
    let mut bytes = 0;
    loop {
        let part = timeout(idle, chunk(&mut body)).await;
        match part.map_err(|_| incomplete(idle))?? {
            None => return completion.whole(),
            Some(part) => {
                // Counted while it arrives: an endless stream must not fill the memory.
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

/// Reads a body; an error if it has more than `most` bytes.
async fn whole_body(
    response: Response<Incoming>,
    most: usize,
    rest: Duration,
) -> Result<Vec<u8>, Failure> {
    match body(response, most, rest).await? {
        (text, true) => Ok(text),
        (_, false) => Err(Failure::TooLong(most)),
    }
}

/// Reads at most the first `most` bytes of a body, and returns whether that is the whole body.
async fn body(
    response: Response<Incoming>,
    most: usize,
    rest: Duration,
) -> Result<(Vec<u8>, bool), Failure> {
    let mut body = response.into_body();
    let reading = async {
        let mut text = Vec::new();
        while let Some(more) = chunk(&mut body).await? {
            if text.len() + more.len() > most {
                text.extend_from_slice(&more[..most - text.len()]);
                return Ok((text, false));
            }
            text.extend_from_slice(&more);
        }
        Ok((text, true))
    };
    let read = timeout(rest, reading).await;
    read.map_err(|_| incomplete(rest))?
}

/// Describes why no connection was made, with advice about certificates.
fn unreachable(error: &legacy::Error) -> String {
    match refusal(error) {
        Some(reason) => format!("its certificate is not trusted ({reason}); {ADVICE}"),
        None => innermost(error),
    }
}

/// Returns the message of the innermost cause: outer messages do not name it.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    one_line(&last.to_string())
}
