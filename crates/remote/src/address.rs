//! Addresses of servers, and keys to them.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;
use hyper::http::uri::Authority;

use crate::error::Error;

/// The advice for an address that cannot be read.
const EXPECTED: &str = "expected http://HOST:PORT or https://HOST:PORT";

/// The address of a server: `http://HOST:PORT`, with or without `/v1` at its end.
///
/// Without a scheme it is `http` for this machine and `https` for any other machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The URL without `/v1` and without a slash at its end.
    base: String,
    this_machine: bool,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`Error::Address`] if the URL is invalid or has a user, a password or a query.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
            None => (None, text),
        };
        // `Uri` drops a fragment silently, so it is refused here.
        if rest.contains(['?', '#']) {
            return Err(wrong(text, "remove everything after the path"));
        }
        let uri: Uri = format!("http://{rest}")
            .parse()
            .map_err(|error| wrong(text, &format!("{error}; {EXPECTED}")))?;
        let authority = uri
            .authority()
            .filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| wrong(text, EXPECTED))?;
        // `Uri` accepts any text as the port and reads it as a number only later.
        if authority.port().is_none() && !authority.as_str().ends_with(authority.host()) {
            return Err(wrong(text, EXPECTED));
        }
        if authority.as_str().contains('@') {
            return Err(wrong(
                text,
                "an address cannot contain a key: put the key into a file or the environment",
            ));
        }
        let this_machine = is_this_machine(authority);
        let scheme = match scheme.as_deref() {
            Some(scheme @ ("http" | "https")) => scheme,
            Some(_) => return Err(wrong(text, EXPECTED)),
            // A server on this machine rarely has a certificate, a remote one should have one.
            None if this_machine => "http",
            None => "https",
        };
        // Addresses that users copy from the documentation of OpenAI clients end with `/v1`.
        let path = uri.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path);
        let host = authority.as_str().to_ascii_lowercase();
        Ok(Self {
            base: format!("{scheme}://{host}{path}")
                .trim_end_matches('/')
                .to_owned(),
            this_machine,
        })
    }

    /// Returns the URL of a route; `route` begins with a slash.
    pub(crate) fn route(&self, route: &str) -> String {
        format!("{}{route}", self.base)
    }

    /// Whether a request to this address would carry a key unencrypted to another machine.
    pub(crate) fn is_open(&self) -> bool {
        !self.this_machine && self.base.starts_with("http://")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

fn wrong(text: &str, reason: &str) -> Error {
    Error::Address {
        address: without_user(text),
        reason: reason.to_owned(),
    }
}

fn is_this_machine(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let ip = bare.parse::<IpAddr>();
    ip.map_or(host.eq_ignore_ascii_case("localhost"), |ip| {
        ip.is_loopback()
    })
}

/// Hides the part of an address before `@`, since it may contain a password.
fn without_user(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => text.to_owned(),
    }
}

/// A key that is sent in the header `Authorization: Bearer`. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Makes a key from a text. White space around it is removed, such as the line break at the end
    /// of a file.
    ///
    /// # Errors
    /// [`Error::Key`] if the text is empty or has characters that an HTTP header cannot have.
    pub fn new(key: &str) -> Result<Self, Error> {
        let key = key.trim();
        if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(key.to_owned()))
        } else {
            Err(Error::Key)
        }
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, base) in [
            ("http://localhost:8000", "http://localhost:8000"),
            ("http://localhost:8000/", "http://localhost:8000"),
            ("http://localhost:8000/v1/", "http://localhost:8000"),
            ("https://gpu.example/llm/v1", "https://gpu.example/llm"),
            ("localhost:8000", "http://localhost:8000"),
            ("127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("[::1]:8000", "http://[::1]:8000"),
            ("gpu.example:8000", "https://gpu.example:8000"),
            ("HTTP://GPU.example/LLM", "http://gpu.example/LLM"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), base, "{text}");
        }
        let route = Address::parse("http://h/v1").unwrap().route("/v1/models");
        assert_eq!(route, "http://h/v1/models");
        for text in [
            "",
            "ftp://h",
            "http://",
            "http://h?x=1",
            "http://h#x",
            "http://h:port",
            "http:///v1",
            "two words",
            "http://u:secret@h",
            "unix:///x",
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_key_is_open_only_on_plain_http_to_another_machine() {
        for (text, open) in [
            ("http://10.0.0.1:8000", true),
            ("https://10.0.0.1:8000", false),
            ("http://127.0.0.1:8000", false),
        ] {
            assert_eq!(Address::parse(text).unwrap().is_open(), open, "{text}");
        }
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = ApiKey::new(" sk-secret\n").unwrap();
        assert_eq!(key.expose(), "sk-secret");
        assert!(!format!("{key:?}").contains("secret"));
        for key in ["", " \n", "two words", "sk-é"] {
            assert!(ApiKey::new(key).is_err());
        }
    }
}
