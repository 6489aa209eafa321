//! Errors in the format of OpenAI's API, with headers that tell clients whether to retry.

use std::borrow::Cow;

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// The header by which OpenAI's SDKs decide. Unless it is `false`, they retry after status 408,
/// 409, 429 and 5xx.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The codes of errors, each with the cases in which it is used. Codes are labels of a metric and
/// part of the OpenAPI document.
pub(crate) const CODES: &[(&str, &str)] = &[
    ("body_too_large", "the body has too many bytes"),
    (
        "context_length_exceeded",
        "the problem does not fit into the context",
    ),
    (
        "cross_origin",
        "a web page of another site sent the request",
    ),
    (
        "deadline_exceeded",
        "the deadline passed before there was anything to show",
    ),
    ("engine_lost", "a model is lost, and the server ends"),
    ("host_not_allowed", "the Host header names another server"),
    ("invalid_api_key", "no key, or an unknown one"),
    ("invalid_json", "the body is not JSON"),
    ("invalid_request", "the request is wrong as a whole"),
    ("invalid_value", "a field has a wrong value"),
    ("method_not_allowed", "the route has another method"),
    ("model_not_found", "no preset has the name"),
    (
        "no_reward_model",
        "the route needs a reward model, and the server has none",
    ),
    ("not_found", "no such route"),
    ("queue_full", "too many requests wait"),
    (
        "reload_failed",
        "presets or keys are wrong, and the former ones stay in effect",
    ),
    (
        "reload_refused",
        "the server has no key, or nothing to read again",
    ),
    ("request_timeout", "the body did not arrive in time"),
    ("scoring_failed", "the reward model failed"),
    ("search_failed", "the search of this problem failed"),
    ("stopping", "the server stops"),
    ("unknown_field", "the server does not know a field"),
    (
        "unsupported_field",
        "the server knows a field, and does not support its value",
    ),
    ("unsupported_media_type", "the body is not application/json"),
];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    /// One of [`CODES`].
    pub code: &'static str,
    pub message: Cow<'static, str>,
    /// The name of the invalid field; `None` if no single field is invalid.
    pub param: Option<String>,
    /// The number of seconds after which the client should retry; `None` if it should not.
    pub retry_after: Option<u64>,
}

/// The maximum number of characters of a message. A message may repeat parts of the request, which
/// can be long.
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

    /// Returns a refusal with status 400 (bad request).
    pub(crate) fn input(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Returns a refusal with status 400 because of the field `param`. The message begins with the
    /// field's name.
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
        let message =
            "pages of other origins may not use this server: allow this one with --allow-origin";
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

    /// Returns the JSON body of the response.
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
            // A browser that opens the page asks the person for the key only if Basic is offered.
            let challenge = "Bearer realm=\"beamgen\", Basic realm=\"beamgen\", charset=\"UTF-8\"";
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response.extensions_mut().insert(Code(self.code));
        response
    }
}

/// The code of a refusal, attached to the response so that `gate` can count it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code(pub &'static str);
