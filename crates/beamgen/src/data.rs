//! Finds data by name: a file on this machine, or a split of a data set on a Hugging Face hub.

use std::path::Path;

use beamgen_eval::DataSource;
use beamgen_hub::{DataSetPart, Hub, HubError, Progress};

use crate::Error;

/// The endings of files that are no names of data sets, so that a missing file is called missing.
const FILES: [&str; 9] = [
    "jsonl", "json", "csv", "tsv", "parquet", "txt", "gz", "zst", "xz",
];

/// Data that were found.
#[derive(Clone, Debug)]
pub struct FoundData {
    /// The file, or the files of the split.
    pub source: DataSource,
    /// Notes for the user, a line each.
    pub notes: Vec<String>,
}

/// Finds the file or the data set `given`. A path that exists wins, as in Python's `datasets`; `-`
/// is the standard input. `hub` opens the hub, and is called only for the name of a data set.
///
/// # Errors
/// Returns [`Error::PartOfFile`] if `part` names a part of a file, [`Error::NoData`] if neither a
/// file nor a data set has the name, and other errors of the hub.
pub fn find_data(
    given: &Path,
    part: &DataSetPart,
    hub: impl FnOnce() -> Result<Hub, Error>,
    progress: &mut dyn FnMut(Progress),
) -> Result<FoundData, Error> {
    let is_file = given.as_os_str() == "-" || given.exists();
    let named = given.to_str();
    let Some(name) = named.filter(|name| !is_file && may_be_data_set(name)) else {
        if is_file && *part != DataSetPart::default() {
            return Err(Error::PartOfFile(given.to_owned()));
        }
        return Ok(FoundData {
            source: DataSource::from(given),
            notes: Vec::new(),
        });
    };
    let hub = hub()?;
    let id = hub.data_set(name)?;
    let fetched = hub
        .fetch_data(&id, part, progress)
        .map_err(|error| match error {
            // The name may have been meant as a path.
            HubError::Request { .. } => Error::NoData {
                name: name.to_owned(),
                error,
            },
            error => error.into(),
        })?;
    Ok(FoundData {
        source: DataSource {
            name: format!("{id} ({}, {})", fetched.subset, fetched.split),
            parts: fetched.files,
        },
        notes: fetched.notes,
    })
}

/// Whether a text that names no file may name a data set: `ORG/NAME`, with a revision or as an
/// address.
pub fn may_be_data_set(text: &str) -> bool {
    let name = text.split('@').next().unwrap_or(text);
    let extension = name
        .rsplit_once('.')
        .map(|(_, end)| end.to_ascii_lowercase());
    let is_file = extension.is_some_and(|end| FILES.contains(&end.as_str()));
    let parts: Vec<&str> = name.split('/').collect();
    text.starts_with("https://")
        || text.starts_with("http://")
        || (!is_file && parts.len() == 2 && parts.into_iter().all(is_plain))
}

/// Whether a text may be an organisation or a repository's name.
fn is_plain(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_alphanumeric()) && !part.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_data_sets_are_not_those_of_files() {
        for name in [
            "openai/gsm8k",
            "HuggingFaceH4/MATH-500@main",
            "https://hf.co/datasets/a/b",
        ] {
            assert!(may_be_data_set(name), "{name}");
        }
        for name in [
            "p.jsonl",
            "data/p.jsonl",
            "data/p.jsonl.zst",
            "./a/b",
            "../b",
            "/a/b",
            "a/b/c",
            "What is 1/2?",
            "a b/c",
        ] {
            assert!(!may_be_data_set(name), "{name}");
        }
    }

    #[test]
    fn a_file_needs_no_hub_and_has_no_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.jsonl");
        std::fs::write(&path, "").unwrap();
        let no_hub = || -> Result<Hub, Error> { panic!("no hub is needed") };
        let found = find_data(&path, &DataSetPart::default(), no_hub, &mut |_| ()).unwrap();
        assert_eq!(found.source, DataSource::from(&path));
        let part = DataSetPart {
            split: Some("test".to_owned()),
            ..DataSetPart::default()
        };
        let refused = find_data(&path, &part, no_hub, &mut |_| ()).unwrap_err();
        assert!(refused.to_string().contains("has no subsets"), "{refused}");
    }
}
