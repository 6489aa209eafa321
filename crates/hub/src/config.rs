//! The settings of a hub: its address, the cache folder, the token and the limits.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beamgen_certificates::Certificates;

use crate::HubError;

/// The maximum of a time limit in seconds: one day.
const LONGEST: u64 = 86_400;

/// Settings of a [`Hub`](crate::Hub).
#[derive(Clone, PartialEq, Eq)]
pub struct HubConfig {
    /// The address of the hub, without a slash at the end. Default: `https://huggingface.co`.
    pub endpoint: String,
    /// The cache folder, which contains a folder `models--ORG--NAME` per repository.
    pub cache: PathBuf,
    /// The access token. It is sent to `endpoint` and, if that redirects, to the public hub over
    /// https. No other server gets the token.
    pub token: Option<String>,
    /// Whether to use only the cache, without any request. Default: false.
    pub offline: bool,
    /// The time limit for connecting, and for an answer about a model or a file. Default: 10 s.
    pub timeout: Duration,
    /// The time limit for each stage of a download: connecting, the answer, and the next bytes.
    /// Default: 10 s.
    pub download_timeout: Duration,
    /// The number of retries after temporary faults; a retry that brings new bytes resets the
    /// count. Default: 5.
    pub retries: u32,
    /// The certificate authorities that are trusted besides those of Mozilla and the system.
    pub certificates: Certificates,
}

/// Hides the token, which must not appear in logs.
impl fmt::Debug for HubConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubConfig")
            .field("endpoint", &self.endpoint)
            .field("cache", &self.cache)
            .field("token", &self.token.as_ref().map(|_| "(hidden)"))
            .field("offline", &self.offline)
            .field("timeout", &self.timeout)
            .field("download_timeout", &self.download_timeout)
            .field("retries", &self.retries)
            .field("certificates", &self.certificates)
            .finish()
    }
}

impl HubConfig {
    /// Returns settings for the public hub, without a token.
    #[must_use]
    pub fn new(cache: PathBuf) -> Self {
        Self {
            endpoint: "https://huggingface.co".to_owned(),
            cache,
            token: None,
            offline: false,
            timeout: Duration::from_secs(10),
            download_timeout: Duration::from_secs(10),
            retries: 5,
            certificates: Certificates::default(),
        }
    }

    /// Reads the settings from the environment variables of Python's `huggingface_hub`, in its
    /// order of precedence:
    ///
    /// - cache: `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, `$HF_HOME/hub`,
    ///   `$XDG_CACHE_HOME/huggingface/hub`, `~/.cache/huggingface/hub`
    /// - token: `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, the file `HF_TOKEN_PATH`, the file
    ///   `$HF_HOME/token` that `hf auth login` writes; none if `HF_HUB_DISABLE_IMPLICIT_TOKEN` is
    ///   true
    /// - `HF_ENDPOINT`; `HF_HUB_OFFLINE` or `TRANSFORMERS_OFFLINE` is 1, on, yes or true
    /// - time limits in seconds: `HF_HUB_ETAG_TIMEOUT`, `HF_HUB_DOWNLOAD_TIMEOUT`
    /// - certificates: `SSL_CERT_FILE`, `REQUESTS_CA_BUNDLE`
    ///
    /// Paths may begin with `~` and contain `$NAME` or `${NAME}`. An empty variable counts as
    /// unset. `lookup` is `|name| std::env::var(name).ok()` in a program.
    ///
    /// # Errors
    /// Returns [`HubError::BadSetting`] for an invalid time limit, or if the home folder is needed
    /// and unknown. Returns [`HubError::Io`] if a token file cannot be read.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, HubError> {
        // An empty variable counts as unset: that is how shells unset a variable for one command.
        let get = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let is_true = |name: &str| {
            get(name).is_some_and(|value| {
                ["1", "ON", "YES", "TRUE"].contains(&value.to_uppercase().as_str())
            })
        };
        let path = |value: String| expand(&value, &get);
        let hf_home = || match (get("HF_HOME"), get("XDG_CACHE_HOME")) {
            (Some(home), _) => path(home),
            (None, Some(caches)) => Ok(path(caches)?.join("huggingface")),
            (None, None) => path("~/.cache/huggingface".to_owned()),
        };

        let cache = match get("HF_HUB_CACHE").or_else(|| get("HUGGINGFACE_HUB_CACHE")) {
            Some(cache) => path(cache)?,
            None => hf_home()?.join("hub"),
        };
        let mut config = Self::new(cache);
        if let Some(endpoint) = get("HF_ENDPOINT") {
            config.endpoint = endpoint.trim_end_matches('/').to_owned();
        }
        // `HF_HUB_OFFLINE=0` overrides a true `TRANSFORMERS_OFFLINE`, which is read only if the
        // former is unset.
        config.offline = match get("HF_HUB_OFFLINE") {
            Some(_) => is_true("HF_HUB_OFFLINE"),
            None => is_true("TRANSFORMERS_OFFLINE"),
        };
        for (name, limit) in [
            ("HF_HUB_ETAG_TIMEOUT", &mut config.timeout),
            ("HF_HUB_DOWNLOAD_TIMEOUT", &mut config.download_timeout),
        ] {
            if let Some(text) = get(name) {
                *limit = seconds(name, &text)?;
            }
        }
        config.certificates = Certificates::from_lookup(&lookup);
        if !is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
            let given = get("HF_TOKEN").or_else(|| get("HUGGING_FACE_HUB_TOKEN"));
            // A token that consists of white space counts as unset, so the file is read.
            config.token = match given.as_deref().and_then(clean_token) {
                Some(token) => Some(token),
                None => read_token(&match get("HF_TOKEN_PATH") {
                    Some(file) => path(file)?,
                    None => hf_home()?.join("token"),
                })?,
            };
        }
        Ok(config)
    }
}

fn seconds(setting: &'static str, text: &str) -> Result<Duration, HubError> {
    let number = text.trim().parse().ok();
    match number.filter(|seconds| (1..=LONGEST).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err(HubError::BadSetting {
            setting,
            reason: format!(
                "{text:?} is not a time limit: use whole seconds from 1 to {LONGEST}, e.g. 30"
            ),
        }),
    }
}

fn clean_token(text: &str) -> Option<String> {
    let token = text.trim();
    (!token.is_empty()).then(|| token.to_owned())
}

fn read_token(file: &Path) -> Result<Option<String>, HubError> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(clean_token(&text)),
        // No login was made on this machine, so the file does not exist.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HubError::io(file)(error)),
    }
}

/// Expands `~` at the beginning, and `$NAME` and `${NAME}` anywhere. As in Python's `expandvars`,
/// an unset variable stays in the text.
fn expand(value: &str, get: &impl Fn(&str) -> Option<String>) -> Result<PathBuf, HubError> {
    let mut text = value.to_owned();
    if value == "~" || value.starts_with("~/") {
        let home = get("HOME")
            .or_else(|| get("USERPROFILE"))
            .ok_or_else(|| HubError::BadSetting {
                setting: "HOME",
                reason: format!(
                    "is not set, so {value} cannot be resolved: set HOME, or set HF_HOME to a folder for the cache"
                ),
            })?;
        text.replace_range(..1, &home);
    }
    let mut expanded = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        // `${` without a closing brace stays in the text, like a variable with an empty name.
        let braced = after.strip_prefix('{').and_then(|s| s.split_once('}'));
        let (name, tail) = braced.unwrap_or_else(|| {
            let end = after
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(after.len());
            after.split_at(end)
        });
        match get(name) {
            Some(value) => expanded.push_str(&value),
            None => expanded.push_str(&rest[at..rest.len() - tail.len()]),
        }
        rest = tail;
    }
    expanded.push_str(rest);
    Ok(PathBuf::from(expanded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> HubConfig {
        HubConfig::from_lookup(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
        .expect("a configuration")
    }

    #[test]
    fn the_cache_has_pythons_precedence() {
        fn cache(variables: &[(&str, &str)]) -> PathBuf {
            config(variables).cache
        }

        let home = ("HOME", "/h");
        let xdg = ("XDG_CACHE_HOME", "/x");
        let hf = ("HF_HOME", "~/hf/$V-${V}/$UNSET");
        let old = ("HUGGINGFACE_HUB_CACHE", "/old");
        let new = ("HF_HUB_CACHE", "/new");
        let v = ("V", "1");
        assert_eq!(cache(&[home]), Path::new("/h/.cache/huggingface/hub"));
        assert_eq!(cache(&[home, xdg]), Path::new("/x/huggingface/hub"));
        assert_eq!(
            cache(&[home, xdg, hf, v]),
            Path::new("/h/hf/1-1/$UNSET/hub")
        );
        assert_eq!(cache(&[home, hf, old]), Path::new("/old"));
        assert_eq!(cache(&[home, old, new]), Path::new("/new"));
        assert_eq!(
            cache(&[home, ("HF_HOME", "")]),
            Path::new("/h/.cache/huggingface/hub")
        );
        let error = HubConfig::from_lookup(|_| None).expect_err("no home");
        assert!(error.to_string().starts_with("HOME: is not set"), "{error}");
    }

    #[test]
    fn the_token_is_the_variable_or_the_file_of_the_cli() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = dir.path().to_str().expect("UTF-8");
        assert_eq!(config(&[("HF_HOME", home)]).token, None);
        std::fs::write(dir.path().join("token"), "hf_file\n").expect("written");
        let other = dir.path().join("other");
        std::fs::write(&other, "hf_other").expect("written");
        let other = other.to_str().expect("UTF-8");
        let token = |variables: &[(&str, &str)]| {
            let mut all = vec![("HF_HOME", home)];
            all.extend(variables);
            config(&all).token
        };
        assert_eq!(token(&[]).as_deref(), Some("hf_file"));
        assert_eq!(
            token(&[("HF_TOKEN_PATH", other)]).as_deref(),
            Some("hf_other")
        );
        assert_eq!(
            token(&[("HUGGING_FACE_HUB_TOKEN", "hf_old")]).as_deref(),
            Some("hf_old")
        );
        assert_eq!(
            token(&[("HF_TOKEN", " hf_env\n"), ("HUGGING_FACE_HUB_TOKEN", "x")]).as_deref(),
            Some("hf_env")
        );
        assert_eq!(
            token(&[("HF_TOKEN", "x"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "yes")]),
            None
        );
        let shown = format!("{:?}", config(&[("HF_HOME", home)]));
        assert!(!shown.contains("hf_file"), "{shown}");
    }

    #[test]
    fn endpoint_and_offline() {
        let home = ("HOME", "/h");
        let plain = config(&[home]);
        assert_eq!(plain.endpoint, "https://huggingface.co");
        assert!(!plain.offline);
        assert_eq!(
            config(&[home, ("HF_ENDPOINT", "http://mirror/x//")]).endpoint,
            "http://mirror/x"
        );
        assert!(config(&[home, ("HF_HUB_OFFLINE", "True")]).offline);
        assert!(config(&[home, ("TRANSFORMERS_OFFLINE", "1")]).offline);
        assert!(!config(&[home, ("HF_HUB_OFFLINE", "0"), ("TRANSFORMERS_OFFLINE", "1")]).offline);
    }

    #[test]
    fn time_limits_are_whole_seconds() {
        fn limits(variables: &[(&str, &str)]) -> (u64, u64) {
            let config = config(&[&[("HOME", "/h")], variables].concat());
            (config.timeout.as_secs(), config.download_timeout.as_secs())
        }

        let home = ("HOME", "/h");
        let (etag, download) = ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT");
        assert_eq!(limits(&[]), (10, 10));
        assert_eq!(limits(&[(etag, "3")]), (3, 10));
        assert_eq!(limits(&[(etag, ""), (download, " 60 ")]), (10, 60));
        for name in [etag, download] {
            for bad in ["0", "-1", "1.5", "10s", "99999999999999999999", "86401"] {
                let variables = [home, (name, bad)];
                let error = HubConfig::from_lookup(|name| {
                    let found = variables.iter().find(|(key, _)| *key == name);
                    found.map(|(_, value)| (*value).to_owned())
                });
                let error = error.expect_err(bad).to_string();
                assert!(error.starts_with(&format!("{name}: {bad:?}")), "{error}");
                assert!(error.contains("whole seconds"), "{error}");
            }
        }
    }

    #[test]
    fn certificates_come_from_both_variables() {
        let home = ("HOME", "/h");
        assert_eq!(config(&[home]).certificates, Certificates::default());
        let named = [("SSL_CERT_FILE", "/a.pem"), ("REQUESTS_CA_BUNDLE", "/b")];
        let found = config(&[&[home], &named[..]].concat()).certificates;
        let text = format!("{found:?}");
        assert!(text.contains("/a.pem") && text.contains("/b"), "{text}");
    }
}
