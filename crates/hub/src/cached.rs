//! The list of cached models, which `beamgen models` prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::files::{Part, missing};
use crate::id::{is_commit, is_gguf};

/// A repository in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedModel {
    /// `ORG/NAME`.
    pub repo: String,
    /// The bytes on disk, with unfinished downloads. A file that several revisions share counts
    /// once.
    pub bytes: u64,
    /// The commits with a snapshot folder, sorted by hash.
    pub revisions: Vec<CachedRevision>,
}

/// One commit of a repository in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedRevision {
    /// The commit hash: 40 hexadecimal digits.
    pub commit: String,
    /// The branches and tags that meant this commit when the hub was last asked.
    pub refs: Vec<String>,
    /// The folder of the commit, which contains links to the files.
    pub path: PathBuf,
    /// The sum of the files' sizes in bytes, with files that other revisions share.
    pub bytes: u64,
    /// Whether a model can be loaded from the folder: configuration, tokenizer and all weights are
    /// there.
    pub is_complete: bool,
    /// The GGUF files as paths relative to `path`, sorted.
    pub gguf: Vec<String>,
    /// The time of the newest file; `None` if the file system does not record times.
    pub modified: Option<SystemTime>,
}

pub(crate) fn scan(cache: &Path) -> Vec<CachedModel> {
    let mut models: Vec<CachedModel> = entries(cache)
        .into_iter()
        .filter_map(|(name, path)| model(&name, &path))
        .collect();
    models.sort_by(|a, b| a.repo.cmp(&b.repo));
    models
}

fn model(folder: &str, path: &Path) -> Option<CachedModel> {
    let repo = folder.strip_prefix("models--")?.replacen("--", "/", 1);
    let mut refs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, file) in files(&path.join("refs")) {
        if let Ok(commit) = fs::read_to_string(file) {
            refs.entry(commit.trim().to_owned()).or_default().push(name);
        }
    }
    let mut revisions: Vec<CachedRevision> = entries(&path.join("snapshots"))
        .into_iter()
        .filter(|(commit, path)| is_commit(commit) && path.is_dir())
        .map(|(commit, path)| revision(refs.remove(&commit).unwrap_or_default(), commit, path))
        .collect();
    revisions.sort_by(|a, b| a.commit.cmp(&b.commit));
    // `symlink_metadata`, since a link in a snapshot must not count its blob again. On systems
    // without links the snapshots contain the files.
    let on_disk = files(path).into_iter().map(|(_, file)| file);
    let bytes = on_disk
        .filter_map(|file| fs::symlink_metadata(file).ok())
        .filter(fs::Metadata::is_file)
        .map(|found| found.len())
        .sum();
    // Python leaves an empty folder after a model was deleted.
    (bytes > 0 || !revisions.is_empty()).then_some(CachedModel {
        repo,
        bytes,
        revisions,
    })
}

fn revision(mut refs: Vec<String>, commit: String, path: PathBuf) -> CachedRevision {
    refs.sort();
    let found: Vec<(String, fs::Metadata)> = files(&path)
        .into_iter()
        // `metadata` follows links, so a link to a deleted blob is left out.
        .filter_map(|(name, file)| Some((name, fs::metadata(file).ok()?)))
        .filter(|(_, found)| found.is_file())
        .collect();
    let mut gguf: Vec<String> = found
        .iter()
        .map(|(name, _)| name.clone())
        .filter(|name| is_gguf(name))
        .collect();
    gguf.sort();
    CachedRevision {
        commit,
        refs,
        bytes: found.iter().map(|(_, found)| found.len()).sum(),
        is_complete: missing(&path, None, Part::Whole).is_empty(),
        gguf,
        modified: found.iter().filter_map(|(_, f)| f.modified().ok()).max(),
        path,
    }
}

pub(crate) fn file_names(snapshot: &Path) -> Vec<String> {
    let files = files(snapshot).into_iter();
    files.map(|(name, _)| name).collect()
}

/// Returns the names and paths in a folder; an empty list if the folder cannot be read.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else {
        return vec![];
    };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

/// Returns all files below a folder with their relative names. Links to folders are not followed,
/// since they may form a circle.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), folder.to_owned())];
    while let Some((prefix, folder)) = open.pop() {
        for (name, path) in entries(&folder) {
            let name = format!("{prefix}{name}");
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
                open.push((format!("{name}/"), path));
            } else {
                found.push((name, path));
            }
        }
    }
    found
}
