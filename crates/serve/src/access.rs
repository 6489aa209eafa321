//! Access checks: API keys, host names that requests may use, and origins of web pages.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Uri};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::origins::{Origin, allowed};
use crate::refusal::Refusal;

/// An API key. Only its SHA-256 digest is in memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// The reason why a text cannot be an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is so short that it could be guessed.
    #[error("too short for a key: use at least {} characters", Key::SHORTEST)]
    TooShort,
    /// The text has characters that a header cannot contain.
    #[error("not a key: use visible ASCII characters only")]
    Unprintable,
}

impl Key {
    /// The minimum length of a key, in characters.
    pub const SHORTEST: usize = 16;

    /// Whether `given` is the key. The comparison takes the same time wherever two digests differ,
    /// so its duration tells an attacker nothing.
    fn is(&self, given: &[u8]) -> Choice {
        digest(given).ct_eq(&self.0)
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeyError::Unprintable);
        }
        if text.len() < Self::SHORTEST {
            Err(KeyError::TooShort)
        } else {
            Ok(Self(digest(text.as_bytes())))
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Checks that do not depend on the route.
#[derive(Debug)]
pub(crate) struct Access {
    host_names: Vec<String>,
    origins: Vec<Origin>,
}

impl Access {
    pub(crate) fn new(host_names: &[String], origins: Vec<Origin>) -> Self {
        let host_names = host_names.iter().map(|name| name.to_ascii_lowercase());
        Self {
            host_names: host_names.collect(),
            origins,
        }
    }

    /// Whether pages of other origins may use the server.
    pub(crate) fn has_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Checks the Host header against DNS rebinding. The author of a web page can make a domain
    /// resolve to this machine, but the browser then sends that domain as Host. IP addresses are
    /// always allowed.
    pub(crate) fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = host(headers)?;
        let in_uri = uri.authority().cloned();
        for authority in in_uri.iter().chain([&host]) {
            let name = authority.host().to_ascii_lowercase();
            let bare = name.trim_start_matches('[').trim_end_matches(']');
            let known = name == "localhost"
                || bare.parse::<IpAddr>().is_ok()
                || self.host_names.contains(&name);
            if !known {
                return Err(Refusal::host());
            }
        }
        Ok(())
    }

    /// Checks the Origin header, in which a browser names the origin of the page that sends a
    /// request. Returns `None` without the header and for a page of this server. For an allowed
    /// page of another origin, returns the value of `Access-Control-Allow-Origin`; other pages are
    /// refused.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else {
            return Ok(None);
        };
        if origins.next().is_some() {
            return Err(Refusal::cross_origin());
        }
        let uri = origin.to_str().ok().and_then(|o| o.parse::<Uri>().ok());
        let of_page = uri.as_ref().and_then(Uri::authority);
        if of_page.is_some_and(|page| host(headers).is_ok_and(|own| *page == own)) {
            return Ok(None);
        }
        let allowed = allowed(&self.origins, origin);
        allowed.map(Some).ok_or_else(Refusal::cross_origin)
    }
}

/// Checks the key of a request, which is a bearer token or, for browsers, the password of Basic
/// authentication. If `keys` is empty, every request passes.
pub(crate) fn check_key(keys: &[Key], headers: &HeaderMap) -> Result<(), Refusal> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return Err(Refusal::key(
            "no API key was sent: send one as a bearer token",
        ));
    };
    let key = key_of(value.as_bytes())
        .ok_or_else(|| Refusal::key("no API key was sent: send one as a bearer token"))?;
    let known = keys.iter().map(|known| known.is(&key));
    if bool::from(known.fold(Choice::from(0), |any, this| any | this)) {
        Ok(())
    } else {
        Err(Refusal::key("unknown API key: use a key of this server"))
    }
}

/// Checks the key of a request from a page of another origin, which must be a bearer token. A
/// browser adds a remembered Basic password to the requests of any page, but only the page's own
/// script can add a bearer token.
pub(crate) fn check_key_of_page(keys: &[Key], headers: &HeaderMap) -> Result<(), Refusal> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let is_basic = |value: &HeaderValue| {
        let scheme = value.as_bytes().get(..5);
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic"))
    };
    if !keys.is_empty() && given.any(is_basic) {
        return Err(Refusal::key(
            "a page of another origin cannot use a password: send the API key as a bearer token",
        ));
    }
    check_key(keys, headers)
}

fn host(headers: &HeaderMap) -> Result<Authority, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Refusal::host());
    };
    let host = host.to_str().ok().filter(|host| !host.contains('@'));
    host.and_then(|host| host.parse().ok())
        .ok_or_else(Refusal::host)
}

fn key_of(value: &[u8]) -> Option<Vec<u8>> {
    let at = value.iter().position(|&byte| byte == b' ')?;
    let (scheme, rest) = (&value[..at], value[at..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    if scheme.eq_ignore_ascii_case(b"basic") {
        let pair = BASE64_STANDARD.decode(rest).ok()?;
        let colon = pair.iter().position(|&byte| byte == b':')?;
        return Some(pair[colon + 1..].to_vec());
    }
    None
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn a_name_that_nobody_gave_the_server_is_refused_and_an_address_is_not() {
        let access = Access::new(&["Solver.example".to_owned()], Vec::new());
        let check = |uri: &str, host: &str| {
            access
                .check_host(&uri.parse().unwrap(), &headers(&[(HOST, host)]))
                .is_ok()
        };
        for host in [
            "localhost:8080",
            "LOCALHOST",
            "127.0.0.1:1",
            "[::1]:8080",
            "192.168.1.5",
            "solver.example",
        ] {
            assert!(check("/v1/models", host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:8080",
            "127.0.0.1.evil.example",
            "user@localhost",
            "",
            "[::1",
            "a b",
        ] {
            assert!(!check("/v1/models", host), "{host}");
        }
        assert!(!check("http://evil.example/v1/models", "localhost"));
        let twice = headers(&[(HOST, "localhost"), (HOST, "localhost")]);
        assert!(access.check_host(&"/".parse().unwrap(), &twice).is_err());
        assert!(
            access
                .check_host(&"/".parse().unwrap(), &headers(&[]))
                .is_err()
        );
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let access = Access::new(&[], Vec::new());
        let check = |origin: &str| {
            let lines = [(HOST, "localhost:8080"), (ORIGIN, origin)];
            access.check_origin(&headers(&lines)).is_ok()
        };
        assert!(check("http://localhost:8080"));
        for origin in [
            "http://localhost:9090",
            "http://evil.example",
            "null",
            "",
            "localhost:8080.evil.example",
        ] {
            assert!(!check(origin), "{origin}");
        }
        assert!(access.check_origin(&headers(&[])).is_ok());
    }

    #[test]
    fn an_allowed_origin_is_named_and_no_other_one_with_it() {
        let access = Access::new(&[], vec!["https://App.example:443".parse().unwrap()]);
        let check = |origins: &[&str]| {
            let mut lines = vec![(HOST, "localhost:8080")];
            lines.extend(origins.iter().map(|origin| (ORIGIN, *origin)));
            access.check_origin(&headers(&lines))
        };
        let named = check(&["https://app.example"]).unwrap();
        assert_eq!(named.unwrap(), "https://app.example");
        assert_eq!(check(&["http://localhost:8080"]), Ok(None));
        assert_eq!(check(&[]), Ok(None));
        for origins in [
            &["http://app.example"][..],
            &["https://app.example:8443"],
            &["https://app.example.evil.example"],
            &["null"],
            &["https://app.example", "https://app.example"],
        ] {
            assert!(check(origins).is_err(), "{origins:?}");
        }
    }

    #[test]
    fn a_key_opens_as_bearer_and_as_basic_and_nothing_else_does() {
        let keys = ["correct-horse-battery", "another-long-key-42"];
        let keys: [Key; 2] = keys.map(|key| key.parse().unwrap());
        let check = |value: &str| check_key(&keys, &headers(&[(AUTHORIZATION, value)])).is_ok();
        assert!(check("Bearer correct-horse-battery"));
        assert!(check("bearer  another-long-key-42 "));
        let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        assert!(check(&basic("anybody:correct-horse-battery")));
        for value in [
            "correct-horse-battery",
            "Bearer",
            "Bearer ",
            "Bearer correct-horse-batter",
            "Bearer correct-horse-battery2",
            "Digest correct-horse-battery",
            "Basic correct-horse-battery",
            &basic("correct-horse-battery"),
            &basic("correct-horse-battery:"),
        ] {
            assert!(!check(value), "{value}");
        }
        assert!(check_key(&keys, &headers(&[])).is_err());
        let twice = (AUTHORIZATION, "Bearer correct-horse-battery");
        assert!(check_key(&keys, &headers(&[twice.clone(), twice])).is_err());
        assert!(check_key(&[], &headers(&[])).is_ok());
    }

    #[test]
    fn short_and_unprintable_keys_are_none() {
        assert_eq!("short".parse::<Key>(), Err(KeyError::TooShort));
        assert_eq!(
            "a key with blanks in it".parse::<Key>(),
            Err(KeyError::Unprintable)
        );
    }
}
