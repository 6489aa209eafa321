//! A bench file (configs/bench/): a TOML file with sets of problems, runs, and comparisons of runs.

use std::path::{Path, PathBuf};

use beamgen::Config;
use beamgen::scorer::ScorerKind;
use beamgen::strategy::StrategyName;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use toml::{Spanned, Table};

use crate::failure::Failure;

/// The maximum size of a bench file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The content of a bench file, whose settings have the type `S`. With [`Config`] all settings are
/// checked, so an error has its line. With [`Table`] only the written keys are kept, so that tables
/// can be merged.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    bound(deserialize = "S: Deserialize<'de> + Default")
)]
pub(crate) struct Written<S> {
    #[serde(default = "one")]
    pub seeds: u64,
    pub baseline: Option<Spanned<String>>,
    #[serde(default)]
    pub settings: S,
    #[serde(default, rename = "set")]
    pub sets: Vec<SetEntry>,
    #[serde(rename = "run")]
    pub runs: Vec<RunEntry<S>>,
    #[serde(default, rename = "compare")]
    pub compare: Vec<CompareEntry>,
    #[serde(default, rename = "plot")]
    pub plots: Vec<PlotEntry>,
}

fn one() -> u64 {
    1
}

/// A table `[[set]]`: problems from a file, or problems sampled from the bundled world.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetEntry {
    pub name: Spanned<String>,
    /// Relative to the bench file, or the name of a data set.
    pub file: Option<PathBuf>,
    /// The subset of a data set.
    pub subset: Option<String>,
    /// The split of a data set.
    pub split: Option<String>,
    pub count: Option<usize>,
    pub seed: Option<u64>,
    pub min_people: Option<usize>,
    pub max_people: Option<usize>,
    #[serde(alias = "reach")]
    pub dependency_distance: Option<usize>,
}

/// `[[run]]`: a line of the plots.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    bound(deserialize = "S: Deserialize<'de> + Default")
)]
pub(crate) struct RunEntry<S> {
    pub name: Spanned<String>,
    #[serde(default, deserialize_with = "strategy")]
    pub strategy: Option<StrategyName>,
    pub scorer: Option<ScorerKind>,
    /// The numbers of chains (N) to run with. An empty list means the value of `search.n`.
    #[serde(default)]
    pub n: Vec<usize>,
    #[serde(default)]
    pub settings: S,
}

/// `[[compare]]`: a paired difference.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompareEntry {
    pub a: Spanned<String>,
    pub b: Spanned<String>,
}

/// A table `[[plot]]`: the runs in one plot. A bench file without plots gets one plot of all runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlotEntry {
    pub name: Spanned<String>,
    pub runs: Vec<Spanned<String>>,
}

fn strategy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<StrategyName>, D::Error> {
    let name = String::deserialize(from)?;
    name.parse().map(Some).map_err(D::Error::custom)
}

/// A bench file, with its text for the line numbers in errors.
pub(crate) struct BenchFile {
    path: PathBuf,
    text: String,
    pub settings: Config,
    pub written: Written<Table>,
}

impl BenchFile {
    /// Reads a bench file. Returns `None` if the file is not a bench; it is then read as settings.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, Failure> {
        // If the file cannot be read, the error is left to the reader of settings.
        let Ok(text) = beamgen_files::read_text_file(path, MAX_BYTES) else {
            return Ok(None);
        };
        // A file with an error in its TOML may still be a bench. A line with `[[` shows that, and
        // then the error is reported for a bench rather than for settings.
        let is_bench = match text.parse::<Table>() {
            Ok(table) => table.contains_key("run") || table.contains_key("set"),
            Err(_) => text.lines().any(|line| line.trim_start().starts_with("[[")),
        };
        if !is_bench {
            return Ok(None);
        }
        // The text is parsed with typed settings first, only to report a wrong key or value with
        // its line.
        let checked: Written<Config> = parse(path, &text)?;
        Ok(Some(Self {
            settings: checked.settings,
            written: parse(path, &text)?,
            path: path.to_owned(),
            text,
        }))
    }

    /// The folder that the sets' files are relative to.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Returns an error about a value in the file, with the line of the value.
    pub(crate) fn fault(&self, at: &Spanned<String>, reason: impl std::fmt::Display) -> Failure {
        located(&self.path, &self.text, at.span().start, &reason.to_string())
    }

    /// Returns an error about the whole file, without a line.
    pub(crate) fn whole(&self, reason: &str) -> Failure {
        Failure::Input(format!("{}: {reason}", self.path.display()))
    }
}

/// Parses TOML. An error has the file and the line.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, Failure> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        located(path, text, start, error.message())
    })
}

fn located(path: &Path, text: &str, start: usize, reason: &str) -> Failure {
    let line = text.get(..start).unwrap_or("").matches('\n').count() + 1;
    Failure::Input(format!(
        "{}:{line}: {}",
        path.display(),
        reason.replace('\n', " ")
    ))
}
