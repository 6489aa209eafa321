//! Where a server is, and the key that it asks for.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::error::Error;

/// The address of a server: `http://HOST:PORT`, with or without `/v1` behind it.
///
/// Without a scheme it is `http` for this machine and `https` for any other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Without a slash at its end.
    base: String,
    this_machine: bool,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`Error::Address`]: it is none, or has a name, a password or a query in it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::Address {
            address: without_user(text),
            reason: reason.to_owned(),
        };
        let parse = |text: &str| {
            Url::parse(text).map_err(|error| wrong(&format!("{error}; expected http://HOST:PORT")))
        };
        let mut url = if text.contains("://") {
            parse(text)?
        } else {
            let plain = parse(&format!("http://{text}"))?;
            if is_this_machine(&plain) {
                plain
            } else {
                parse(&format!("https://{text}"))?
            }
        };
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("expected http://HOST:PORT or https://HOST:PORT"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                "a key does not belong into an address: put it into a file or the environment",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("expected nothing behind the path"));
        }
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        url.set_path(&path);
        Ok(Self {
            base: url.as_str().trim_end_matches('/').to_owned(),
            this_machine: is_this_machine(&url),
        })
    }

    /// The address of one of the server's routes, which begins with a slash.
    pub(crate) fn route(&self, route: &str) -> String {
        format!("{}{route}", self.base)
    }

    /// Whether a key that is sent there could be read on the way.
    pub(crate) fn is_open(&self) -> bool {
        !self.this_machine && self.base.starts_with("http://")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
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

/// An address as it may be shown: what stands before `@` may be a password.
fn without_user(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, behind)) => format!("…@{behind}"),
        None => text.to_owned(),
    }
}

/// A key that is sent as `Authorization: Bearer`. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes a key, without the white space around it (a file ends in a line break).
    ///
    /// # Errors
    /// [`Error::Key`]: it is empty, or has characters that no header can have.
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
    fn a_key_is_open_on_plain_http_to_another_machine_alone() {
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
