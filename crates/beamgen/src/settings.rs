//! The table of settings that have a name: command line, Python, HTTP and files follow from it.

use std::fmt::Write;
use std::path::Path;

use beamgen_checkers::CHECKERS;
use beamgen_search::SearchConfig;
use beamgen_search::strategy::StrategyName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::config::ScorerKind;
use crate::program::{parse_size, set_key};
use crate::{Config, Error};

/// A setting with a name of its own, which is the same everywhere.
#[derive(Debug)]
pub struct Setting {
    /// The name: a flag without its dashes, a keyword of Python, a field of HTTP.
    pub name: &'static str,
    /// The letter of a short flag, or nothing.
    pub short: &'static str,
    /// The placeholder of its value, which is its unit if it has one.
    pub value: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// The default as text; empty if the description says it.
    pub default: &'static str,
    /// The least and the greatest value, if it is a number; the greatest may be missing.
    pub range: &'static str,
    /// The key in a file of settings; empty for `pair`, which names such a file.
    pub key: &'static str,
    /// Who may set it.
    pub scope: Scope,
    /// The part that it belongs to.
    pub part: Part,
    /// Whether the short help shows it.
    pub shown: Shown,
    /// The settings without which it changes nothing.
    pub needs: &'static [Needs],
    doc: &'static str,
}

/// The type of a setting's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// True or false; false by default.
    Switch,
    /// A whole number.
    Count,
    /// A number.
    Number,
    /// A word or a rule.
    Text,
    /// A model, a folder or a file.
    Path,
    /// Bytes, as a number or with a unit.
    Size,
    /// Several texts, which may stand in one with commas between them.
    List,
    /// Several texts.
    Texts,
}

impl Kind {
    /// The texts of a value that may have several.
    fn texts(self, value: Value) -> Vec<String> {
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        let texts = values.into_iter().map(|value| match value {
            Value::String(text) if self == Self::List => {
                text.split(',').map(str::to_owned).collect()
            }
            Value::String(text) => vec![text],
            other => vec![other.to_string()],
        });
        texts.flatten().collect()
    }
}

/// Who may set a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Each request of a solver, and the solver for all of them.
    Request,
    /// The solver.
    Solver,
}

/// The part that a setting belongs to. A command has some of the parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Strategy and width.
    Width,
    /// The rest of the search.
    Search,
    /// Sampling.
    Sampling,
    /// The scorer.
    Scorer,
    /// The generator, the judges, and how they score.
    Models,
    /// The reward model.
    Reward,
    /// How models are computed.
    Engine,
    /// Checkers.
    Checkers,
    /// The audit of answers.
    Soundness,
}

impl Part {
    /// The heading in a help text.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Width | Self::Search => "Search",
            Self::Sampling => "Sampling",
            Self::Checkers | Self::Soundness => "Checkers",
            Self::Scorer | Self::Models | Self::Reward | Self::Engine => "Models",
        }
    }
}

/// The help texts that show a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The short one and the long one.
    Always,
    /// The long one.
    Long,
}

/// A setting that another one needs to change anything: in words, and whether it is there.
pub type Needs = (&'static str, fn(&Config) -> bool);

const JUDGE: Needs = ("`judge` or `checker`", |config| {
    !config.models.judges.is_empty() || !config.checkers.is_empty()
});
const COMMAND: Needs = ("`checker_command`", |config| {
    !config.checkers.commands.is_empty()
});
const MODEL: Needs = ("`scorer` prm or orm", |config| {
    matches!(config.models.scorer, ScorerKind::Prm | ScorerKind::Orm)
});

/// Rows of the table. The first paragraph of a description is its one line of help.
macro_rules! table {
    ($($(#[doc = $doc:literal])* $name:literal $short:literal $value:literal $kind:ident $default:literal $range:literal
       $key:literal $scope:ident $part:ident $shown:ident $($needs:ident)*;)*) => {
        &[$(Setting {
            name: $name,
            short: $short,
            value: $value,
            kind: Kind::$kind,
            default: $default,
            range: $range,
            key: $key,
            scope: Scope::$scope,
            part: Part::$part,
            shown: Shown::$shown,
            needs: &[$($needs),*],
            doc: concat!($($doc, "\n"),*),
        }),*]
    };
}

/// All settings that have a name, in the order in which they are put over others and shown.
///
/// Other settings in a description stand between backticks, and its braces are filled by
/// [`Setting::more`].
pub static SETTINGS: &[Setting] = table! {
    // name, short, value, kind, default, range, key, scope, part, shown, needs

    /// N, chains per problem
    ///
    /// At most 65536. The KV cache of all chains stays within `kv_memory`. It is 1 for {of_one}.
    "n" "n" "N" Count "16" "1..65536" "search.n" Request Width Always;
    /// beam, dvts, majority, ...
    ///
    /// `beamgen solve` lists all strategies in its help.
    "strategy" "" "NAME" Text "beam" "" "search.strategy" Request Width Always;
    /// M, the expansion factor
    ///
    /// A beam keeps N/M chains and expands each of them M times. It matters for {using_m} only.
    "m" "m" "M" Count "4" "1.." "search.m" Request Search Always;
    /// How step scores become a chain's score
    ///
    /// min, product, mean, last, max, soft-min[:T] or likely-min[:W]. With `scorer` orm, and with
    /// `score_as` median or lower, it is always last.
    "aggregation" "" "RULE" Text "min" "" "search.aggregation" Request Search Long;
    /// How the answer is chosen among finished chains
    ///
    /// best, majority or weighted [default: {usual}]
    "choose" "" "CHOICE" Text "" "" "search.choose" Request Search Long;
    /// Stop a chain after so many steps
    "max_steps" "" "STEPS" Count "40" "1.." "search.max_steps" Request Search Long;
    /// Most tokens sampled for a problem
    ///
    /// Tokens of chains that are thrown away count too. 0 is no limit.
    "budget_tokens" "" "TOKENS" Count "0" "0.." "search.budget_tokens" Request Search Always;
    /// Withhold answers whose chain scores less
    "threshold" "" "SCORE" Number "0" "0..1" "search.threshold" Request Search Long;
    /// Sample as many chains as a problem needs for this probability of success
    ///
    /// At most N, for best-of-n: until a chain scores as a calibration says that it must, by the
    /// answers of runs with `n` 1 (`beamgen calibrate`); with `score_as` calibrated, by
    /// probabilities. 0 is always N.
    "confidence" "" "C" Number "0" "0..1" "search.confidence" Request Search Long;
    /// Stop a majority vote that is decided
    ///
    /// The vote stops as soon as the chains still to come cannot change its answer.
    "consensus" "" "" Switch "" "" "search.consensus" Request Search Long;
    /// Score steps after TAU tokens and reject the worst there
    ///
    /// For beam and dvts only. 0 is never.
    "early_rejection" "" "TAU" Count "0" "0.." "search.early_rejection" Request Search Long;
    /// Continue finished chains while a round's last ones are written
    ///
    /// Results stay the same.
    "speculate" "" "" Switch "" "" "search.speculate" Request Search Long;
    /// Problems worked on at once
    ///
    /// It changes the speed, never the results.
    "in_flight" "" "K" Count "16" "1.." "search.in_flight" Solver Search Long;
    /// The seed of all random numbers
    "seed" "" "SEED" Count "0" "0.." "generator.seed" Request Search Always;
    /// Sampling temperature; 0 is greedy
    ///
    /// [default: what the generator's checkpoint says, or 1.0]
    "temperature" "" "T" Number "" "0.." "generator.sampling.temperature" Request Sampling Long;
    /// Sample among the K likeliest tokens; 0 among all
    "top_k" "" "K" Count "" "0.." "generator.sampling.top_k" Request Sampling Long;
    /// Sample among the likeliest tokens with total probability P
    "top_p" "" "P" Number "" "0..1" "generator.sampling.top_p" Request Sampling Long;
    /// Sample among tokens at least P times as likely as the likeliest
    "min_p" "" "P" Number "" "0..1" "generator.sampling.min_p" Request Sampling Long;
    /// The generator
    ///
    /// A folder in Hugging Face layout, a GGUF file, ORG/NAME[@REVISION] of the hub, or bundled.
    "generator" "" "MODEL" Path "bundled" "" "models.generator" Solver Models Always;
    /// Servers that run the generator, e.g. http://HOST:8000
    ///
    /// vLLM, SGLang or llama.cpp's server, or with models.generator_server.engine = "openai" any
    /// endpoint of that kind; several addresses with commas between them. `generator` then names
    /// the model whose tokenizer and chat template are used [default: the one that the servers say
    /// they have]. A key comes from the environment variable BEAMGEN_GENERATOR_KEY. Other settings
    /// are keys of models.generator_server.
    "generator_url" "" "URL" List "" "" "models.generator_server.urls" Solver Models Long;
    /// Score steps with prm, orm, exact, none, or a reward model; may be repeated
    ///
    /// orm is the outcome reward model of the bundled pair. exact is a checker that knows the
    /// bundled problems only. none is for strategies that need no scores. Any other name is that of a
    /// reward model, as for `prm`, or the address of its server. Further ones are judges: what they
    /// say of a step is combined as `combine` says. `prm` and `judge` are short forms.
    "scorer" "" "SCORER" Texts "prm" "" "models.scorer" Solver Scorer Long;
    /// Another judge of the steps, next to the scorer; may be repeated
    ///
    /// Name it like a further `scorer`, or name a model of entailment (NLI), which says whether a step
    /// follows from the problem's context. Each one's scores are in the tree, and what it read in the ledger.
    /// Other settings of a judge: [[models.judges]] in a file.
    "judge" "" "JUDGE" Texts "" "" "models.judges" Solver Models Long;
    /// How the scores of several judges become one
    ///
    /// min, product, mean-logits, veto[:T] (the scorer's, or 0 where a judge scores below T) or
    /// cascade[:LOW..HIGH] (the scorer's, and where that lies between the bounds the next judge's,
    /// which is asked there only).
    "combine" "" "RULE" Text "min" "" "models.combine" Solver Models Long JUDGE;
    /// The calibration of the reward model
    ///
    /// Made by `beamgen calibrate`. With it steps are told sure or unsure [default: the one next to
    /// the model]
    "calibration" "" "FILE" Path "" "" "models.calibration" Solver Models Long MODEL;
    /// The score of a step: raw, calibrated, median or lower
    ///
    /// raw is the reward model's score, calibrated the probability of success that belongs to it
    /// (with the `aggregation` of `beamgen calibrate`), median and lower (10 %) are quantiles of that
    /// probability, read from the hidden state.
    "score_as" "" "WHAT" Text "raw" "" "models.score_as" Solver Models Long MODEL;
    /// Withhold answers so that at most this share of the given ones is wrong
    ///
    /// By the threshold that the calibration has for it (`beamgen calibrate` with run files). 0
    /// withholds none.
    "max_error" "" "SHARE" Number "0" "0..1" "models.max_error" Solver Models Long MODEL;
    /// Checkers that veto steps that they prove wrong: arithmetic, consistency, exact
    ///
    /// arithmetic: equations in text and in <<3*4=12>>, exactly. consistency: a calculation that the
    /// next step gives another result. exact: lines of the bundled world. Several with commas between
    /// them, or repeated.
    "checker" "" "NAME" List "" "" "checkers.builtin" Solver Checkers Long;
    /// An own checker: a shell command that speaks JSON lines (docs/checkers.md)
    ///
    /// May be repeated. A step that it does not answer, or dies on, counts as abstained from.
    "checker_command" "" "CMD" Texts "" "" "checkers.commands" Solver Checkers Long;
    /// Seconds after which a command that answers nothing is ended
    "checker_timeout" "" "SECONDS" Number "10" "0.001..86400" "checkers.timeout" Solver Checkers Long COMMAND;
    /// Checkers that audit the chain of each answer: exact, arithmetic, ... or none
    ///
    /// They change no score. An answer may be right by a chain with a step that they prove wrong; it
    /// is then told apart as unsound. Several with commas between them, or repeated.
    "audit" "" "NAME" List "exact,arithmetic" "" "checkers.audit" Solver Soundness Long;
    /// Count an answer as unsound if the scorer puts a step below this
    ///
    /// It is told apart from what checkers prove. 0 is never.
    "sound_above" "" "SCORE" Number "0" "0..1" "checkers.sound_above" Solver Soundness Long;
    /// Withhold unsound answers, as `audit` and `sound_above` find them
    "require_sound" "" "" Switch "" "" "checkers.require_sound" Solver Soundness Long;
    /// Published models by name, e.g. qwen2.5-math-1.5b
    ///
    /// A generator and a reward model with the settings that suit them: a pair of `beamgen models`,
    /// or a TOML file. A file of settings wins over it; `generator` and `prm` replace its models.
    "pair" "" "NAME|FILE" Text "" "" "" Solver Reward Always;
    /// The process reward model
    ///
    /// A folder in Hugging Face layout, a GGUF file, ORG/NAME[@REVISION] of the hub, bundled, or
    /// none, which is the same as `scorer` none.
    "prm" "" "MODEL" Path "bundled" "" "models.prm" Solver Reward Always MODEL;
    /// Servers that run the reward model, as `generator_url`
    ///
    /// A key comes from the environment variable BEAMGEN_PRM_KEY.
    "prm_url" "" "URL" List "" "" "models.prm_server.urls" Solver Reward Long MODEL;
    /// How the reward model's input and scores are read
    ///
    /// auto, a family (`beamgen models` lists them) or a TOML file [default: auto]
    "prm_format" "" "NAME|FILE" Text "" "" "models.prm_format" Solver Reward Long MODEL;
    /// The reference model of an implicit reward model
    "prm_reference" "" "MODEL" Path "" "" "models.prm_reference" Solver Reward Long MODEL;
    /// Weights: auto, f32, bf16, f16, int8
    ///
    /// auto keeps the checkpoint's type, exactly; int8 is fastest and not exact.
    "dtype" "" "TYPE" Text "auto" "" "models.dtype" Solver Engine Always;
    /// Compute on auto, cpu, cuda or cuda:N
    ///
    /// auto is the cpu for the bundled models. For others it is CUDA device 0 if the device passes
    /// a test and can have them, else the cpu. N counts from 0, the fastest card first; with
    /// CUDA_DEVICE_ORDER=PCI_BUS_ID in the environment it counts as nvidia-smi does.
    "device" "" "DEVICE" Text "auto" "" "engine.device" Solver Engine Long;
    /// Keys and values as auto, f32, bf16 or f16
    ///
    /// auto is f32 on the cpu and the weights' type on a CUDA device. bf16 and f16 take half the
    /// memory; bf16 is fastest on processors with AMX.
    "kv_dtype" "" "TYPE" Text "auto" "" "engine.kv_dtype" Solver Engine Long;
    /// Most memory for KV caches, e.g. 2GiB
    ///
    /// For both models together. On the cpu it is taken when it is needed, on a CUDA device at
    /// once. auto is 4GiB on the cpu, and on a CUDA device what all chains in flight can use.
    "kv_memory" "" "SIZE" Size "auto" "" "engine.kv_bytes" Solver Engine Always;
    /// Never ask the hub; take models from its cache
    "offline" "" "" Switch "" "" "models.offline" Solver Engine Long;
    /// Threads to compute with
    ///
    /// At most 1024; 0 is one for each physical core.
    "threads" "" "COUNT" Count "0" "0..1024" "engine.threads" Solver Engine Long;
};

impl Setting {
    /// The setting of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// The description in one line.
    pub fn help(&self) -> String {
        let (help, _) = self.doc.split_once("\n\n").unwrap_or((self.doc, ""));
        joined(help)
    }

    /// The rest of the description, with the default; empty if there is neither.
    pub fn more(&self) -> String {
        let (_, more) = self.doc.split_once("\n\n").unwrap_or_default();
        let mut more = joined(more);
        if more.contains('{') {
            let of_one = StrategyName::list(|config| config.chains() == 1);
            let using_m = StrategyName::list(|config| config.strategy.spec().uses_m);
            more = more.replace("{of_one}", &of_one);
            more = more.replace("{using_m}", &using_m);
            more = more.replace("{usual}", &StrategyName::usual_choices());
        }
        if !self.default.is_empty() {
            let gap = if more.is_empty() { "" } else { " " };
            // Writing into a string cannot fail.
            let _ = write!(more, "{gap}[default: {}]", self.default);
        }
        more
    }

    /// The known values with a description each, if any other is refused.
    pub fn known(&self) -> Vec<(&'static str, &'static str)> {
        let names = StrategyName::all();
        match self.name {
            "strategy" => names.map(|name| (name.name(), name.summary())).collect(),
            "checker" => CHECKERS.iter().map(|row| (row.name, row.about)).collect(),
            _ => Vec::new(),
        }
    }

    /// Reads the value from a text, which has one of several values.
    ///
    /// # Errors
    /// The reason why it cannot be the value.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        // A number above what TOML has is above every limit, but a seed has none.
        let whole = |number: u64| match i64::try_from(number) {
            Err(_) if self.name == "seed" => Err(format!("a seed is at most {}", i64::MAX)),
            number => Ok(Value::Integer(number.unwrap_or(i64::MAX))),
        };
        let value = match self.kind {
            Kind::Switch => Value::Boolean(text.parse().map_err(|_| "write true or false")?),
            Kind::Count => whole(
                text.parse()
                    .map_err(|_| "write a whole number, 0 or more")?,
            )?,
            Kind::Number => {
                let number: f32 = text.parse().map_err(|_| "write a number")?;
                f64::from(number).into()
            }
            Kind::Size => whole(parse_size(text).map_err(|error| error.to_string())? as u64)?,
            Kind::Text | Kind::Path | Kind::List | Kind::Texts => text.into(),
        };
        if self.key.is_empty() {
            return Ok(value);
        }
        match put(&Config::default(), self.name, value.clone()) {
            Err(Error::Key { reason, .. }) => Err(reason),
            Err(error) => Err(error.to_string()),
            Ok(_) => Ok(value),
        }
    }
}

/// Returns settings with one of [`SETTINGS`] put over them: a [`Config`], or the
/// [`Settings`](crate::Settings) of a request.
///
/// # Errors
/// [`Error::Key`]: there is no such setting, or it cannot have this value.
pub fn put<T: Clone + Serialize + DeserializeOwned>(
    settings: &T,
    name: &str,
    value: Value,
) -> Result<T, Error> {
    let refused = |reason: String| Error::Key {
        key: name.to_owned(),
        reason,
    };
    let Some(setting) = Setting::named(name).filter(|setting| !setting.key.is_empty()) else {
        return Err(refused("there is no setting of this name".to_owned()));
    };
    let keys = match (name, setting.kind) {
        ("strategy", _) => strategy_keys(settings, value.as_str().unwrap_or_default()),
        ("scorer", kind) => scorer_keys(&kind.texts(value)),
        ("judge", kind) => judges(&kind.texts(value)).map(|judges| vec![(setting.key, judges)]),
        (_, kind @ (Kind::List | Kind::Texts)) => Ok(vec![(setting.key, kind.texts(value).into())]),
        _ => Ok(vec![(setting.key, value)]),
    };
    let done = keys.and_then(|keys| {
        let mut keys = keys.into_iter();
        keys.try_fold(settings.clone(), |settings, (key, value)| {
            set_key(&settings, key, value)
        })
    });
    done.map_err(|error| match error {
        Error::Key { reason, .. } => refused(reason),
        Error::Setting(error) => refused(error.to_string()),
        error => error,
    })
}

/// Returns the settings with all that is given put over them, in the order of the table.
///
/// # Errors
/// As [`put`], and two of them contradict each other.
pub fn put_all(config: &Config, given: &[(impl AsRef<str>, Value)]) -> Result<Config, Error> {
    refuse_contradictions(given)?;
    let mut config = config.clone();
    for setting in SETTINGS.iter().filter(|setting| !setting.key.is_empty()) {
        if let Some((_, value)) = given.iter().find(|(name, _)| name.as_ref() == setting.name) {
            config = put(&config, setting.name, value.clone())?;
        }
    }
    config.resolve_words();
    Ok(config)
}

/// Refuses settings that name two scorers, or judges in two ways.
fn refuse_contradictions(given: &[(impl AsRef<str>, Value)]) -> Result<(), Error> {
    let value = |wanted: &str| given.iter().find(|(name, _)| name.as_ref() == wanted);
    let has = |name: &str| value(name).is_some();
    let Some((_, scorers)) = value("scorer") else {
        return Ok(());
    };
    let scorers = Kind::Texts.texts(scorers.clone());
    let first = scorers.first().map_or("", String::as_str);
    let no_prm = value("prm").is_some_and(|(_, prm)| prm.as_str() == Some("none"));
    let reason = if no_prm && first != "none" {
        format!("`prm` none and `scorer` {first}: leave one of them out")
    } else if !is_scorer_word(first) && (has("prm") || has("prm_url")) {
        format!(
            "`scorer` {first} is a reward model, and `prm` or `prm_url` names one, too: leave one out"
        )
    } else if scorers.len() > 1 && has("judge") {
        "several of `scorer` and `judge` both name judges: name them all in one way".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Refused(reason.into()))
}

/// Keys of a file, each with its value.
type Keys = Vec<(&'static str, Value)>;

/// The search with a strategy, and what else its name means.
fn strategy_keys(settings: &impl Serialize, name: &str) -> Result<Keys, Error> {
    let strategy: StrategyName = name.parse()?;
    let wrong = |reason: String| Error::Refused(reason.into());
    let mut table = Table::try_from(settings).map_err(|error| wrong(error.to_string()))?;
    let search = table.remove("search").unwrap_or(Table::new().into());
    let search: Result<SearchConfig, _> = search.try_into();
    let mut search = search.map_err(|error| wrong(error.to_string()))?;
    strategy.apply(&mut search);
    let search = Value::try_from(search).map_err(|error| wrong(error.to_string()))?;
    Ok(vec![("search", search)])
}

/// A scorer, and the further ones as judges.
fn scorer_keys(names: &[String]) -> Result<Keys, Error> {
    let [first, others @ ..] = names else {
        return Err(Error::Refused("name a scorer".into()));
    };
    let kind = if is_scorer_word(first) { first } else { "prm" };
    let mut keys = vec![("models.scorer", kind.into())];
    if is_address(first) {
        keys.push(("models.prm_server.urls", vec![first.clone()].into()));
    } else if first == "bundled" || first.contains(['/', '.']) || Path::new(first).exists() {
        keys.push(("models.prm", first.as_str().into()));
    } else {
        // It says which words there are.
        let _: ScorerKind = first.parse()?;
    }
    if !others.is_empty() {
        keys.push(("models.judges", judges(others)?));
    }
    Ok(keys)
}

/// The tables of judges.
fn judges(names: &[String]) -> Result<Value, Error> {
    if names.iter().any(|name| name == "none") {
        let reason = "none is no judge: leave it out, or name it first and once";
        return Err(Error::Refused(reason.into()));
    }
    let judges = names.iter().map(|name| {
        let word = if is_address(name) { "prm" } else { name };
        let mut judge = Table::from_iter([("judge".to_owned(), word.into())]);
        if is_address(name) {
            let urls = Table::from_iter([("urls".to_owned(), vec![name.clone()].into())]);
            judge.insert("server".to_owned(), urls.into());
        }
        Value::Table(judge)
    });
    Ok(judges.collect::<Vec<_>>().into())
}

/// Whether a scorer's name is one of the words, and no file or folder here has that name.
fn is_scorer_word(name: &str) -> bool {
    name.parse::<ScorerKind>().is_ok() && !Path::new(name).exists()
}

fn is_address(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

/// The lines of a description as one.
fn joined(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
