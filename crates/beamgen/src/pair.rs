//! Pairs of published models by name, each a TOML file in `configs/pairs/`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::{Table, Value};

use crate::config::lay_over;
use crate::config::{SettingsFile, parse, read};
use crate::known::is_gated;
use crate::pair_header::{Fits, PairMemory};
use crate::{Config, Error};

/// Name and text of every file in `configs/pairs/`, by name.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pairs.rs"));

/// A generator and a reward model that are used together, with settings that suit them.
///
/// A pair's file is a settings file with an additional table `[pair]`, which states the pair's
/// name, use and needs. The settings follow the models' authors or published searches; all others
/// have their defaults.
///
/// ```
/// let pair = beamgen::Pair::find("qwen2.5-math-1.5b")?;
/// assert_eq!(pair.prm.to_str(), Some("Qwen/Qwen2.5-Math-PRM-7B"));
/// # Ok::<(), beamgen::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pair {
    /// The name of the pair. For a pair of [`Pair::all`], it is the file's name without `.toml`.
    pub name: String,
    /// A description of the pair's use, in one line.
    pub summary: String,
    /// The generator: `ORG/NAME` of a hub, or a path.
    pub generator: PathBuf,
    /// The reward model: `ORG/NAME` of a hub, or a path.
    pub prm: PathBuf,
    /// The smallest machine that the pair runs on; `None` if the file does not state it.
    pub fits: Option<Fits>,
    /// The memory that the pair needs; `None` if the file does not state it.
    pub memory: Option<PairMemory>,
    /// The size of the download before the first run, in bytes; `None` if the file does not state
    /// it.
    pub download: Option<u64>,
    #[serde(skip)]
    settings: Table,
}

/// The settings that belong to each model of a pair.
const OF_MODELS: [(&str, &[&str]); 2] = [
    ("generator", &["tokenizer"]),
    ("prm", &["prm_format", "prm_reference", "prm_tokenizer"]),
];

impl Pair {
    /// Returns the models whose licence must be accepted on the hub before a download.
    pub fn gated(&self) -> impl Iterator<Item = &str> {
        let models = [&self.generator, &self.prm].into_iter();
        let names = models.filter_map(|model| model.to_str());
        names.filter(|name| is_gated(name))
    }

    /// Returns the bundled pairs, sorted by name.
    pub fn all() -> impl Iterator<Item = Self> {
        // A test parses every bundled file, so `ok` never drops a pair.
        BUILT_IN
            .iter()
            .filter_map(|(name, text)| Self::parse(text, Path::new(name)).ok())
    }

    /// Finds a bundled pair by name. A name that ends in `.toml` is the path of a pair's file.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPair`], which suggests the nearest name, or the errors of
    /// [`load`](Self::load).
    pub fn find(name_or_path: &str) -> Result<Self, Error> {
        let path = Path::new(name_or_path);
        if let Some((_, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(text, path);
        }
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            return Self::load(path);
        }
        Err(Error::UnknownPair {
            name: name_or_path.to_owned(),
            nearest: nearest(name_or_path),
        })
    }

    /// Reads a pair from a TOML file.
    ///
    /// # Errors
    /// Returns an error with file and line if the file cannot be read, is not valid TOML, has an
    /// unknown key or a value of the wrong type, lacks the table `[pair]`, or does not name both
    /// models.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::parse(&read(path)?, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let file: SettingsFile = parse(text, path)?;
        let lacking = |what: &str| Error::ConfigFile {
            path: path.to_owned(),
            line: 1,
            reason: format!("a pair needs {what}"),
        };
        let header = file.pair.ok_or_else(|| lacking("a table [pair]"))?;
        let models = file.models;
        let mut settings: Table = parse(text, path)?;
        // The rest of the table becomes a `Config`, which refuses the key `pair`.
        settings.remove("pair");
        Ok(Self {
            name: header.name,
            summary: header.summary,
            generator: models
                .generator
                .ok_or_else(|| lacking("models.generator"))?,
            prm: models.prm.ok_or_else(|| lacking("models.prm"))?,
            fits: header.fits,
            memory: header.memory,
            download: header.download,
            settings,
        })
    }

    /// Returns the pair's settings. Settings that the pair does not set have their defaults.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid. [`load`](Self::load) and [`find`](Self::find)
    /// have checked them already.
    pub fn config(&self) -> Result<Config, Error> {
        self.with(&Table::new())
    }

    /// Returns the pair's settings with the values of `over` and, if given, another reward model. A
    /// new reward model does not inherit the format of the pair's own.
    ///
    /// # Errors
    /// Returns the errors of [`with`](Self::with).
    pub fn under(&self, mut over: Table, prm: Option<&Path>) -> Result<Config, Error> {
        if let Some(prm) = prm {
            let models = over.entry("models").or_insert(Table::new().into());
            if let (Some(models), Ok(prm)) = (models.as_table_mut(), Value::try_from(prm)) {
                models.insert("prm".to_owned(), prm);
            }
        }
        self.with(&over)
    }

    /// Returns the pair's settings with the values of `over`. If `over` names another model, the
    /// pair's settings that belong to its own are dropped: the tokenizer, and the reward model's
    /// format and reference model.
    ///
    /// # Errors
    /// Returns [`Error::ConfigFile`] for an unknown key or an invalid value in `over`.
    pub fn with(&self, over: &Table) -> Result<Config, Error> {
        let mut settings = self.settings.clone();
        for (model, own) in OF_MODELS {
            let is_named = over
                .get("models")
                .is_some_and(|models| models.get(model).is_some());
            if is_named && let Some(Value::Table(models)) = settings.get_mut("models") {
                models.retain(|key, _| !own.contains(&key));
            }
        }
        lay_over(&mut settings, over);
        settings
            .try_into()
            .map_err(|error: toml::de::Error| Error::ConfigFile {
                path: PathBuf::from(&self.name),
                line: 1,
                reason: error.message().replace('\n', " "),
            })
    }
}

/// Returns the name of the bundled pair with the smallest edit distance to `name`, however large
/// the distance is.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    BUILT_IN
        .iter()
        .map(|(pair, _)| *pair)
        .min_by_key(|pair| strsim::damerau_levenshtein(&name, pair))
}

#[cfg(all(test, unix))]
mod figures;

#[cfg(test)]
mod tests {
    use super::*;
    use beamgen_engine::WeightType;

    #[test]
    fn every_file_is_a_pair_of_its_name_whose_settings_can_be_run() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/pairs");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let pair = Pair::load(&path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(path.file_stem().unwrap(), pair.name.as_str());
            assert_eq!(Pair::find(&pair.name).unwrap(), pair);
            assert!(pair.fits.is_some() && pair.memory.is_some() && pair.download.is_some());
            pair.config().unwrap().check().unwrap();
            files += 1;
        }
        let names: Vec<_> = Pair::all().map(|pair| pair.name).collect();
        assert_eq!(names.len(), files);
        assert!(names.is_sorted());
    }

    #[test]
    fn there_are_pairs_for_each_machine() {
        for fits in Fits::ALL {
            let count = Pair::all().filter(|pair| pair.fits == Some(fits)).count();
            assert!(count >= 2, "{fits}");
        }
    }

    #[test]
    fn a_name_that_is_not_known_is_told_with_the_nearest() {
        for (name, near) in [
            ("qwen2.5-math-1.5B", "qwen2.5-math-1.5b"),
            ("qwen-math-7b", "qwen2.5-math-7b"),
            ("lama3.2-1b", "llama3.2-1b"),
        ] {
            let error = Pair::find(name).unwrap_err();
            let text = error.to_string();
            assert!(error.is_input() && !text.contains('\n'), "{text}");
            assert!(
                text.contains(name) && text.ends_with(&format!("{near:?}")),
                "{text}"
            );
        }
    }

    const MINE: &str = r#"
        [pair]
        name = "mine"
        summary = "a pair of my own"
        [models]
        generator = "models/g"
        tokenizer = "models/t"
        prm_tokenizer = "models/u"
        prm = "models/p"
        prm_format = "math-shepherd"
        prm_reference = "models/r"
        dtype = "bf16"
        [search]
        n = 8
        [generator]
        boundaries = "\n\n"
    "#;

    fn folder(text: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (dir, path)
    }

    #[test]
    fn a_file_of_ones_own_is_a_pair() {
        let (_dir, path) = folder(MINE);
        let pair = Pair::find(&path).unwrap();
        assert_eq!((pair.name.as_str(), pair.fits), ("mine", None));
        let config = pair.config().unwrap();
        assert_eq!(config.generator.boundaries, ["\n\n"]);
        assert_eq!(config.search.n, 8);
        assert_eq!(config.search.m, Config::default().search.m);
        // As a settings file it says the same.
        assert_eq!(Config::load(Path::new(&path)).unwrap(), config);
        let builder = crate::Solver::builder()
            .pair(&path)
            .unwrap()
            .generator("x")
            .seed(7);
        assert_eq!(builder.current_config().models.generator, Some("x".into()));
        assert_eq!(builder.current_config().models.prm, Some("models/p".into()));
    }

    #[test]
    fn other_settings_lie_over_a_pairs() {
        let (_dir, path) = folder(MINE);
        let pair = Pair::find(&path).unwrap();
        let over: Table =
            "[search]\nm = 2\n[generator]\nboundaries = \"\\n\"\n[models]\ndtype = \"int8\""
                .parse()
                .unwrap();
        let config = pair.with(&over).unwrap();
        assert_eq!((config.search.n, config.search.m), (8, 2));
        assert_eq!(config.generator.boundaries, ["\n"]);
        assert_eq!(config.models.dtype, WeightType::Int8);
        assert_eq!(config.models.prm_format.as_deref(), Some("math-shepherd"));
        // Another reward model is another format.
        let over: Table = "[models]\nprm = \"models/q\"".parse().unwrap();
        let models = pair.with(&over).unwrap().models;
        assert_eq!(models.prm, Some("models/q".into()));
        assert_eq!((models.prm_format, models.prm_reference), (None, None));
        assert_eq!(models.prm_tokenizer, None);
        assert_eq!(models.tokenizer, Some("models/t".into()));
        let over: Table = "[models]\ngenerator = \"models/h\"".parse().unwrap();
        let models = pair.with(&over).unwrap().models;
        assert_eq!(
            (models.tokenizer, models.prm_tokenizer),
            (None, Some("models/u".into()))
        );
        assert_eq!(models.generator, Some("models/h".into()));
    }

    #[test]
    fn faults_of_a_file_have_their_line() {
        for (from, to, words) in [
            ("[pair]", "[pairs]", ":2: unknown field `pairs`"),
            ("summary", "sumary", ":4: unknown field `sumary`"),
            ("boundaries", "boundary_", ":16: unknown field `boundary_`"),
            ("n = 8", "n = \"8\"", ":14: invalid type: string"),
            ("prm = \"models/p\"", "", ":1: a pair needs models.prm"),
            (
                "generator = \"models/g\"",
                "",
                ":1: a pair needs models.generator",
            ),
            (
                "summary = \"a pair of my own\"",
                "summary = \"\"\nmemory = { bf16 = \"big\", int8 = \"1 GB\" }",
                ":5: invalid size \"big\"",
            ),
        ] {
            let (_dir, path) = folder(&MINE.replace(from, to));
            let error = Pair::find(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("mine.toml{words}")), "{error}");
        }
        let (_dir, path) = folder("[models]\ngenerator = \"g\"\nprm = \"p\"\n");
        let error = Pair::find(&path).unwrap_err().to_string();
        assert!(
            error.ends_with(":1: a pair needs a table [pair]"),
            "{error}"
        );
        let error = Pair::find("no/such.toml").unwrap_err().to_string();
        assert!(error.starts_with("no/such.toml: "), "{error}");
    }
}
