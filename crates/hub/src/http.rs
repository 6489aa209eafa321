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
/// The bytes to percent-encode in a path: all except the unreserved ones of RFC 3986 and the slash.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

#[derive(Debug)]
pub(crate) struct Client {
    /// Built by the first request. If the cache has everything, the system's certificates are not
    /// read.
    agent: OnceLock<Agent>,
    endpoint: Uri,
    config: HubConfig,
    pub clock: Arc<dyn Clock>,
}

/// The purpose of a request, which determines the method and the time limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Listing,
    /// A HEAD request for a file.
    Metadata,
    /// A GET request for a file, from this offset to the end.
    Bytes(u64),
}

/// The properties of a file, known from a HEAD request before the download.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// The `ETag` without quotes; the blob in the cache has this name.
    pub etag: String,
    /// Whether `etag` is the SHA-256 of the contents, as it is for files in large file storage.
    pub is_sha256: bool,
    /// The length of the file in bytes, if the hub says.
    pub size: Option<u64>,
    /// The commit that the file belongs to; mirrors may not send the header.
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
                    "invalid address {:?}: use e.g. https://huggingface.co",
                    config.endpoint
                ),
            })?;
        // A line break in the token could add a header to a request. The message must not show the
        // token.
        if let Some(token) = &config.token
            && !token.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(HubError::BadSetting {
                setting: "HF_TOKEN",
                reason: "invalid token (spaces or control characters): copy it again from the hub's settings page"
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
            // `ask` follows redirects, because each target decides whether it gets the token.
            .max_redirects(0)
            .user_agent(concat!("beamgen/", env!("CARGO_PKG_VERSION")))
            // With compression, lengths and ranges would count compressed bytes.
            .accept_encoding("identity")
            .tls_config(tls);
        // A proxy would resolve `localhost` to its own machine.
        if matches!(
            self.endpoint.host(),
            Some("localhost" | "127.0.0.1" | "[::1]")
        ) {
            builder = builder.proxy(None);
        }
        Ok(self.agent.get_or_init(|| builder.build().new_agent()))
    }

    /// Requests a listing of at most 64 MiB and returns the body.
    pub(crate) fn text(&self, url: &str) -> Result<String, RequestError> {
        let (mut response, uri) = self.ask(Wanted::Listing, url)?;
        let body = response.body_mut().with_config().limit(MAX_LISTING);
        body.read_to_string()
            .map_err(|error| request_error(error, &uri, self.config.timeout))
    }

    /// Requests a file's headers, without the file.
    pub(crate) fn metadata(&self, url: &str) -> Result<Metadata, RequestError> {
        let (response, _) = self.ask(Wanted::Metadata, url)?;
        let redirected = response.status().is_redirection();
        let headers = response.headers();
        // For a large file the hub answers with a redirect, whose own `ETag` and length describe
        // the redirect. The `X-Linked-` headers describe the file.
        let linked = text_of(headers, "x-linked-etag");
        let etag = linked
            .or_else(|| text_of(headers, "etag"))
            .ok_or_else(|| RequestError::BadReply("no ETag for the file".to_owned()))?;
        let etag = etag.trim_start_matches("W/").trim_matches('"').to_owned();
        // The text becomes a file name, and a hostile hub must not choose a path outside the cache.
        if etag.is_empty() || etag.len() > 200 || etag.contains('/') || safe_path(&etag).is_err() {
            return Err(RequestError::BadReply(format!(
                "the ETag {etag:?} cannot name a file"
            )));
        }
        let size = text_of(headers, "x-linked-size")
            .or_else(|| text_of(headers, "content-length").filter(|_| !redirected));
        let size = size.map(str::parse::<u64>).transpose();
        let is_hash = etag.len() == 64 && etag.bytes().all(|b| b.is_ascii_hexdigit());
        Ok(Metadata {
            is_sha256: linked.is_some() && is_hash,
            size: size.map_err(|_| {
                RequestError::BadReply("the file's size is not a number".to_owned())
            })?,
            commit: text_of(headers, "x-repo-commit").map(str::to_owned),
            etag,
        })
    }

    /// Requests a file from `offset` to its end. A server without support for ranges sends the
    /// whole file with status 200.
    pub(crate) fn get(&self, url: &str, offset: u64) -> Result<Response<Body>, RequestError> {
        Ok(self.ask(Wanted::Bytes(offset), url)?.0)
    }

    /// Converts an error during the download of a file.
    pub(crate) fn broken(&self, error: ureq::Error) -> RequestError {
        request_error(error, &self.endpoint, self.config.download_timeout)
    }

    /// Sends a request and follows redirects. Returns the answer and the address that it came from.
    /// Statuses of failure become errors. A HEAD request does not follow a redirect to another
    /// server if the hub's own answer has the `ETag`.
    fn ask(&self, wanted: Wanted, url: &str) -> Result<(Response<Body>, Uri), RequestError> {
        let (method, limit) = match wanted {
            Wanted::Listing => (Method::GET, self.config.timeout),
            Wanted::Metadata => (Method::HEAD, self.config.timeout),
            Wanted::Bytes(_) => (Method::GET, self.config.download_timeout),
        };
        let agent = self.agent()?;
        let mut uri: Uri = url
            .parse()
            .map_err(|_| RequestError::BadReply(format!("invalid address {url:?}")))?;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::builder().method(&method).uri(&uri);
            // A storage server belongs to somebody else: it gets the signed address and never the
            // token.
            if let Some(token) = &self.config.token
                && (origin(&uri) == origin(&self.endpoint) || is_public_hub(&uri))
            {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            // Offset 0 is requested without a range, because servers may refuse the range of an
            // empty file.
            if let Wanted::Bytes(offset @ 1..) = wanted {
                request = request.header(header::RANGE, format!("bytes={offset}-"));
            }
            let request = request
                .body(())
                .map_err(|error| RequestError::BadReply(error.to_string()))?;
            // There is no limit for the whole request: a large file may take long while bytes
            // arrive.
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
            let location = text_of(response.headers(), "location").ok_or_else(|| {
                RequestError::BadReply("a redirect without an address".to_owned())
            })?;
            let next = resolve(&uri, location)
                .ok_or_else(|| RequestError::BadReply(format!("a redirect to {location:?}")))?;
            // Over http the bytes could be replaced on the way, and not every file has a SHA-256.
            if uri.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
                return Err(RequestError::BadReply(format!(
                    "a redirect from https to {:?}",
                    next.scheme_str().unwrap_or_default()
                )));
            }
            let says_etag = ["x-linked-etag", "etag"]
                .iter()
                .any(|name| response.headers().contains_key(*name));
            // The storage server would only repeat the size, with another `ETag`.
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
        // The caller handles 416: a server that does not know the range may still send the whole
        // file.
        if matches!(
            status,
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE
        ) {
            return Ok(());
        }
        let has_token = self.config.token.is_some();
        let code = text_of(response.headers(), "x-error-code");
        // Hubs send `X-Error-Code`, storage servers do not. A storage server's 403 means an expired
        // signature and not a private model.
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
        ureq::Error::HostNotFound => RequestError::Unreachable("unknown host name".to_owned()),
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
            RequestError::BadReply(one_line(&error))
        }
        ureq::Error::BodyExceedsLimit(limit) => {
            RequestError::BadReply(format!("a listing of more than {limit} bytes"))
        }
        error => RequestError::Unreachable(one_line(&error)),
    }
}

/// Whether the address is the public hub over https. If a mirror redirects there, the token is
/// sent, too.
fn is_public_hub(uri: &Uri) -> bool {
    let (scheme, host, port) = origin(uri);
    let host = host.unwrap_or_default();
    scheme == Some("https") && port == 443 && PUBLIC_HOSTS.contains(&host.as_str())
}

fn one_line(error: &ureq::Error) -> String {
    error.to_string().replace(['\n', '\r'], " ")
}

/// Returns the address of a file at a commit, with special characters escaped. `page` is
/// `ORG/NAME`, or `datasets/ORG/NAME`.
pub(crate) fn file_url(endpoint: &str, page: &str, commit: &str, file: &str) -> String {
    let file = utf8_percent_encode(file, ESCAPED);
    format!("{endpoint}/{page}/resolve/{commit}/{file}")
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

/// Returns the absolute address of a redirect; `None` if the scheme is not http or https.
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
        fn same(a: &str, b: &str) -> bool {
            let [a, b] = [a, b].map(|text| text.parse::<Uri>().expect("an address"));
            origin(&a) == origin(&b)
        }
        assert!(same("https://Hub/x", "https://hub:443/y"));
        assert!(!same("https://hub/x", "http://hub/x"));
        assert!(!same("http://hub:1/x", "http://hub:2/x"));
        assert!(!same("http://hub/x", "http://hub.evil/x"));
    }

    #[test]
    fn the_public_hub_is_only_trusted_over_https() {
        fn public(text: &str) -> bool {
            is_public_hub(&text.parse().expect("an address"))
        }
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
