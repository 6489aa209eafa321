//! Reads the JSON body of a request, with limits of size and time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::options::Limits;
use crate::refusal::Refusal;

/// The number of bodies above [`Limits::body_bytes`] that may be in memory at the same time.
const MOST_LARGE: usize = 4;

/// Limits the number of large bodies in memory.
pub(crate) struct LargeBodies(Arc<Semaphore>);

impl Default for LargeBodies {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_LARGE)))
    }
}

/// The body of a request for scores, in bytes.
pub(crate) struct ChainsBody {
    pub bytes: Vec<u8>,
    /// The place of a large body among [`MOST_LARGE`], held while its texts are in memory; `None`
    /// for a small one.
    pub turn: Option<OwnedSemaphorePermit>,
}

/// Reads the body as a JSON object of up to [`Limits::body_bytes`].
pub(crate) async fn object(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
) -> Result<Map<String, Value>, Refusal> {
    check(headers, limits.body_bytes)?;
    let mut bytes = Vec::new();
    let mut body = Arriving::new(body, limits.body_time);
    while let Some(data) = body.next().await? {
        if bytes.len() + data.len() > limits.body_bytes {
            return Err(too_large(limits.body_bytes));
        }
        bytes.extend_from_slice(&data);
    }
    parsed(&bytes)
}

/// Reads the body of a request for scores. A body above [`Limits::body_bytes`] is read on only when
/// one of [`MOST_LARGE`] places is free; the wait does not count as time of the body.
pub(crate) async fn of_chains(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
    large: &LargeBodies,
) -> Result<ChainsBody, Refusal> {
    let most = limits.score_body_bytes;
    check(headers, most)?;
    let (mut bytes, mut turn) = (Vec::new(), None);
    let mut body = Arriving::new(body, limits.body_time);
    while let Some(data) = body.next().await? {
        if bytes.len() + data.len() > most {
            return Err(too_large(most));
        }
        if turn.is_none() && bytes.len() + data.len() > limits.body_bytes {
            let waited = Instant::now();
            let mine = Arc::clone(&large.0).acquire_owned();
            let mine = tokio::time::timeout(limits.search_time, mine).await;
            turn = mine.ok().and_then(Result::ok);
            if turn.is_none() {
                let message = "other large requests are being scored: try again later";
                let status = StatusCode::TOO_MANY_REQUESTS;
                return Err(Refusal::new(status, "queue_full", message).retry_after(30));
            }
            body.until += waited.elapsed();
        }
        bytes.extend_from_slice(&data);
    }
    Ok(ChainsBody { bytes, turn })
}

pub(crate) fn parsed(bytes: &[u8]) -> Result<Map<String, Value>, Refusal> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("the body is not JSON: {error}");
        Refusal::input("invalid_json", message)
    })?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Refusal::input(
            "invalid_request",
            "the body is not a JSON object: send one",
        )),
    }
}

fn too_large(most: usize) -> Refusal {
    let message = format!("the body is larger than {most} bytes: send less");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}

/// Checks type and encoding of the body, and the length that the headers announce.
fn check(headers: &HeaderMap, most: usize) -> Result<(), Refusal> {
    check_type(headers)?;
    let length = headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > most as u64) {
        return Err(too_large(most));
    }
    Ok(())
}

/// Checks that the body has the type `application/json`. A web page of another site can send forms
/// and plain text without the browser asking this server first, but not this type.
fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).and_then(|t| t.to_str().ok());
    let essence = given.and_then(|given| given.split(';').next());
    let is_json = essence.is_some_and(|e| e.trim().eq_ignore_ascii_case("application/json"));
    let coding = headers.get(CONTENT_ENCODING);
    let is_plain = coding.is_none_or(|c| c.as_bytes().eq_ignore_ascii_case(b"identity"));
    if is_json && is_plain {
        Ok(())
    } else {
        Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "unsupported type of the body: send application/json, without a Content-Encoding",
        ))
    }
}

/// A body with a time limit.
struct Arriving {
    body: Body,
    until: Instant,
}

impl Arriving {
    fn new(body: Body, within: Duration) -> Self {
        let until = Instant::now() + within;
        Self { body, until }
    }

    /// Returns the next piece of the body; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx));
            let frame = tokio::time::timeout_at(self.until.into(), frame).await;
            let frame = frame.map_err(|_| {
                let message = "the body did not arrive in time: send it again, without pauses";
                Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
            })?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|_| {
                let message = "the body ends early or is framed wrongly";
                Refusal::input("invalid_request", message)
            })?;
            // A frame without data holds trailers, which are skipped.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}
