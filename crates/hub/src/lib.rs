//! Models by name: from `ORG/NAME` on a Hugging Face hub to a folder on this machine.
//!
//! [`Hub::fetch`] downloads only the files that a model needs, into the cache that Python's
//! `huggingface_hub` uses, so what one has the other finds. [`Hub::cached`] lists what is there.
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
//! # What the cache can hold after a failure
//!
//! A download goes to `blobs/ETAG.incomplete` and gets its name when its length and, for large
//! files, its SHA-256 are right. A snapshot gets its links when all its blobs are there. So a
//! failure leaves an unfinished blob at most, which the next call continues, and never a file that
//! looks whole.
//!
//! # What `hf-hub` does here
//!
//! The crate `hf-hub` gives the layout of the cache, the addresses of its API and the type of a
//! listing (`Cache`, `Repo`, `RepoInfo`). Its client is not used: it drops the hub's error codes
//! (gated, private and unknown repositories look alike), has no time limit for a read, checks
//! neither size nor hash of a download, and does not escape file names; its settings ignore
//! `HF_HUB_CACHE`, `HF_TOKEN_PATH` and `XDG_CACHE_HOME`; its `create_ref` may leave half a
//! reference after a crash.
//!
//! # Proxies and certificates
//!
//! `ureq` takes `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` from the environment itself. A hub on
//! this machine is never reached through a proxy. [`Certificates`] says which servers are trusted.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod blob;
mod cached;
mod clock;
mod config;
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
pub use error::{HubError, NameError, PathError, RequestError, RequestTarget};
pub use hub::{Fetched, Hub};
pub use id::ModelId;
pub use progress::Progress;
