//! Cross-origin resource sharing (CORS): the web pages of other origins that may use the server,
//! and the headers that tell browsers so.

use std::fmt;
use std::str::FromStr;

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

/// An origin whose pages may use the server, such as `https://example.org:8000`, or `*` for every
/// page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

/// The reason why a text is not an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an origin: write scheme://host or scheme://host:port, without a path, or *")]
#[non_exhaustive]
pub struct OriginError;

/// The text that stands for all origins.
const EVERY: &str = "*";

/// The maximum length of the list of header names in a preflight request, in bytes.
const MOST_NAMES: usize = 2048;

/// The number of seconds for which a browser may cache the answer to a preflight request.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// The headers of an answer that scripts may read, besides those that browsers always allow. The
/// SDKs read the last two after an error.
const READABLE: HeaderValue = HeaderValue::from_static("X-Request-ID, Retry-After, X-Should-Retry");

impl Origin {
    /// Whether the origin is `*`.
    pub fn is_every(&self) -> bool {
        self.0 == EVERY
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    /// Converts the text to the form that browsers send: in lower case, and without the default
    /// port of the scheme.
    fn from_str(text: &str) -> Result<Self, OriginError> {
        if text == EVERY {
            return Ok(Self(EVERY.to_owned()));
        }
        let text = text.to_ascii_lowercase();
        let (scheme, rest) = text.split_once("://").ok_or(OriginError)?;
        let mut letters = scheme.bytes();
        let is_scheme = letters
            .next()
            .is_some_and(|first| first.is_ascii_lowercase())
            && letters.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        let authority: Authority = rest.parse().map_err(|_| OriginError)?;
        let port = authority.port_u16();
        let host = authority.host();
        let whole = match port {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        // `whole` is the text built again from host and port. It differs if the text has more than
        // these, such as a user's name, or an invalid port.
        if !is_scheme || host.is_empty() || host.contains('*') || whole != rest {
            return Err(OriginError);
        }
        let usual = match scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        let shown = if port == usual { host } else { rest };
        Ok(Self(format!("{scheme}://{shown}")))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the value of `Access-Control-Allow-Origin` for a page with the origin `page`; `None` if
/// the page is not allowed.
pub(crate) fn allowed(origins: &[Origin], page: &HeaderValue) -> Option<HeaderValue> {
    if origins.iter().any(Origin::is_every) {
        return Some(HeaderValue::from_static(EVERY));
    }
    let is_allowed = origins.iter().any(|origin| *page == *origin.0);
    is_allowed.then(|| page.clone())
}

/// Whether a request is a preflight request, by which a browser asks whether a page may send the
/// actual one.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the answer to the preflight request of an allowed page. All headers that it names are
/// allowed: the SDKs send many, and the server reads few of them.
pub(crate) fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answer = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST");
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    answer.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    let asked = headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
    if let Some(asked) = asked.filter(|asked| are_names(asked)) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    response
}

/// Whether a value is a list of header names within [`MOST_NAMES`] bytes.
fn are_names(value: &HeaderValue) -> bool {
    let text = value.to_str().unwrap_or_default();
    let mut names = text.split(',').map(str::trim);
    text.len() <= MOST_NAMES && names.all(|name| HeaderName::from_str(name).is_ok())
}

/// Adds the CORS headers to an answer. `page` is the value of `Access-Control-Allow-Origin`.
pub(crate) fn open(response: &mut Response, page: Option<HeaderValue>) {
    let headers = response.headers_mut();
    // A cache must not give the answer for one origin to another, nor to a request without an
    // origin.
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(page) = page {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READABLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_what_browsers_send() {
        for (text, shown) in [
            ("http://localhost:3000", "http://localhost:3000"),
            ("HTTPS://App.Example", "https://app.example"),
            ("https://app.example:443", "https://app.example"),
            ("http://app.example:80", "http://app.example"),
            ("http://app.example:443", "http://app.example:443"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("tauri://localhost", "tauri://localhost"),
            ("app://obsidian.md", "app://obsidian.md"),
            ("*", "*"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "null",
            "localhost",
            "localhost:3000",
            "//localhost",
            "://localhost",
            "1http://localhost",
            "http://",
            "http://:80",
            "http://localhost/",
            "http://localhost/app",
            "http://localhost?x",
            "http://me@localhost",
            "http://localhost:",
            "http://localhost:x",
            "http://localhost:99999",
            "http://*.example",
            "http://a b",
            " http://localhost",
            "http://localhost ",
            "**",
        ] {
            assert_eq!(text.parse::<Origin>(), Err(OriginError), "{text}");
        }
    }

    #[test]
    fn header_names_are_repeated_within_bounds() {
        let names = |text: &str| are_names(&HeaderValue::from_str(text).unwrap());
        assert!(names("authorization,content-type, x-stainless-lang"));
        assert!(!names("authorization,,content-type"));
        assert!(!names("a b"));
        assert!(!names(""));
        assert!(!names(&"a,".repeat(MOST_NAMES)));
    }
}
