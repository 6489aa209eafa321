//! One request to one server: no retries, no redirects, no proxies that nobody asked for.

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

/// Bytes of an answer that do not grow with what was asked for, and those of a refusal.
const FRAME: usize = 64 << 10;
/// Bytes of what a server says of itself: a list of models with their descriptions.
const ABOUT: usize = 4 << 20;
const CONNECT: Duration = Duration::from_secs(10);

/// A route with what is sent there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// Begins with a slash.
    pub route: &'static str,
    /// What is posted as JSON; without it the route is only read.
    pub body: Option<Value>,
    /// Streamed, and read until one of these strings is in its text.
    pub until: Option<Until>,
    /// Bytes of the longest answer that is read.
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

    /// `grows` are bytes that the answer has for what is asked for, at most.
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
    /// How long to wait for the first byte of an answer, which an engine sends when the step is
    /// done.
    first_byte: Duration,
    /// How long to wait for the rest of it, or for the next part of a stream.
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
        Ok(Self {
            http,
            first_byte,
            rest,
        })
    }

    /// Makes a request, and takes what is wanted out of the answer.
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

    /// Makes a request. Dropping the future closes the connection, at which the engines that are
    /// known here stop generating. `session` is the same for all requests of a problem, for
    /// routers.
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
            return streamed(response, until, call.most_bytes, rest).await;
        }
        if status.is_success() {
            return whole_body(response, call.most_bytes, rest).await;
        }
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

/// Reads a stream up to one of the strings; each of its parts comes within `idle`. The connection
/// closes when the rest is not wanted.
async fn streamed(
    mut response: reqwest::Response,
    until: &Until,
    most: usize,
    idle: Duration,
) -> Result<Vec<u8>, Failure> {
    let mut completion = Completion::new(until);
    let kind = response.headers().get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        return completion.of_whole(&whole_body(response, most, idle).await?);
    }
    let mut bytes = 0;
    loop {
        let part = timeout(idle, response.chunk()).await;
        match part.map_err(|_| incomplete(idle))? {
            Err(error) => return Err(Failure::Cut(whole(&error))),
            Ok(None) => return completion.whole(),
            Ok(Some(part)) => {
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
    Failure::Cut(format!(
        "it was not complete after {} s",
        waited.as_secs_f64()
    ))
}

/// A body that ends within `most` bytes.
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

/// The first `most` bytes of a body, and whether that is all of it.
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
