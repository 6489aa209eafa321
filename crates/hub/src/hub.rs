//! A hub with its cache: fetches models, and lists the cached ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use hf_hub::api::RepoInfo;

use crate::blob::Job;
use crate::cached::{CachedModel, file_names, scan};
use crate::clock::{Clock, SystemClock};
use crate::data_set::{CONVERTED, Chosen, DataSetPart, FetchedData, choose};
use crate::error::{RequestError, RequestTarget};
use crate::files::{Part, missing, needed, shards};
use crate::http::{Client, file_url};
use crate::id::{Kind, is_commit, safe_path};
use crate::progress::observed;
use crate::repo_dir::{RepoDir, hf_repo};
use crate::retry::{Patience, Retry, TransferError};
use crate::{DataSetId, HubConfig, HubError, ModelId, Progress, space};

/// The number of files that are downloaded at the same time.
const AT_ONCE: usize = 2;

/// A hub and its cache.
#[derive(Debug)]
pub struct Hub {
    config: HubConfig,
    client: Client,
    /// Locked while a request waits until the hub's limit ends; see [`Retry::turn`].
    turn: Mutex<()>,
}

/// A revision of a repository, as the hub listed it.
struct Listing {
    commit: String,
    files: BTreeSet<String>,
}

/// A model that is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The snapshot folder, or the GGUF file if one was named.
    pub path: PathBuf,
    /// The commit of the fetched files: 40 hexadecimal digits.
    pub commit: String,
    /// Whether no file had to be downloaded.
    pub from_cache: bool,
    /// A warning for the user: the hub was not reachable, so the cached commit may be outdated.
    pub note: Option<String>,
}

impl Hub {
    /// Checks the settings. No request is made and no folder is created.
    ///
    /// # Errors
    /// Returns [`HubError::BadSetting`] if the endpoint or the token is malformed.
    pub fn new(config: HubConfig) -> Result<Self, HubError> {
        Self::with_clock(config, Arc::new(SystemClock))
    }

    /// Like [`new`](Self::new), with a clock that tests can control.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn with_clock(config: HubConfig, clock: Arc<dyn Clock>) -> Result<Self, HubError> {
        Ok(Self {
            client: Client::new(&config, clock)?,
            config,
            turn: Mutex::new(()),
        })
    }

    /// Parses a model's name, or the address of its page on this hub or on the public hub.
    ///
    /// # Errors
    /// Returns [`HubError::BadModelId`] if the text is neither a name nor such an address.
    pub fn model(&self, name: &str) -> Result<ModelId, HubError> {
        ModelId::at(&self.config.endpoint, name)
    }

    /// Brings a model into the cache: the configuration, the tokenizer, and the weights in one
    /// format; or one GGUF file.
    ///
    /// A full commit hash needs no request if the cache has its files. A branch or tag is resolved
    /// by the hub. If the hub is unreachable or refuses access, the commit of the last call is
    /// used, and [`Fetched::note`] names that commit. A snapshot gets links only after all its
    /// files were downloaded and verified. If the hub limits requests, the call waits up to 330 s.
    ///
    /// # Errors
    /// Returns any [`HubError`] except [`HubError::BadModelId`]. The next call resumes an
    /// interrupted download.
    pub fn fetch(
        &self,
        id: &ModelId,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Fetched, HubError> {
        self.fetch_part(id, Part::Whole, progress)
    }

    /// Fetches a model without its weights, for a model that runs on a server or takes another's
    /// tokenizer. A GGUF file cannot
    /// be split and is fetched whole.
    ///
    /// # Errors
    /// Returns the errors of [`fetch`](Self::fetch).
    pub fn fetch_tokenizer(
        &self,
        id: &ModelId,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Fetched, HubError> {
        self.fetch_part(id, Part::Tokenizer, progress)
    }

    /// Fetches a model as [`fetch`](Self::fetch) does, but its tokenizer may be missing: another
    /// model's is used.
    ///
    /// # Errors
    /// Returns the errors of [`fetch`](Self::fetch).
    pub fn fetch_without_tokenizer(
        &self,
        id: &ModelId,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Fetched, HubError> {
        self.fetch_part(id, Part::NoTokenizer, progress)
    }

    /// Parses a data set's name, or the address of its page on this hub or on the public hub.
    ///
    /// # Errors
    /// Returns [`HubError::BadDataSetId`] if the text is neither a name nor such an address.
    pub fn data_set(&self, name: &str) -> Result<DataSetId, HubError> {
        DataSetId::at(&self.config.endpoint, name)
    }

    /// Brings the files of one split of a data set into the cache, where Python's `hf_hub_download`
    /// finds them, too.
    ///
    /// Without a revision the Hub's conversion to Parquet is taken, and the branch `main` if there
    /// is none. Requests, failures and an unreachable hub are handled as in [`fetch`](Self::fetch).
    ///
    /// # Errors
    /// Returns any [`HubError`] except those of names; [`HubError::DataSet`] names the subsets or
    /// splits to choose from.
    pub fn fetch_data(
        &self,
        id: &DataSetId,
        part: &DataSetPart,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<FetchedData, HubError> {
        let converted = self.fetch_split(id, CONVERTED, part, progress);
        match converted {
            Err(HubError::Request {
                error: RequestError::NoRevision,
                ..
            }) if !id.names_revision() => self.fetch_split(id, "main", part, progress),
            // Offline, the cache may have only the one or the other.
            Err(HubError::Offline { .. }) if !id.names_revision() => {
                let plain = self.fetch_split(id, "main", part, progress);
                plain.or(converted)
            }
            found => found,
        }
    }

    /// Fetches a split at the revision of `id`, or at `usual`.
    fn fetch_split(
        &self,
        id: &DataSetId,
        usual: &str,
        part: &DataSetPart,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<FetchedData, HubError> {
        let at = id.at_revision(usual);
        let is_converted = at.revision() == CONVERTED;
        let repo = RepoDir::new(&self.config.cache, &at);
        let choose = |names: &mut dyn Iterator<Item = &String>| {
            choose(names, is_converted, part).map_err(|reason| HubError::DataSet {
                id: id.to_string(),
                reason,
            })
        };
        // A snapshot has only the files of the splits that were fetched.
        let known = repo.commit(&at).and_then(|commit| {
            let names = file_names(&repo.snapshot(&commit));
            Some((choose(&mut names.iter()).ok()?, commit))
        });
        match known {
            Some((chosen, commit)) if at.commit().is_some() || self.config.offline => {
                Ok(FetchedData::new(id, &repo, chosen, commit, true, None))
            }
            None if self.config.offline => Err(self.offline(&at, &[])),
            known => observed(progress, |reporter| {
                let asked = Fetch {
                    hub: self,
                    repo: &repo,
                    id: &at,
                    part: Part::Whole,
                    retry: Retry {
                        clock: self.client.clock.as_ref(),
                        reporter,
                        turn: &self.turn,
                    },
                };
                let target = self.target(&at);
                let patience = match known {
                    Some(_) => Patience::NONE,
                    None => asked.patience(),
                };
                let listing = match (asked.listing(patience), known) {
                    (Err(TransferError::Request { error, .. }), Some((chosen, commit)))
                        if error.allows_cached_copy() =>
                    {
                        let note = format!("{target}: {error}; using the cached {commit}");
                        return Ok(FetchedData::new(
                            id,
                            &repo,
                            chosen,
                            commit,
                            true,
                            Some(note),
                        ));
                    }
                    (listing, _) => listing.map_err(|stop| stop.at(&target))?,
                };
                let chosen = choose(&mut listing.files.iter())?;
                let new = asked.bring(&listing.commit, &chosen.files)?;
                asked.record(&listing.commit, &new)?;
                Ok(FetchedData::new(
                    id,
                    &repo,
                    chosen,
                    listing.commit,
                    new.is_empty(),
                    None,
                ))
            }),
        }
    }

    fn fetch_part(
        &self,
        id: &ModelId,
        part: Part,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Fetched, HubError> {
        let repo = RepoDir::new(&self.config.cache, id);
        match Self::in_cache(&repo, id, part) {
            // The files of a commit never change, so a request could bring nothing new.
            Ok(known) if id.commit().is_some() || self.config.offline => Ok(known),
            Err(missing_files) if self.config.offline => Err(self.offline(id, &missing_files)),
            known => observed(progress, |reporter| {
                let asked = Fetch {
                    hub: self,
                    repo: &repo,
                    id,
                    part,
                    retry: Retry {
                        clock: self.client.clock.as_ref(),
                        reporter,
                        turn: &self.turn,
                    },
                };
                asked.run(known.ok())
            }),
        }
    }

    /// Returns the cache folder, which contains a folder `models--ORG--NAME` per repository.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.config.cache
    }

    /// Lists the cached models, sorted by name. Damaged entries are skipped or marked incomplete.
    #[must_use]
    pub fn cached(&self) -> Vec<CachedModel> {
        scan(&self.config.cache)
    }

    fn target(&self, id: &ModelId) -> RequestTarget {
        RequestTarget {
            repo: id.repo().to_owned(),
            revision: id.revision().to_owned(),
            file: None,
            endpoint: self.config.endpoint.clone(),
        }
    }

    /// Returns the cached model, or the names of its missing files; no names if all is missing.
    fn in_cache(repo: &RepoDir, id: &ModelId, part: Part) -> Result<Fetched, Vec<String>> {
        let Some(commit) = repo.commit(id) else {
            return Err(vec![]);
        };
        let snapshot = repo.snapshot(&commit);
        let names = file_names(&snapshot);
        // The hub may have more files with this quantisation; the cache is searched for one.
        let Ok(gguf) = id.gguf_among(names.iter().map(String::as_str)) else {
            let one = format!("one GGUF file of {}", id.quantisation().unwrap_or_default());
            return Err(if snapshot.is_dir() { vec![one] } else { vec![] });
        };
        let missing_files = missing(&snapshot, gguf.as_deref(), part);
        if !missing_files.is_empty() {
            return Err(if snapshot.is_dir() {
                missing_files
            } else {
                vec![]
            });
        }
        Ok(Fetched::new(snapshot, gguf, commit, true))
    }

    fn offline(&self, id: &ModelId, missing_files: &[String]) -> HubError {
        let missing = match missing_files {
            [] if id.kind() == Kind::DataSet => "the split is".to_owned(),
            [] => "the model is".to_owned(),
            [one] => format!("{one} is"),
            [first, rest @ ..] => format!("{first} and {} more files are", rest.len()),
        };
        let mut command = format!("hf download {}", id.repo());
        if id.kind() == Kind::DataSet {
            command.push_str(" --repo-type dataset");
        }
        if let Some(file) = id.file() {
            command.push_str(&format!(" {file}"));
        }
        if let Some(quantisation) = id.quantisation() {
            command.push_str(&format!(" --include '*{quantisation}*.gguf'"));
        }
        if id.revision() != "main" {
            command.push_str(&format!(" --revision {}", id.revision()));
        }
        HubError::Offline {
            id: id.to_string(),
            missing,
            cache: self.config.cache.clone(),
            command,
        }
    }
}

impl Fetched {
    fn new(snapshot: PathBuf, gguf: Option<String>, commit: String, from_cache: bool) -> Self {
        Self {
            path: match gguf {
                Some(file) => snapshot.join(file),
                None => snapshot,
            },
            commit,
            from_cache,
            note: None,
        }
    }
}

impl FetchedData {
    fn new(
        id: &DataSetId,
        repo: &RepoDir,
        chosen: Chosen,
        commit: String,
        from_cache: bool,
        note: Option<String>,
    ) -> Self {
        let snapshot = repo.snapshot(&commit);
        let partial = chosen.is_partial.then(|| {
            let split = &chosen.split;
            format!("{id}: the Hub has converted only the first 5 GB of {split}")
        });
        let files = chosen.files.iter();
        Self {
            files: files.map(|file| snapshot.join(file)).collect(),
            subset: chosen.subset,
            split: chosen.split,
            commit,
            from_cache,
            notes: note.into_iter().chain(partial).collect(),
        }
    }
}

/// One call of [`Hub::fetch`], on its own threads.
struct Fetch<'a> {
    hub: &'a Hub,
    repo: &'a RepoDir,
    id: &'a ModelId,
    part: Part,
    retry: Retry<'a>,
}

impl Fetch<'_> {
    /// Asks the hub, then downloads. `known` is the cached model, which is returned if the hub is
    /// unreachable or refuses access.
    fn run(&self, known: Option<Fetched>) -> Result<Fetched, HubError> {
        let target = self.hub.target(self.id);
        // A cached model can be used, so a network that is down must not delay the start by
        // retries.
        let patience = match known {
            Some(_) => Patience::NONE,
            None => self.patience(),
        };
        let listing = match (self.listing(patience), known) {
            (Err(TransferError::Request { error, .. }), Some(known))
                if error.allows_cached_copy() =>
            {
                let note = format!("{target}: {error}; using the cached {}", known.commit);
                return Ok(Fetched {
                    note: Some(note),
                    ..known
                });
            }
            (listing, _) => listing.map_err(|stop| stop.at(&target))?,
        };
        match self.download(&listing) {
            // The branch moved after the listing. A second listing is consistent unless the branch
            // moves again, and then the user gets the error.
            Err(HubError::Request {
                error: RequestError::OtherCommit { .. },
                ..
            }) => {
                let listing = self.listing(self.patience());
                self.download(&listing.map_err(|stop| stop.at(&target))?)
            }
            done => done,
        }
    }

    fn patience(&self) -> Patience {
        Patience::new(self.hub.config.retries)
    }

    /// Requests the current commit of the revision, and the names of its files.
    fn listing(&self, patience: Patience) -> Result<Listing, TransferError> {
        let Self { hub, id, .. } = self;
        let url = format!("{}/api/{}", hub.config.endpoint, hf_repo(id).api_url());
        let text = self.retry.run(patience, || Ok(hub.client.text(&url)?))?;
        let info: RepoInfo = serde_json::from_str(&text)
            .map_err(|error| bad_reply(format!("not a listing of a repository, {error}")))?;
        // The commit becomes the name of a folder, so its form is checked.
        if !is_commit(&info.sha) || id.commit().is_some_and(|commit| commit != info.sha) {
            return Err(bad_reply(format!("the commit {:?}", info.sha)));
        }
        let names = info.siblings.into_iter().map(|sibling| sibling.rfilename);
        let files: BTreeSet<String> = names.collect();
        match files.iter().find(|name| safe_path(name).is_err()) {
            // Only `..` is refused here. Repositories have odd names, e.g. with a colon, but only
            // the files to download need safe ones.
            Some(name) if name.split('/').any(|part| part == "..") => {
                Err(bad_reply(format!("the file name {name:?}")))
            }
            _ => Ok(Listing {
                commit: info.sha,
                files,
            }),
        }
    }

    fn download(&self, listing: &Listing) -> Result<Fetched, HubError> {
        let Self { repo, id, .. } = self;
        let Listing { commit, files } = listing;
        let target = self.hub.target(id);
        let snapshot = repo.snapshot(commit);
        let gguf = id.gguf_among(files.iter().map(String::as_str));
        let gguf = gguf.map_err(|error| target.failed(error))?;
        let needed = needed(files, gguf.as_deref(), self.part, &target)?;

        let mut new = self.bring(commit, &needed.files)?;
        if let Some(index) = needed.index {
            // The snapshot may not have a link to a new index yet, so the blob is read.
            let fresh = new.iter().find(|(file, _)| file == index);
            let path = fresh.map_or(snapshot.join(index), |(_, etag)| repo.blob(etag));
            let text = std::fs::read_to_string(&path).map_err(HubError::io(&path))?;
            let shards = shards(&text).map_err(|error| target.with_file(index).failed(error))?;
            // A missing shard is noticed before gigabytes of other shards are downloaded.
            if let Some(shard) = shards.iter().find(|shard| !files.contains(*shard)) {
                return Err(target.with_file(shard).failed(RequestError::NoFile));
            }
            new.extend(self.bring(commit, &shards)?);
        }

        self.record(commit, &new)?;
        Ok(Fetched::new(snapshot, gguf, commit.clone(), new.is_empty()))
    }

    /// Links downloaded files into the snapshot and records the commit of the revision.
    fn record(&self, commit: &str, new: &[(String, String)]) -> Result<(), HubError> {
        // Links come before the reference. A crash in between then leaves a snapshot without a
        // branch, and not a branch whose snapshot is incomplete.
        for (file, etag) in new {
            self.repo.link(commit, file, etag)?;
        }
        match self.id.commit() {
            None => self.repo.set_commit(self.id, commit),
            Some(_) => Ok(()),
        }
    }

    /// Downloads the files that the snapshot lacks, two at a time, after checking that the disk has
    /// room for all. Returns the files with the names of their blobs.
    fn bring<'f>(
        &self,
        commit: &str,
        files: impl IntoIterator<Item = &'f String>,
    ) -> Result<Vec<(String, String)>, HubError> {
        let snapshot = self.repo.snapshot(commit);
        let mut new = Vec::new();
        let mut jobs: Vec<Job> = Vec::new();
        for file in files {
            if snapshot.join(file).is_file() {
                continue;
            }
            let job = self.job(commit, file)?;
            let etag = job.metadata.etag.clone();
            // Files with equal contents share a blob. Two downloads of the blob would wait for each
            // other.
            if !jobs.iter().any(|other| other.metadata.etag == etag) {
                jobs.push(job);
            }
            new.push((file.clone(), etag));
        }
        let missing = jobs.iter().map(|job| job.missing(self.repo));
        let missing = missing.fold(0, u64::saturating_add);
        space::check(&self.repo.root, missing)?;

        let next = AtomicUsize::new(0);
        // Only the first error is kept; later ones follow from stopping the downloads.
        let failed = Mutex::new(None);
        let work = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed))
                && !self.retry.reporter.is_over()
            {
                let client = &self.hub.client;
                if let Err(error) = job.fetch(client, self.repo, &self.retry, self.patience()) {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(error);
                    self.retry.reporter.end();
                }
            }
        };
        thread::scope(|scope| {
            // This thread downloads, too, so a single file needs no second thread.
            for _ in 1..AT_ONCE.min(jobs.len()) {
                scope.spawn(work);
            }
            work();
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(new),
        }
    }

    /// Requests a file's headers and prepares its download.
    fn job(&self, commit: &str, file: &str) -> Result<Job, HubError> {
        let Self { hub, id, .. } = self;
        let target = hub.target(id).with_file(file);
        let url = file_url(&hub.config.endpoint, &hf_repo(id).url(), commit, file);
        let metadata = self.retry.run(self.patience(), || {
            match hub.client.metadata(&url) {
                // The repository was just listed, so it exists. Mirrors send 404 without a code for
                // a missing file.
                Err(RequestError::NoRepository) => Err(RequestError::NoFile.into()),
                metadata => Ok(metadata?),
            }
        });
        let metadata = metadata.map_err(|stop| stop.at(&target))?;
        match &metadata.commit {
            Some(found) if found != commit => Err(target.failed(RequestError::OtherCommit {
                listed: commit.to_owned(),
                found: found.clone(),
            })),
            _ => Ok(Job {
                target,
                file: file.to_owned(),
                url,
                metadata,
            }),
        }
    }
}

fn bad_reply(fault: String) -> TransferError {
    RequestError::BadReply(fault).into()
}
