//! Models and data sets by name: from `ORG/NAME` on a Hugging Face hub to files on this machine.
//!
//! [`Hub::fetch`] downloads only the files that a model needs, and [`Hub::fetch_data`] those of one
//! split of a data set. The cache is the one of Python's
//! `huggingface_hub`, so both programs find each other's downloads. [`Hub::cached`] lists the
//! cache.
//!
//! ```no_run
//! use beamgen_hub::{Hub, HubConfig, ModelId, Progress};
//!
//! let config = HubConfig::from_lookup(|name| std::env::var(name).ok())?;
//! let id: ModelId = "Qwen/Qwen2.5-Math-1.5B-Instruct".parse()?;
//! let fetched = Hub::new(config)?.fetch(&id, &mut |progress| {
//!     if let Progress::Bytes { file, done, total } = progress {
//!         println!("{file}: {done} of {total:?}");
//!     }
//! })?;
//! println!("{}", fetched.path.display());
//! # Ok::<(), beamgen_hub::HubError>(())
//! ```
//!
//! # The cache after a failure
//!
//! Downloads are written to `blobs/ETAG.incomplete`. A file is renamed to `blobs/ETAG` when its
//! length and, for large files, its SHA-256 are verified. A snapshot gets its links when all blobs
//! are complete. A failure therefore leaves at most an incomplete blob, which the next call
//! resumes.
//!
//! # Use of the crate `hf-hub`
//!
//! `hf-hub` provides the layout of the cache, the addresses of the API, and the type of a listing
//! (`Cache`, `Repo`, `RepoInfo`). Its HTTP client is not used, because that client
//!
//! - drops the hub's error codes: gated, private and unknown repositories look alike,
//! - has no time limit for a read,
//! - checks neither the size nor the hash of a download,
//! - does not escape file names.
//!
//! Also, `hf-hub` ignores `HF_HUB_CACHE`, `HF_TOKEN_PATH` and `XDG_CACHE_HOME`, and its
//! `create_ref` may leave an incomplete reference after a crash.
//!
//! # Proxies and certificates
//!
//! `ureq` reads `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` from the environment. No proxy is used
//! for a hub on this machine. [`Certificates`] determines which servers are trusted.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod blob;
mod cached;
mod clock;
mod config;
mod data_set;
mod error;
mod files;
mod headers;
mod http;
mod hub;
mod id;
mod progress;
mod repo_dir;
mod retry;
mod space;

pub use beamgen_certificates::Certificates;
pub use cached::{CachedModel, CachedRevision};
pub use clock::Clock;
pub use config::HubConfig;
pub use data_set::{DataSetPart, FetchedData};
pub use error::{HubError, NameError, PathError, RequestError, RequestTarget};
pub use hub::{Fetched, Hub};
pub use id::{DataSetId, ModelId};
pub use progress::Progress;
