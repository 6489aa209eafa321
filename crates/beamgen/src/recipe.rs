//! Recipes of search-and-learn: its YAML files, read as settings.
//!
//! The keys, their defaults and their meaning are those of `src/sal/config.py` in
//! huggingface/search-and-learn, commit 6f81cac. [`RECIPE_KEYS`] is the table of all keys.

use std::path::{Path, PathBuf};

use toml::{Table, Value};
use yaml_rust2::Event;
use yaml_rust2::parser::{MarkedEventReceiver, Parser};
use yaml_rust2::scanner::{Marker, TScalarStyle};

use crate::config::read;
use crate::{Config, Error, Pair};

/// The pair with the models and settings that recipes have by default.
const PAIR: &str = "llama3.2-1b";

/// A key of a recipe.
#[derive(Clone, Copy, Debug)]
pub struct RecipeKey {
    /// The name in recipes.
    pub name: &'static str,
    /// The default there, as YAML.
    pub default: &'static str,
    /// The setting or flag that it becomes, or a sentence on what is done instead.
    pub here: &'static str,
    effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    /// The value becomes that of the setting `here`.
    Setting,
    /// Chosen together: see `strategy`.
    Strategy,
    Aggregation,
    /// A part of [`RecipeData`].
    Data,
    Template,
    /// Nothing here depends on it. A value other than the default is named in a note.
    None,
}

const fn key(
    name: &'static str,
    default: &'static str,
    here: &'static str,
    effect: Effect,
) -> RecipeKey {
    RecipeKey {
        name,
        default,
        here,
        effect,
    }
}

/// All keys of recipes.
#[rustfmt::skip]
pub static RECIPE_KEYS: [RecipeKey; 31] = [
    key("approach", "best_of_n", "`search.strategy`", Effect::Strategy),
    key("model_path", "meta-llama/Llama-3.2-1B-Instruct", "models.generator", Effect::Setting),
    key("prm_path", "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data", "models.prm", Effect::Setting),
    key("n", "4", "search.n", Effect::Setting),
    key("beam_width", "4", "search.m", Effect::Setting),
    key("num_iterations", "40", "search.max_steps", Effect::Setting),
    key("lookahead", "0", "`search.lookahead.steps` of the strategy `lookahead`", Effect::Strategy),
    key("filter_duplicates", "false", "`search.beam.copies` of beams: true is `distinct`, false `slots`", Effect::Strategy),
    key("agg_strategy", "last", "`search.aggregation`; `prod` is `product`", Effect::Aggregation),
    key("temperature", "0.8", "generator.sampling.temperature", Effect::Setting),
    key("top_p", "1.0", "generator.sampling.top_p", Effect::Setting),
    key("seed", "42", "generator.seed", Effect::Setting),
    key("max_tokens", "2048", "generator.max_chain_tokens", Effect::Setting),
    key("system_prompt", "steps with headings", "generator.system_prompt", Effect::Setting),
    key("custom_chat_template", "Llama 3's", "the checkpoint's own template", Effect::Template),
    key("dataset_name", "HuggingFaceH4/MATH-500", "the problems, if none are named", Effect::Data),
    key("dataset_config", "null", "`--subset`", Effect::Data),
    key("dataset_split", "test", "`--split`", Effect::Data),
    key("dataset_start", "null", "the first problem, from 0", Effect::Data),
    key("dataset_end", "null", "the end of the problems, exclusive", Effect::Data),
    key("num_samples", "null", "`--limit`", Effect::Data),
    key("sort_completed", "false", "answers are always ordered by votes and scores", Effect::None),
    key("search_batch_size", "25", "problems are solved together in any number (`--in-flight`)", Effect::None),
    key("prm_batch_size", "4", "batches follow from the memory", Effect::None),
    key("gpu_memory_utilization", "0.5", "both models share one budget (`--kv-memory`)", Effect::None),
    key("apply_voting", "true", "all votes are in every result", Effect::None),
    key("output_dir", "null", "results go to `--out FILE`", Effect::None),
    key("num_proc", "null", "nothing is copied between processes", Effect::None),
    key("push_to_hub", "false", "nothing is pushed", Effect::None),
    key("hub_dataset_id", "null", "nothing is pushed", Effect::None),
    key("overwrite_hub_revision", "false", "nothing is pushed", Effect::None),
];

/// A recipe, as settings and problems.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    path: PathBuf,
    settings: Table,
    /// The problems that it names.
    pub data: RecipeData,
    /// Keys that change nothing here, a sentence each.
    pub notes: Vec<String>,
}

/// The problems of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeData {
    /// The data set's name, or a path.
    pub name: String,
    /// The subset.
    pub subset: Option<String>,
    /// The split.
    pub split: Option<String>,
    /// The index of the first problem, from 0.
    pub start: usize,
    /// The index after the last problem; `None` for all.
    pub end: Option<usize>,
}

/// A scalar of a recipe, with its line.
struct Given {
    name: String,
    value: Value,
    is_null: bool,
    line: usize,
}

impl Recipe {
    /// Whether a settings file is a recipe, by the ending of its name: `.yaml` or `.yml`.
    #[must_use]
    pub fn is_recipe(path: &Path) -> bool {
        let extension = path.extension().unwrap_or_default();
        extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml")
    }

    /// Reads a recipe.
    ///
    /// # Errors
    /// Returns [`Error::ConfigFile`] with the line for a text that is not YAML, for a key that is not in
    /// [`RECIPE_KEYS`], and for a value of another type.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::parse(&read(path)?, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let fault = |line, reason: String| Error::ConfigFile {
            path: path.to_owned(),
            line,
            reason,
        };
        let given = scalars(text).map_err(|(line, reason)| fault(line, reason))?;
        let find = |name: &str| {
            let mut given = given.iter();
            given.find(|given| given.name == name && !given.is_null)
        };
        let text_of = |name: &str| match find(name).map(|given| (&given.value, given.line)) {
            None => Ok(None),
            Some((Value::String(text), _)) => Ok(Some(text.clone())),
            Some((_, line)) => Err(fault(line, format!("{name}: write a text"))),
        };
        let count = |name: &str| match find(name).map(|given| (&given.value, given.line)) {
            None => Ok(None),
            Some((Value::Integer(count), _)) if *count >= 0 => Ok(Some(*count as usize)),
            Some((_, line)) => Err(fault(line, format!("{name}: write a number from 0"))),
        };
        let (mut settings, mut notes) = (Table::new(), Vec::new());
        for given in &given {
            let known = RECIPE_KEYS.iter().find(|key| key.name == given.name);
            let Some(known) = known else {
                let reason = format!("{}: unknown key of a recipe: leave it out", given.name);
                return Err(fault(given.line, reason));
            };
            match known.effect {
                Effect::Setting if !given.is_null => {
                    put(&mut settings, known.here, given.value.clone());
                }
                Effect::Template if !given.is_null => {
                    notes.push(format!("{}: {} is used", given.name, known.here));
                }
                Effect::None if !given.is_null && plain(&given.value) != known.default => {
                    notes.push(format!("{} changes nothing: {}", given.name, known.here));
                }
                _ => {}
            }
        }
        for key in RECIPE_KEYS
            .iter()
            .filter(|key| key.effect == Effect::Setting)
        {
            // The pair has the other defaults.
            if matches!(key.name, "n" | "beam_width" | "seed") && find(key.name).is_none() {
                put(&mut settings, key.here, scalar(key.default));
            }
        }

        let approach = text_of("approach")?.unwrap_or_else(|| "best_of_n".to_owned());
        let lookahead = count("lookahead")?.unwrap_or(0);
        let line = |name: &str| find(name).map_or(1, |given| given.line);
        let strategy = match (approach.as_str(), lookahead) {
            ("best_of_n", _) => "best-of-n",
            ("beam_search", 0) => "beam",
            ("beam_search", _) => "lookahead",
            ("dvts", 0) => "dvts",
            ("dvts", _) => {
                let reason = "lookahead: dvts here has none: set it to 0, or take beam_search";
                return Err(fault(line("lookahead"), reason.to_owned()));
            }
            _ => {
                let reason = format!("approach: no {approach}: use best_of_n, beam_search or dvts");
                return Err(fault(line("approach"), reason));
            }
        };
        put(&mut settings, "search.strategy", strategy.into());
        if strategy == "lookahead" {
            put(
                &mut settings,
                "search.lookahead.steps",
                (lookahead as i64).into(),
            );
        }
        // As there, only beams filter duplicates.
        if approach == "beam_search"
            && let Some(given) = find("filter_duplicates")
        {
            match given.value {
                Value::Boolean(true) => {
                    put(&mut settings, "search.beam.copies", "distinct".into());
                }
                Value::Boolean(false) => {}
                _ => {
                    let reason = "filter_duplicates: write true or false";
                    return Err(fault(given.line, reason.to_owned()));
                }
            }
        }
        let rule = match text_of("agg_strategy")?.as_deref() {
            None | Some("last") => "last",
            Some("min") => "min",
            Some("prod") => "product",
            Some(other) => {
                let reason = format!("agg_strategy: no {other}: use last, min or prod");
                return Err(fault(line("agg_strategy"), reason));
            }
        };
        put(&mut settings, "search.aggregation", rule.into());

        let start = count("dataset_start")?.unwrap_or(0);
        let samples = count("num_samples")?.map(|samples| start + samples);
        let end = count("dataset_end")?;
        let name = text_of("dataset_name")?;
        Ok(Self {
            path: path.to_owned(),
            settings,
            data: RecipeData {
                subset: text_of("dataset_config")?,
                // A file or another set may have no such split.
                split: text_of("dataset_split")?.or_else(|| name.is_none().then(|| "test".into())),
                name: name.unwrap_or_else(|| "HuggingFaceH4/MATH-500".to_owned()),
                start,
                end: end.into_iter().chain(samples).min(),
            },
            notes,
        })
    }

    /// Returns the settings, over those of the named pair or of search-and-learn's own pair.
    ///
    /// # Errors
    /// Returns the errors of [`Pair::find`], and [`Error::ConfigFile`] for a value that a setting
    /// does not take.
    pub fn config(&self, pair: Option<&str>, prm: Option<&Path>) -> Result<Config, Error> {
        let pair = Pair::find(pair.unwrap_or(PAIR))?;
        let config = pair.under(self.settings.clone(), prm);
        config.map_err(|error| match error {
            Error::ConfigFile { line, reason, .. } => Error::ConfigFile {
                path: self.path.clone(),
                line,
                reason,
            },
            error => error,
        })
    }
}

impl Config {
    /// Returns the settings of a pair, overridden by those of a file; either may be absent. `prm`
    /// is a reward model that replaces the pair's ([`Pair::under`]).
    ///
    /// # Errors
    /// Returns the errors of [`Pair::find`] and of [`load`](Self::load).
    pub fn of(pair: Option<&str>, file: Option<&Path>, prm: Option<&Path>) -> Result<Self, Error> {
        match (pair, file) {
            (None, None) => Ok(Self::default()),
            (pair, Some(path)) if Recipe::is_recipe(path) => Recipe::open(path)?.config(pair, prm),
            (None, Some(path)) => Self::load(path),
            (Some(pair), None) => Pair::find(pair)?.under(Table::new(), prm),
            (Some(pair), Some(path)) => Pair::find(pair)?.under(Self::load_table(path)?, prm),
        }
    }
}

/// Puts a value under a path of keys, such as `search.n`.
fn put(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Table::new().into());
            if let Some(inner) = inner.as_table_mut() {
                put(inner, rest, value);
            }
        }
    }
}

/// Returns a value as YAML writes it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the value of a plain scalar, by the rules of YAML 1.2's core schema.
fn scalar(text: &str) -> Value {
    match text {
        "true" | "True" | "TRUE" => Value::Boolean(true),
        "false" | "False" | "FALSE" => Value::Boolean(false),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => Value::Integer(number),
            (_, Ok(number)) if text.starts_with(|c: char| !c.is_ascii_alphabetic()) => {
                Value::Float(number)
            }
            _ => Value::String(text.to_owned()),
        },
    }
}

/// Returns the keys and scalars of a flat document. Lists, inner mappings and aliases are refused:
/// no key of a recipe has one.
fn scalars(text: &str) -> Result<Vec<Given>, (usize, String)> {
    let mut reader = Flat::default();
    let mut parser = Parser::new(text.chars());
    if let Err(error) = parser.load(&mut reader, false) {
        let reason = format!("not YAML ({}): mend it", error.info());
        return Err((error.marker().line(), reason));
    }
    match reader.fault {
        Some(fault) => Err(fault),
        None => Ok(reader.given),
    }
}

/// Collects the scalars of a document.
#[derive(Default)]
struct Flat {
    given: Vec<Given>,
    name: Option<String>,
    depth: usize,
    fault: Option<(usize, String)>,
}

impl MarkedEventReceiver for Flat {
    fn on_event(&mut self, event: Event, mark: Marker) {
        let line = mark.line();
        let mut refuse = |reason: String| {
            self.fault.get_or_insert((line, reason));
        };
        match event {
            Event::MappingStart(..) if self.depth == 0 => self.depth = 1,
            Event::MappingStart(..) | Event::SequenceStart(..) | Event::Alias(_) => {
                let name = self.name.as_deref().unwrap_or("a recipe");
                refuse(format!("{name}: write `key: value` lines, without lists"));
            }
            Event::Scalar(text, ..) if self.depth == 0 => {
                refuse(format!("{text:.40}: write `key: value` lines"));
            }
            Event::Scalar(text, style, ..) => match self.name.take() {
                None if self.given.iter().any(|given| given.name == text) => {
                    refuse(format!("{text}: given twice: remove one"));
                }
                None => self.name = Some(text),
                Some(name) => {
                    let is_plain = style == TScalarStyle::Plain;
                    self.given.push(Given {
                        name,
                        is_null: is_plain && matches!(text.as_str(), "" | "~" | "null" | "Null"),
                        value: if is_plain {
                            scalar(&text)
                        } else {
                            Value::String(text)
                        },
                        line,
                    });
                }
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
