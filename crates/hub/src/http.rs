//! Requests to a hub: redirects, the token, timeouts, and errors.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use beamgen_certificates::refusal;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::{Method, Request, Response, StatusCode, Uri, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::HubError;
use crate::clock::Clock;
use crate::config::HubConfig;
use crate::error::RequestError;
use crate::headers::{text_of, wait};
use crate::id::{PUBLIC_HOSTS, safe_path};

const MAX_REDIRECTS: usize = 10;
/// Largest listing of a repository that is read, in bytes.
const MAX_LISTING: u64 = 64 << 20;
/// The bytes that do not stand in an address as they are.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

#[derive(Debug)]
pub(crate) struct Client {
    /// Made at the first request, because it reads the system's certificates.
    agent: OnceLock<Agent>,
    endpoint: Uri,
    config: HubConfig,
    pub clock: Arc<dyn Clock>,
}

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Listing,
    /// The hub's facts about a file.
    Metadata,
    /// The bytes of a file from this one on.
    Bytes(u64),
}

/// What the hub says of a file before it is downloaded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// The name of the blob.
    pub etag: String,
    /// Whether the name is the SHA-256 of the content (files in large file storage).
    pub is_sha256: bool,
    /// In bytes.
    pub size: Option<u64>,
    /// The commit of the file, if the hub says.
    pub commit: Option<String>,
}

impl Client {
    pub(crate) fn new(config: &HubConfig, clock: Arc<dyn Clock>) -> Result<Self, HubError> {
        let endpoint: Uri = config
            .endpoint
            .parse()
            .ok()
            .filter(|uri: &Uri| {
                matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
            })
            .ok_or_else(|| HubError::BadSetting {
                setting: "HF_ENDPOINT",
                reason: format!(
                    "{:?} is no address of a hub; expected one like https://huggingface.co",
                    config.endpoint
                ),
            })?;
        if let Some(token) = &config.token
            && !token.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(HubError::BadSetting {
                setting: "HF_TOKEN",
                reason: "it has characters that no token has; copy it again from the hub's settings page"
                    .to_owned(),
            });
        }
        Ok(Self {
            agent: OnceLock::new(),
            endpoint,
            config: config.clone(),
            clock,
        })
    }

    fn agent(&self) -> Result<&Agent, RequestError> {
        if let Some(agent) = self.agent.get() {
            return Ok(agent);
        }
        let trusted = self.config.certificates.all()?;
        let trusted = trusted
            .iter()
            .map(|der| Certificate::from_der(der).to_owned());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::from(trusted))
            .build();
        let mut builder = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("beamgen/", env!("CARGO_PKG_VERSION")))
            // sizes and ranges are those of the files themselves
            .accept_encoding("identity")
            .tls_config(tls);
        if matches!(
            self.endpoint.host(),
            Some("localhost" | "127.0.0.1" | "[::1]")
        ) {
            builder = builder.proxy(None);
        }
        Ok(self.agent.get_or_init(|| builder.build().new_agent()))
    }

    /// The body of a listing.
    pub(crate) fn text(&self, url: &str) -> Result<String, RequestError> {
        let (mut response, uri) = self.ask(Wanted::Listing, url)?;
        let body = response.body_mut().with_config().limit(MAX_LISTING);
        body.read_to_string()
            .map_err(|error| request_error(error, &uri, self.config.timeout))
    }

    /// Asks for a file's metadata (HEAD).
    pub(crate) fn metadata(&self, url: &str) -> Result<Metadata, RequestError> {
        let (response, _) = self.ask(Wanted::Metadata, url)?;
        let redirected = response.status().is_redirection();
        let headers = response.headers();
        let linked = text_of(headers, "x-linked-etag");
        let etag = linked
            .or_else(|| text_of(headers, "etag"))
            .ok_or_else(|| RequestError::BadReply("it has no ETag for the file".to_owned()))?;
        let etag = etag.trim_start_matches("W/").trim_matches('"').to_owned();
        if etag.is_empty() || etag.len() > 200 || etag.contains('/') || safe_path(&etag).is_err() {
            return Err(RequestError::BadReply(format!(
                "its ETag {etag:?} is no name"
            )));
        }
        let size = text_of(headers, "x-linked-size")
            .or_else(|| text_of(headers, "content-length").filter(|_| !redirected));
        let size = size.map(str::parse::<u64>).transpose();
        let is_hash = etag.len() == 64 && etag.bytes().all(|b| b.is_ascii_hexdigit());
        Ok(Metadata {
            is_sha256: linked.is_some() && is_hash,
            size: size.map_err(|_| RequestError::BadReply("its size is no number".to_owned()))?,
            commit: text_of(headers, "x-repo-commit").map(str::to_owned),
            etag,
        })
    }

    /// The file from byte `offset` on. A server without ranges answers with the whole file (status
    /// 200).
    pub(crate) fn get(&self, url: &str, offset: u64) -> Result<Response<Body>, RequestError> {
        Ok(self.ask(Wanted::Bytes(offset), url)?.0)
    }

    /// Why the bytes of a file stopped.
    pub(crate) fn broken(&self, error: ureq::Error) -> RequestError {
        request_error(error, &self.endpoint, self.config.download_timeout)
    }

    /// Follows redirects, and refuses what no answer is. A HEAD request stops at a redirect to
    /// another server if the hub's answer has the `ETag`.
    fn ask(&self, wanted: Wanted, url: &str) -> Result<(Response<Body>, Uri), RequestError> {
        let (method, limit) = match wanted {
            Wanted::Listing => (Method::GET, self.config.timeout),
            Wanted::Metadata => (Method::HEAD, self.config.timeout),
            Wanted::Bytes(_) => (Method::GET, self.config.download_timeout),
        };
        let agent = self.agent()?;
        let mut uri: Uri = url
            .parse()
            .map_err(|_| RequestError::BadReply(format!("{url:?} is no address")))?;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::builder().method(&method).uri(&uri);
            if let Some(token) = &self.config.token
                && (origin(&uri) == origin(&self.endpoint) || is_public_hub(&uri))
            {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            if let Wanted::Bytes(offset @ 1..) = wanted {
                request = request.header(header::RANGE, format!("bytes={offset}-"));
            }
            let request = request
                .body(())
                .map_err(|error| RequestError::BadReply(error.to_string()))?;
            let request = agent
                .configure_request(request)
                .timeout_resolve(Some(limit))
                .timeout_connect(Some(limit))
                .timeout_send_request(Some(limit))
                .timeout_recv_response(Some(limit))
                .timeout_per_read(Some(limit))
                .build();
            let response = agent
                .run(request)
                .map_err(|error| request_error(error, &uri, limit))?;
            if !response.status().is_redirection() {
                self.accept(&response, &uri)?;
                return Ok((response, uri));
            }
            let location = text_of(response.headers(), "location")
                .ok_or_else(|| RequestError::BadReply("a redirect to nowhere".to_owned()))?;
            let next = resolve(&uri, location)
                .ok_or_else(|| RequestError::BadReply(format!("a redirect to {location:?}")))?;
            if uri.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
                return Err(RequestError::BadReply(format!(
                    "a redirect from https to {:?}",
                    next.scheme_str().unwrap_or_default()
                )));
            }
            let says_etag = ["x-linked-etag", "etag"]
                .iter()
                .any(|name| response.headers().contains_key(*name));
            if wanted == Wanted::Metadata && says_etag && origin(&next) != origin(&uri) {
                return Ok((response, uri));
            }
            uri = next;
        }
        Err(RequestError::BadReply(format!(
            "more than {MAX_REDIRECTS} redirects"
        )))
    }

    fn accept(&self, response: &Response<Body>, uri: &Uri) -> Result<(), RequestError> {
        let status = response.status();
        if matches!(
            status,
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE
        ) {
            return Ok(());
        }
        let has_token = self.config.token.is_some();
        let code = text_of(response.headers(), "x-error-code");
        // Hubs name the fault. Their storage servers do not, and know nothing of repositories.
        let is_storage =
            code.is_none() && origin(uri) != origin(&self.endpoint) && !is_public_hub(uri);
        Err(match (status.as_u16(), code) {
            (429, _) => RequestError::TooMany {
                wait: wait(response.headers(), self.clock.now()),
                has_token,
            },
            (status @ 400..500, _) if is_storage => RequestError::StorageRefused {
                host: uri.host().unwrap_or_default().to_owned(),
                status,
            },
            (status @ (401 | 403), Some("GatedRepo")) => RequestError::Gated { status, has_token },
            (status @ (401 | 403), _) => RequestError::Refused { status, has_token },
            (404, Some("RevisionNotFound")) => RequestError::NoRevision,
            (404, Some("EntryNotFound")) => RequestError::NoFile,
            (404, _) => RequestError::NoRepository,
            (status, _) => RequestError::Status(status),
        })
    }
}

fn request_error(error: ureq::Error, uri: &Uri, limit: Duration) -> RequestError {
    let refused = match &error {
        ureq::Error::Io(error) => refusal(error),
        ureq::Error::Rustls(error) => refusal(error),
        _ => None,
    };
    if let Some(reason) = refused {
        return RequestError::Certificate {
            host: uri.host().unwrap_or_default().to_owned(),
            reason,
        };
    }
    match error {
        ureq::Error::Timeout(_) => RequestError::Timeout(limit),
        ureq::Error::HostNotFound => RequestError::Unreachable("its name is unknown".to_owned()),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            RequestError::BadReply(one_line(&error))
        }
        ureq::Error::BodyExceedsLimit(limit) => {
            RequestError::BadReply(format!("a listing of more than {limit} bytes"))
        }
        error => RequestError::Unreachable(one_line(&error)),
    }
}

/// Whether the public hub is asked, and nobody can listen: a mirror may send on to it.
fn is_public_hub(uri: &Uri) -> bool {
    let (scheme, host, port) = origin(uri);
    let host = host.unwrap_or_default();
    scheme == Some("https") && port == 443 && PUBLIC_HOSTS.contains(&host.as_str())
}

fn one_line(error: &ureq::Error) -> String {
    error.to_string().replace(['\n', '\r'], " ")
}

/// The address of a file's bytes.
pub(crate) fn file_url(endpoint: &str, repo: &str, commit: &str, file: &str) -> String {
    let file = utf8_percent_encode(file, ESCAPED);
    format!("{endpoint}/{repo}/resolve/{commit}/{file}")
}

fn origin(uri: &Uri) -> (Option<&str>, Option<String>, u16) {
    let usual = if uri.scheme_str() == Some("https") {
        443
    } else {
        80
    };
    let host = uri.host().map(str::to_ascii_lowercase);
    (uri.scheme_str(), host, uri.port_u16().unwrap_or(usual))
}

/// The target of a redirect, which may be relative.
fn resolve(base: &Uri, location: &str) -> Option<Uri> {
    let scheme = base.scheme_str()?;
    let authority = base.authority()?;
    let absolute = if location.contains("://") {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = &base.path()[..=base.path().rfind('/')?];
        format!("{scheme}://{authority}{folder}{location}")
    };
    let uri: Uri = absolute.parse().ok()?;
    (matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_resolved() {
        let base: Uri = "https://hub:8/a/b?x=1".parse().expect("an address");
        for (location, target) in [
            ("https://cdn/x?sig=a%2Fb", "https://cdn/x?sig=a%2Fb"),
            ("//cdn/x", "https://cdn/x"),
            ("/c/d?u=http", "https://hub:8/c/d?u=http"),
            ("c", "https://hub:8/a/c"),
        ] {
            let resolved = resolve(&base, location).map(|uri| uri.to_string());
            assert_eq!(resolved.as_deref(), Some(target));
        }
        assert_eq!(resolve(&base, "file:///etc/passwd"), None);
        assert_eq!(resolve(&base, "/a b"), None);
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let of = |text: &str| text.parse::<Uri>().expect("an address");
        let same = |a: &str, b: &str| origin(&of(a)) == origin(&of(b));
        assert!(same("https://Hub/x", "https://hub:443/y"));
        assert!(!same("https://hub/x", "http://hub/x"));
        assert!(!same("http://hub:1/x", "http://hub:2/x"));
        assert!(!same("http://hub/x", "http://hub.evil/x"));
    }

    #[test]
    fn the_public_hub_is_asked_over_https_alone() {
        let public = |text: &str| is_public_hub(&text.parse().expect("an address"));
        for yes in [
            "https://huggingface.co/a",
            "https://hf.co:443/a",
            "https://HuggingFace.co",
        ] {
            assert!(public(yes), "{yes}");
        }
        for no in [
            "http://huggingface.co/a",
            "https://huggingface.co:8443/a",
            "https://huggingface.co.evil/a",
            "https://cdn.huggingface.co/a",
            "https://evilhf.co/a",
            "https://evil/huggingface.co",
            "https://huggingface.co@evil/a",
        ] {
            assert!(!public(no), "{no}");
        }
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(
            file_url("http://h", "o/n", "c0", "a b/\u{e4}#?.gguf"),
            "http://h/o/n/resolve/c0/a%20b/%C3%A4%23%3F.gguf"
        );
    }
}
