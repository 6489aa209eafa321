//! A bench as a TOML file (configs/bench/): sets of problems, runs over numbers of chains, and
//! comparisons.

use std::path::{Path, PathBuf};

use beamgen::Config;
use beamgen::scorer::ScorerKind;
use beamgen::strategy::StrategyName;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use toml::{Spanned, Table};

use crate::failure::Failure;

/// The size limit of a bench file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The content of a bench file. `S` is the type of its settings: [`Config`] checks them, so that an
/// error has their line; [`Table`] keeps only the written keys, so that tables can be merged.
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

/// `[[set]]`: problems of a file, or problems sampled from the bundled world.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetEntry {
    pub name: Spanned<String>,
    /// Relative to the bench file.
    pub file: Option<PathBuf>,
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
    /// The numbers of chains to run with; if empty, the settings' `search.n`.
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

/// `[[plot]]`: runs that share a plot. A file without such tables has one plot of all runs.
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

/// A bench file with its text, which error messages need for line numbers.
pub(crate) struct BenchFile {
    path: PathBuf,
    text: String,
    pub settings: Config,
    pub written: Written<Table>,
}

impl BenchFile {
    /// Reads the file if it is a bench. Returns `None` otherwise: the file is then read as settings.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, Failure> {
        // A file that cannot be read is reported by the reader of settings.
        let Ok(text) = beamgen_files::read_text_file(path, MAX_BYTES) else {
            return Ok(None);
        };
        // A file that is not valid TOML may still be meant as a bench: with a `[[` line, its error
        // is reported as a bench's, not as that of settings.
        let is_bench = match text.parse::<Table>() {
            Ok(table) => table.contains_key("run") || table.contains_key("set"),
            Err(_) => text.lines().any(|line| line.trim_start().starts_with("[[")),
        };
        if !is_bench {
            return Ok(None);
        }
        // Parsed twice: with typed settings only to report a wrong key or value at its line.
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

    /// Returns an error about a value of the file, with the value's line number.
    pub(crate) fn fault(&self, at: &Spanned<String>, reason: impl std::fmt::Display) -> Failure {
        located(&self.path, &self.text, at.span().start, &reason.to_string())
    }

    /// Returns an error about the file as a whole.
    pub(crate) fn whole(&self, reason: &str) -> Failure {
        Failure::Input(format!("{}: {reason}", self.path.display()))
    }
}

/// Parses TOML; an error names the file and the line.
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
