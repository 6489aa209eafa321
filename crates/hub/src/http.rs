//! Requests to a hub: redirects, the token, timeouts, and errors.

use std::time::Duration;

use ureq::http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use ureq::{Agent, Body};

use crate::HubError;
use crate::config::HubConfig;
use crate::error::RequestError;
use crate::id::safe_path;

const MAX_REDIRECTS: usize = 10;
/// Largest listing of a repository that is read, in bytes.
const MAX_LISTING: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    endpoint: Uri,
    token: Option<String>,
    timeout: Duration,
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
}

impl Client {
    pub fn new(config: &HubConfig) -> Result<Self, HubError> {
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
        let timeout = Some(config.timeout);
        let mut builder = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("beamgen/", env!("CARGO_PKG_VERSION")))
            // sizes and ranges are those of the files themselves
            .accept_encoding("identity")
            .timeout_resolve(timeout)
            .timeout_connect(timeout)
            .timeout_send_request(timeout)
            .timeout_recv_response(timeout)
            .timeout_per_read(timeout);
        if matches!(endpoint.host(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            builder = builder.proxy(None);
        }
        Ok(Self {
            agent: builder.build().new_agent(),
            endpoint,
            token: config.token.clone(),
            timeout: config.timeout,
        })
    }

    /// The body of a listing.
    pub fn text(&self, url: &str) -> Result<String, RequestError> {
        let mut response = self.follow(&Method::GET, url, 0)?;
        self.accept(&response)?;
        let body = response.body_mut().with_config().limit(MAX_LISTING);
        body.read_to_string()
            .map_err(|error| self.request_error(error))
    }

    /// Asks for a file's metadata (HEAD).
    pub fn metadata(&self, url: &str) -> Result<Metadata, RequestError> {
        let response = self.follow(&Method::HEAD, url, 0)?;
        let redirected = response.status().is_redirection();
        if !redirected {
            self.accept(&response)?;
        }
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
        let is_hash = etag.len() == 64 && etag.bytes().all(|b| b.is_ascii_hexdigit());
        Ok(Metadata {
            is_sha256: linked.is_some() && is_hash,
            size: match size.map(str::parse) {
                None => None,
                Some(Ok(size)) => Some(size),
                Some(Err(_)) => {
                    return Err(RequestError::BadReply("its size is no number".to_owned()));
                }
            },
            etag,
        })
    }

    /// The file from byte `offset` on. A server without ranges answers with the whole file (status
    /// 200).
    pub fn get(&self, url: &str, offset: u64) -> Result<Response<Body>, RequestError> {
        let response = self.follow(&Method::GET, url, offset)?;
        self.accept(&response)?;
        Ok(response)
    }

    /// Follows redirects. A HEAD request stops at a redirect to another server if the hub's answer
    /// has the ETag.
    fn follow(
        &self,
        method: &Method,
        url: &str,
        offset: u64,
    ) -> Result<Response<Body>, RequestError> {
        let mut uri: Uri = url
            .parse()
            .map_err(|_| RequestError::BadReply(format!("{url:?} is no address")))?;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::builder().method(method).uri(&uri);
            if let Some(token) = &self.token
                && origin(&uri) == origin(&self.endpoint)
            {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            if offset > 0 {
                request = request.header(header::RANGE, format!("bytes={offset}-"));
            }
            let request = request
                .body(())
                .map_err(|error| RequestError::BadReply(error.to_string()))?;
            let response = self
                .agent
                .run(request)
                .map_err(|error| self.request_error(error))?;
            if !response.status().is_redirection() {
                return Ok(response);
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
            if method == Method::HEAD && says_etag && origin(&next) != origin(&uri) {
                return Ok(response);
            }
            uri = next;
        }
        Err(RequestError::BadReply(format!(
            "more than {MAX_REDIRECTS} redirects"
        )))
    }

    fn accept(&self, response: &Response<Body>) -> Result<(), RequestError> {
        let status = response.status();
        if matches!(
            status,
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE
        ) {
            return Ok(());
        }
        let has_token = self.token.is_some();
        let code = text_of(response.headers(), "x-error-code");
        Err(match (status.as_u16(), code) {
            (status @ (401 | 403), Some("GatedRepo")) => RequestError::Gated { status, has_token },
            (status @ (401 | 403), _) => RequestError::Refused { status, has_token },
            (404, Some("RevisionNotFound")) => RequestError::NoRevision,
            (404, Some("EntryNotFound")) => RequestError::NoFile,
            (404, _) => RequestError::NoRepository,
            (status, _) => RequestError::Status(status),
        })
    }

    pub fn request_error(&self, error: ureq::Error) -> RequestError {
        match error {
            ureq::Error::Timeout(_) => RequestError::Timeout(self.timeout),
            ureq::Error::HostNotFound => {
                RequestError::Unreachable("its name is unknown".to_owned())
            }
            ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => {
                RequestError::BadReply(one_line(&error))
            }
            ureq::Error::BodyExceedsLimit(limit) => {
                RequestError::BadReply(format!("a listing of more than {limit} bytes"))
            }
            error => RequestError::Unreachable(one_line(&error)),
        }
    }
}

pub(crate) fn one_line(error: &ureq::Error) -> String {
    error.to_string().replace(['\n', '\r'], " ")
}

/// Where a partial answer begins, from `Content-Range: bytes 5-9/10`.
pub(crate) fn range_start(headers: &HeaderMap) -> Option<u64> {
    let range = text_of(headers, "content-range")?.strip_prefix("bytes ")?;
    range.split_once('-')?.0.parse().ok()
}

/// The address of a file's bytes.
pub(crate) fn file_url(endpoint: &str, repo: &str, commit: &str, file: &str) -> String {
    let mut url = format!("{endpoint}/{repo}/resolve/{commit}/");
    for byte in file.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
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
    fn names_are_escaped() {
        assert_eq!(
            file_url("http://h", "o/n", "c0", "a b/\u{e4}#?.gguf"),
            "http://h/o/n/resolve/c0/a%20b/%C3%A4%23%3F.gguf"
        );
    }
}
