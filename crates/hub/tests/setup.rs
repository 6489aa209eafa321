//! A hub with one model, and a cache.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use beamgen_hub::{Clock, Fetched, Hub, HubConfig, HubError};

use crate::server::{REPO, Server};

/// Time that passes only where a hub waits.
#[derive(Debug, Default)]
pub(crate) struct VirtualClock(Mutex<Duration>);

impl VirtualClock {
    /// Returns the sum of all sleeps so far.
    pub(crate) fn waited(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.waited()
    }

    fn sleep(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

pub(crate) struct Setup {
    pub server: Server,
    pub config: HubConfig,
    pub clock: Arc<VirtualClock>,
    _dir: tempfile::TempDir,
}

/// Returns pseudo-random bytes, so that exchanged parts of a file change the hash.
pub(crate) fn noise(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

pub(crate) const WEIGHTS: usize = 600_000;
pub(crate) const WEIGHTS_FILE: &str = "model.safetensors";

pub(crate) fn weights() -> Vec<u8> {
    noise(WEIGHTS, 1)
}

pub(crate) fn setup() -> Setup {
    let server = Server::start();
    for name in [
        ".gitattributes",
        "README.md",
        "config.json",
        "generation_config.json",
        "onnx/model.onnx",
        "original/consolidated.00.pth",
        "prm.toml",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        server.put(name, format!("the text of {name}").as_bytes());
    }
    server.put_large(WEIGHTS_FILE, &weights());
    server.put_large("pytorch_model.bin", &noise(1000, 2));
    let dir = tempfile::tempdir().expect("a folder");
    let mut config = HubConfig::new(dir.path().join("hub"));
    config.endpoint = server.endpoint.clone();
    config.retries = 0;
    config.timeout = Duration::from_secs(5);
    config.download_timeout = Duration::from_secs(5);
    Setup {
        server,
        config,
        clock: Arc::default(),
        _dir: dir,
    }
}

impl Setup {
    pub(crate) fn hub(&self) -> Hub {
        let clock: Arc<VirtualClock> = Arc::clone(&self.clock);
        Hub::with_clock(self.config.clone(), clock).expect("a hub")
    }

    pub(crate) fn fetch(&self, id: &str) -> Result<Fetched, HubError> {
        let hub = self.hub();
        hub.fetch(&hub.model(id)?, &mut |_| ())
    }

    /// Fetches a model that has to fail. Returns the message, after checking that it is one line
    /// and names the model and the hub.
    pub(crate) fn refusal(&self, id: &str) -> String {
        let text = self.fetch(id).expect_err("a refusal").to_string();
        assert!(!text.contains('\n'), "{text}");
        let repo = id.split(['@', ':']).next().expect("a name");
        assert!(text.contains(repo), "{text}");
        assert!(text.contains(&self.config.endpoint), "{text}");
        assert!(self.snapshots().is_empty(), "{:?}", self.snapshots());
        text
    }

    pub(crate) fn repo_dir(&self) -> PathBuf {
        self.config.cache.join("models--org--tiny")
    }

    pub(crate) fn snapshots(&self) -> Vec<String> {
        names(&self.repo_dir().join("snapshots"))
    }

    pub(crate) fn blobs(&self) -> Vec<String> {
        names(&self.repo_dir().join("blobs"))
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

pub(crate) fn main_model() -> String {
    format!("{REPO}@main")
}
