//! Reads the JSON body of a request, with limits of size and time.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

use crate::options::Limits;
use crate::refusal::Refusal;

/// Reads the body as a JSON object.
pub(crate) async fn object(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
) -> Result<Map<String, Value>, Refusal> {
    check_type(headers)?;
    let too_large = || {
        let message = format!("the body is larger than {} bytes", limits.body_bytes);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    };
    // A body that is stated to be too large is refused before it is read. A chunked body states no
    // length, so `collect` counts as well.
    let length = headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.body_bytes as u64) {
        return Err(too_large());
    }
    let bytes = tokio::time::timeout(limits.body_time, collect(body, limits.body_bytes));
    let bytes = bytes.await.map_err(|_| {
        let message = "the body did not arrive in time: send it again, without pauses";
        Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
    })?;
    let bytes = bytes?.ok_or_else(too_large)?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
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

/// Checks that the body is `application/json`. An HTML form of another site can send plain text without
/// the browser asking first, but not this type.
fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).and_then(|t| t.to_str().ok());
    let essence = given.and_then(|given| given.split(';').next());
    let is_json = essence.is_some_and(|e| e.trim().eq_ignore_ascii_case("application/json"));
    // Nothing is unpacked: a small body could unpack to far more than the limit.
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

/// Reads all bytes; `None` if there are more than `most`.
async fn collect(mut body: Body, most: usize) -> Result<Option<Vec<u8>>, Refusal> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| {
            let message = "the body ends early or is framed wrongly";
            Refusal::input("invalid_request", message)
        })?;
        // Trailers may follow the data of a chunked body, and are ignored.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > most {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}
