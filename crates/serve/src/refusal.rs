//! Errors in the format of OpenAI's API, with a hint whether to retry.

use std::borrow::Cow;

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A header for OpenAI's SDKs, which retry after 408, 409, 429 and 5xx unless it is `false`.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// An error answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    /// The code, from a fixed list, since it is also the label of a metric.
    pub code: &'static str,
    pub message: Cow<'static, str>,
    /// The name of the field at fault.
    pub param: Option<String>,
    /// The seconds after which the client should retry, if it should.
    pub retry_after: Option<u64>,
}

/// The most characters of a message, which may repeat parts of the request.
const LONGEST_MESSAGE: usize = 400;

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            param: None,
            retry_after: None,
        }
    }

    /// Returns a refusal with status 400.
    pub(crate) fn input(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Returns a refusal because of a field. The message begins with the field's name.
    pub(crate) fn field(code: &'static str, param: impl Into<String>, reason: &str) -> Self {
        let param = param.into();
        Self {
            param: Some(param.clone()),
            ..Self::input(code, format!("{param}: {reason}"))
        }
    }

    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn host() -> Self {
        let message = "the Host header is not a name of this server: add it with --host-name";
        Self::new(StatusCode::MISDIRECTED_REQUEST, "host_not_allowed", message)
    }

    pub(crate) fn cross_origin() -> Self {
        let message = "pages of other origins may not use this server";
        Self::new(StatusCode::FORBIDDEN, "cross_origin", message)
    }

    pub(crate) fn key(message: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }

    pub(crate) fn stopping() -> Self {
        let message = "the server is stopping and takes no more requests";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message).retry_after(5)
    }

    pub(crate) fn engine_lost() -> Self {
        let message = "a model is lost, so the server is ending";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "engine_lost", message)
    }

    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 | 421 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// Returns the JSON object of the answer.
    pub(crate) fn body(&self) -> Value {
        let mut message: String = self.message.chars().take(LONGEST_MESSAGE).collect();
        message = message.replace(['\n', '\r'], " ");
        json!({"error": {
            "message": message,
            "type": self.kind(),
            "param": self.param,
            "code": self.code,
        }})
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        match self.retry_after {
            Some(seconds) => headers.insert(RETRY_AFTER, seconds.into()),
            None => headers.insert(SHOULD_RETRY, HeaderValue::from_static("false")),
        };
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = "Bearer realm=\"beamgen\", Basic realm=\"beamgen\", charset=\"UTF-8\"";
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response.extensions_mut().insert(Code(self.code));
        response
    }
}

/// The code of a refusal, attached to the response for the metrics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code(pub &'static str);
