//! Addresses of servers and keys for them.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::error::Error;

/// The address of a server: `http://HOST:PORT`, with or without `/v1` at the end.
///
/// An address without a scheme means `http` on this machine and `https` on any other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The URL without `/v1` and without a slash at the end.
    base: String,
    this_machine: bool,
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// [`Error::Address`] for an invalid URL, or for one with a user, a password or a query.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut url = if text.contains("://") {
            parse(text, text)?
        } else {
            // A local server rarely has a certificate, a remote one should have.
            let plain = parse(text, &format!("http://{text}"))?;
            if is_this_machine(&plain) {
                plain
            } else {
                parse(text, &format!("https://{text}"))?
            }
        };
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong(
                text,
                "expected http://HOST:PORT or https://HOST:PORT",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                text,
                "an address cannot contain a key: put the key into a file or the environment",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong(text, "remove everything after the path"));
        }
        // Users copy addresses with `/v1` from documentation of OpenAI clients.
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        url.set_path(&path);
        Ok(Self {
            base: url.as_str().trim_end_matches('/').to_owned(),
            this_machine: is_this_machine(&url),
        })
    }

    /// Returns the URL of a route, which begins with a slash.
    pub(crate) fn route(&self, route: &str) -> String {
        format!("{}{route}", self.base)
    }

    /// Whether a key would be sent unencrypted to another machine.
    pub(crate) fn is_open(&self) -> bool {
        !self.this_machine && self.base.starts_with("http://")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

fn parse(text: &str, url: &str) -> Result<Url, Error> {
    let url = Url::parse(url);
    url.map_err(|error| wrong(text, &format!("{error}; expected http://HOST:PORT")))
}

fn wrong(text: &str, reason: &str) -> Error {
    Error::Address {
        address: without_user(text),
        reason: reason.to_owned(),
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Hides the part of an address before `@`, which may contain a password.
fn without_user(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => text.to_owned(),
    }
}

/// A key that is sent as `Authorization: Bearer`. `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Makes a key of a text. White space around the text is removed: a file ends with a line
    /// break.
    ///
    /// # Errors
    /// [`Error::Key`] for an empty text, or for characters that an HTTP header cannot have.
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
