//! Data sets by name: the choice of a subset, a split and its files among those of a repository.
//!
//! The Hub converts every data set to Parquet on the branch `refs/convert/parquet`, as
//! `SUBSET/SPLIT/0000.parquet`; its listing is that of the route `/api/datasets/NAME/parquet`. A
//! named revision, and a hub without conversions, has files as their author arranged them. Their
//! splits are found by names, as Python's `datasets` finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The branch with the Hub's conversions.
pub(crate) const CONVERTED: &str = "refs/convert/parquet";

/// A split of which the Hub has converted only the first 5 GB.
const PARTIAL: &str = "partial-";

/// The endings of files with records; packed files have a further one.
const RECORDS: [&str; 5] = ["parquet", "jsonl", "json", "csv", "tsv"];
const PACKED: [&str; 3] = ["gz", "zst", "xz"];

/// The words for splits in names of files and folders.
const SPLITS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "val", "dev", "eval"]),
    ("test", &["test", "testing"]),
];

/// The subset and the split that a caller wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataSetPart {
    /// The subset (configuration). By default `default`, or the only one.
    pub subset: Option<String>,
    /// The split. By default `test`, or the only one.
    pub split: Option<String>,
}

/// A split of a data set that is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedData {
    /// The files of the split, in order.
    pub files: Vec<PathBuf>,
    /// The chosen subset.
    pub subset: String,
    /// The chosen split.
    pub split: String,
    /// The commit of the files: 40 hexadecimal digits.
    pub commit: String,
    /// Whether no file had to be downloaded.
    pub from_cache: bool,
    /// Warnings for the user: an outdated commit, or a split that is not complete.
    pub notes: Vec<String>,
}

/// The files of a chosen split.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub subset: String,
    pub split: String,
    pub files: Vec<String>,
    pub is_partial: bool,
}

/// Chooses the files of a split among those of a repository. `is_converted` says whether the names
/// are those of the Hub's conversion.
///
/// # Errors
/// Returns a message with the subsets or splits to choose from.
pub(crate) fn choose<'a>(
    names: impl IntoIterator<Item = &'a String>,
    is_converted: bool,
    part: &DataSetPart,
) -> Result<Chosen, String> {
    let mut subsets: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for name in names {
        let found = if is_converted {
            converted(name)
        } else {
            arranged(name)
        };
        if let Some((subset, split)) = found {
            let splits = subsets.entry(subset).or_default();
            splits.entry(split).or_default().push(name.clone());
        }
    }
    if subsets.is_empty() {
        return Err("it has no Parquet, JSON or CSV files: name another revision".to_owned());
    }
    let subset = one_of("subset", part.subset.as_deref(), "default", subsets.keys())?;
    let splits = &subsets[&subset];
    let known = splits.keys();
    let known: BTreeSet<String> = known
        .map(|split| split.strip_prefix(PARTIAL).unwrap_or(split).to_owned())
        .collect();
    let split = one_of("split", part.split.as_deref(), "test", known.iter())?;
    let (files, is_partial) = match splits.get(&split) {
        Some(files) => (files, false),
        None => (&splits[&format!("{PARTIAL}{split}")], true),
    };
    let mut files = files.clone();
    files.sort();
    Ok(Chosen {
        subset,
        split,
        files,
        is_partial,
    })
}

/// Returns the wanted name, the usual one, or the only one.
fn one_of<'a>(
    what: &str,
    wanted: Option<&str>,
    usual: &str,
    known: impl Iterator<Item = &'a String> + Clone,
) -> Result<String, String> {
    let has = |name: &str| known.clone().any(|known| known == name);
    let list = || {
        let names: Vec<&str> = known.clone().map(String::as_str).collect();
        names.join(", ")
    };
    match wanted {
        Some(name) if has(name) => Ok(name.to_owned()),
        Some(name) => Err(format!("no {what} {name:?}: choose from {}", list())),
        None if has(usual) => Ok(usual.to_owned()),
        None if known.clone().count() == 1 => Ok(list()),
        None => Err(format!(
            "it has several {what}s: add --{what} with one of {}",
            list()
        )),
    }
}

/// Returns subset and split of a file of the conversion, such as `main/test/0000.parquet`.
fn converted(name: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [subset, split, file] if file.ends_with(".parquet") => {
            Some((subset.to_owned(), split.to_owned()))
        }
        _ => None,
    }
}

/// Returns subset and split of a file as an author arranged it: the word for a split is in the
/// file's name or in a folder's; the first folder that is neither `data` nor a split is the subset.
/// A file without such a word belongs to `train`, as in `datasets`.
fn arranged(name: &str) -> Option<(String, String)> {
    let mut stem = name;
    for packed in PACKED {
        stem = stem
            .strip_suffix(packed)
            .and_then(|stem| stem.strip_suffix('.'))
            .unwrap_or(stem);
    }
    let (stem, extension) = stem.rsplit_once('.')?;
    let is_hidden = name.split('/').any(|part| part.starts_with(['.', '_']));
    // The Hub's own description of a data set.
    let is_about = matches!(
        name,
        "dataset_infos.json" | "dataset_dict.json" | "state.json"
    );
    if !RECORDS.contains(&extension) || is_hidden || is_about {
        return None;
    }
    let mut parts: Vec<&str> = stem.split('/').collect();
    let file = parts.pop()?;
    let split = split_in(file).or_else(|| parts.iter().rev().find_map(|folder| split_in(folder)));
    let mut folders = parts.into_iter();
    let subset = folders.find(|folder| *folder != "data" && split_in(folder).is_none());
    Some((
        subset.unwrap_or("default").to_owned(),
        split.unwrap_or("train").to_owned(),
    ))
}

/// Returns the split that a name has as a whole word: `test-00000-of-00001`, `gsm8k_test`.
fn split_in(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphabetic());
    words.find_map(|word| {
        let mut splits = SPLITS.iter();
        let found = splits.find(|(_, words)| words.contains(&word));
        found.map(|(split, _)| *split)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        list.split_whitespace().map(str::to_owned).collect()
    }

    fn part(subset: &str, split: &str) -> DataSetPart {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        DataSetPart {
            subset: given(subset),
            split: given(split),
        }
    }

    #[test]
    fn the_conversion_has_subsets_and_splits_as_folders() {
        let listed = names(
            ".gitattributes main/test/0001.parquet main/test/0000.parquet \
             main/partial-train/0000.parquet socratic/test/0000.parquet",
        );
        let chosen = choose(&listed, true, &part("main", "")).unwrap();
        assert_eq!((chosen.split.as_str(), chosen.is_partial), ("test", false));
        assert_eq!(
            chosen.files,
            ["main/test/0000.parquet", "main/test/0001.parquet"]
        );
        let partial = choose(&listed, true, &part("main", "train")).unwrap();
        assert!(partial.is_partial, "{partial:?}");
        for (wanted, message) in [
            (
                part("", ""),
                "it has several subsets: add --subset with one of main, socratic",
            ),
            (
                part("other", ""),
                "no subset \"other\": choose from main, socratic",
            ),
            (
                part("main", "dev"),
                "no split \"dev\": choose from test, train",
            ),
        ] {
            assert_eq!(choose(&listed, true, &wanted).unwrap_err(), message);
        }
    }

    #[test]
    fn authors_arrange_files_by_words() {
        for (name, found) in [
            ("test.jsonl", Some(("default", "test"))),
            (
                "data/test-00000-of-00001.parquet",
                Some(("default", "test")),
            ),
            ("main/train-00000-of-00001.parquet", Some(("main", "train"))),
            ("algebra/test/1.json.gz", Some(("algebra", "test"))),
            ("data/gsm8k_dev.csv.zst", Some(("default", "validation"))),
            ("problems.jsonl", Some(("default", "train"))),
            // A word is whole: this is no test.
            ("contest.jsonl", Some(("default", "train"))),
            ("README.md", None),
            ("dataset_infos.json", None),
            (".cache/test.json", None),
            ("images/test.png", None),
        ] {
            let found = found.map(|(subset, split)| (subset.to_owned(), split.to_owned()));
            assert_eq!(arranged(name), found, "{name}");
        }
        let listed = names("train.jsonl");
        assert_eq!(
            choose(&listed, false, &part("", "")).unwrap().split,
            "train"
        );
        let none = choose(&names("README.md"), false, &part("", "")).unwrap_err();
        assert!(none.starts_with("it has no Parquet"), "{none}");
    }
}
