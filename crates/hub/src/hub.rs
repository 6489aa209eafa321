//! Downloads a model into the cache.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hf_hub::api::RepoInfo;

use crate::blob::{self, TransferError, with_retries};
use crate::cached::{CachedModel, scan};
use crate::error::{RequestError, RequestTarget};
use crate::files::{Part, missing, needed, shards};
use crate::http::{Client, file_url};
use crate::id::{is_commit, safe_path};
use crate::repo_dir::{RepoDir, hf_repo};
use crate::{HubConfig, HubError, ModelId, Progress};

/// A hub and its cache.
#[derive(Debug)]
pub struct Hub {
    config: HubConfig,
    client: Client,
}

/// A model that is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The snapshot folder, or the GGUF file if one was named.
    pub path: PathBuf,
    /// The commit.
    pub commit: String,
    /// Whether no file had to be downloaded.
    pub from_cache: bool,
    /// What the user should know: the hub was not asked, or did not answer.
    pub note: Option<String>,
}

impl Hub {
    /// A hub with these settings. Makes no request.
    ///
    /// # Errors
    /// [`HubError::BadSetting`] for an endpoint or a token that cannot be one.
    pub fn new(config: HubConfig) -> Result<Self, HubError> {
        let client = Client::new(&config)?;
        Ok(Self { config, client })
    }

    /// Brings a model into the cache: the configuration, the tokenizer, and the weights in one
    /// format; or one GGUF file.
    ///
    /// A full commit hash whose files are there needs no request. For a branch or a tag the hub is
    /// asked what it means now; if it cannot be reached, or refuses access, what the revision meant
    /// last time is used, and the note says so. A snapshot gets its links when all its files have
    /// been downloaded and verified.
    ///
    /// # Errors
    /// Any [`HubError`] but [`HubError::BadModelId`]. After an interruption the next call
    /// continues.
    pub fn fetch(
        &self,
        id: &ModelId,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Fetched, HubError> {
        self.fetch_part(id, Part::Whole, progress)
    }

    /// [`fetch`](Self::fetch) without the weights, for a model that a server runs. (A GGUF file is
    /// one piece, and comes whole.)
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub fn fetch_tokenizer(
        &self,
        id: &ModelId,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Fetched, HubError> {
        self.fetch_part(id, Part::Tokenizer, progress)
    }

    fn fetch_part(
        &self,
        id: &ModelId,
        part: Part,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Fetched, HubError> {
        let repo = RepoDir::new(&self.config.cache, id);
        let known = self.in_cache(&repo, id, part);
        match known {
            Ok(known) if id.commit().is_some() || self.config.offline => Ok(known),
            Err(missing_files) if self.config.offline => Err(self.offline(id, &missing_files)),
            Ok(known) => match self.listing(id, 0) {
                Err(TransferError::Request { error, .. }) if error.allows_cached_copy() => {
                    Ok(Fetched {
                        note: Some(format!(
                            "{}: {error}; using the cached {}",
                            self.target(id),
                            known.commit
                        )),
                        ..known
                    })
                }
                listing => self.download(&repo, id, part, listing, progress),
            },
            Err(_) => {
                let listing = self.listing(id, self.config.retries);
                self.download(&repo, id, part, listing, progress)
            }
        }
    }

    /// The folder of the cache.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.config.cache
    }

    /// The models of the cache, by name. What is damaged is left out, or incomplete.
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

    /// The model as it is in the cache, or the names of the files that are missing there.
    fn in_cache(&self, repo: &RepoDir, id: &ModelId, part: Part) -> Result<Fetched, Vec<String>> {
        let Some(commit) = repo.commit(id) else {
            return Err(vec![]);
        };
        let snapshot = repo.snapshot(&commit);
        let missing_files = missing(&snapshot, id.file(), part);
        if !missing_files.is_empty() {
            return Err(if snapshot.is_dir() {
                missing_files
            } else {
                vec![]
            });
        }
        Ok(Fetched {
            path: id
                .file()
                .map_or(snapshot.clone(), |file| snapshot.join(file)),
            commit,
            from_cache: true,
            note: None,
        })
    }

    fn offline(&self, id: &ModelId, missing_files: &[String]) -> HubError {
        let missing = match missing_files {
            [] => "the model is".to_owned(),
            [one] => format!("{one} is"),
            [first, rest @ ..] => format!("{first} and {} more files are", rest.len()),
        };
        let mut command = format!("hf download {}", id.repo());
        if let Some(file) = id.file() {
            command.push_str(&format!(" {file}"));
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

    /// The commit that the revision means now, and the names of its files.
    fn listing(
        &self,
        id: &ModelId,
        retries: u32,
    ) -> Result<(String, BTreeSet<String>), TransferError> {
        let url = format!("{}/api/{}", self.config.endpoint, hf_repo(id).api_url());
        let text = with_retries(retries, || Ok(self.client.text(&url)?))?;
        let bad = |what: String| TransferError::from(RequestError::BadReply(what));
        let info: RepoInfo = serde_json::from_str(&text)
            .map_err(|error| bad(format!("no listing of a repository, {error}")))?;
        if !is_commit(&info.sha) || id.commit().is_some_and(|commit| commit != info.sha) {
            return Err(bad(format!("the commit {:?}", info.sha)));
        }
        let names = info.siblings.into_iter().map(|sibling| sibling.rfilename);
        let names: BTreeSet<String> = names.collect();
        match names.iter().find(|name| safe_path(name).is_err()) {
            Some(name) if name.split('/').any(|part| part == "..") => {
                Err(bad(format!("the file name {name:?}")))
            }
            _ => Ok((info.sha, names)),
        }
    }

    fn download(
        &self,
        repo: &RepoDir,
        id: &ModelId,
        part: Part,
        listing: Result<(String, BTreeSet<String>), TransferError>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Fetched, HubError> {
        let target = self.target(id);
        let (commit, listed) = listing.map_err(|stop| stop.at(&target))?;
        let snapshot = repo.snapshot(&commit);
        let needed = needed(&listed, id.file(), part, &target)?;

        let mut new = Vec::new();
        let mut download_file = |file: &str| -> Result<PathBuf, HubError> {
            let linked = snapshot.join(file);
            if linked.is_file() {
                return Ok(linked);
            }
            let etag = self.blob(repo, id, &commit, file, progress)?;
            let blob = repo.blob(&etag);
            new.push((file.to_owned(), etag));
            Ok(blob)
        };
        let mut last = snapshot.clone();
        for file in &needed.files {
            last = download_file(file)?;
        }
        if let Some(index) = needed.index {
            // the index is the last of the files
            let text = std::fs::read_to_string(&last).map_err(HubError::io(&last))?;
            let shards = shards(&text).map_err(|error| target.of(index).failed(error))?;
            if let Some(shard) = shards.iter().find(|shard| !listed.contains(*shard)) {
                return Err(target.of(shard).failed(RequestError::NoFile));
            }
            for shard in &shards {
                download_file(shard)?;
            }
        }

        for (file, etag) in &new {
            repo.link(&commit, file, etag)?;
        }
        if id.commit().is_none() {
            repo.set_commit(id, &commit)?;
        }
        Ok(Fetched {
            path: id
                .file()
                .map_or(snapshot.clone(), |file| snapshot.join(file)),
            commit,
            from_cache: new.is_empty(),
            note: None,
        })
    }

    /// Brings one file's content into the cache; returns its blob's name.
    fn blob(
        &self,
        repo: &RepoDir,
        id: &ModelId,
        commit: &str,
        file: &str,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<String, HubError> {
        let target = self.target(id).of(file);
        let retries = self.config.retries;
        let url = file_url(&self.config.endpoint, id.repo(), commit, file);
        let metadata = with_retries(retries, || match self.client.metadata(&url) {
            // not the repository: the hub has just listed it
            Err(RequestError::NoRepository) => Err(RequestError::NoFile.into()),
            metadata => Ok(metadata?),
        })
        .map_err(|stop| stop.at(&target))?;
        blob::fetch(
            &self.client,
            repo,
            &url,
            &metadata,
            retries,
            &target,
            progress,
        )?;
        Ok(metadata.etag)
    }
}
