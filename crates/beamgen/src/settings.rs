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
    /// The placeholder for the value in help texts, which names the unit if there is one.
    pub value: &'static str,
    /// The type of the setting's value.
    pub kind: Kind,
    /// The default as text; empty if the description gives the default.
    pub default: &'static str,
    /// The range of a number as `LEAST..GREATEST`, where the greatest may be missing; empty for
    /// other types.
    pub range: &'static str,
    /// The key in a file of settings; empty for `pair`, which names such a file.
    pub key: &'static str,
    /// Whether requests may change the setting, or only the solver has it.
    pub scope: Scope,
    /// The group of the setting. Each command has the flags of some groups.
    pub part: Part,
    /// Whether the flag is in the short and the long help, or in the long help only.
    pub shown: Shown,
    /// Conditions on other settings. If one is not met, the setting has no effect.
    pub needs: &'static [Needs],
    doc: &'static str,
}

/// The type of a setting's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// True or false; false by default.
    Switch,
    /// A whole number of at least 0.
    Count,
    /// A number that may have a fractional part.
    Number,
    /// A word, or a rule with a number such as `soft-min:0.2`.
    Text,
    /// A model, a folder or a file.
    Path,
    /// Bytes, as a number or with a unit.
    Size,
    /// A list of texts. A text with commas is split at the commas.
    List,
    /// A list of texts that may contain commas.
    Texts,
}

impl Kind {
    /// Converts a value to its list of texts; see [`Self::List`] and [`Self::Texts`].
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

/// Who may give a value for a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Every request may give a value of its own.
    Request,
    /// The solver has one value for all requests.
    Solver,
}

/// A group of settings. Each command has the flags of some groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The strategy, and the number of chains.
    Width,
    /// The other settings of the search.
    Search,
    /// Settings of the sampler, such as the temperature.
    Sampling,
    /// The scorer whose scores rank the chains.
    Scorer,
    /// The generator and the judges, and the rules that combine and calibrate scores.
    Models,
    /// The reward model, and the pair that can name it.
    Reward,
    /// Device, number types, memory and threads.
    Engine,
    /// Checkers that veto steps.
    Checkers,
    /// Checkers that audit answers.
    Soundness,
}

impl Part {
    /// Returns the heading for the group in help texts. Some groups share a heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Width | Self::Search => "Search",
            Self::Sampling => "Sampling",
            Self::Checkers | Self::Soundness => "Checkers and verifiers",
            Self::Scorer | Self::Models | Self::Reward | Self::Engine => "Models",
        }
    }
}

/// The help texts that show a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Shown by `-h` and by `--help`.
    Always,
    /// Shown by `--help` only.
    Long,
}

/// A condition without which a setting has no effect: its description for messages, and a test.
pub type Needs = (&'static str, fn(&Config) -> bool);

const JUDGE: Needs = ("`judge` or `checker`", |config| {
    !config.models.judges.is_empty() || !config.checkers.is_empty()
});
const COMMAND: Needs = ("`checker_command`", |config| {
    !config.checkers.commands.is_empty()
});
const VERIFIER: Needs = ("a command as `verifier`", |config| {
    !config.verifier.is_math()
});
const OPEN: Needs = ("`verifier_open` or `verifier` lean", |config| {
    config.verifier.has_open()
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

    /// Chains per problem (N)
    ///
    /// At most 65536. The KV cache of all chains stays within `kv_memory`. N is 1 for {of_one}.
    "n" "n" "N" Count "16" "1..65536" "search.n" Request Width Always;
    /// Strategy: beam, dvts, ...
    ///
    /// The help of `beamgen solve` lists all strategies.
    "strategy" "" "NAME" Text "beam" "" "search.strategy" Request Width Always;
    /// Continuations of a kept chain (M)
    ///
    /// The expansion factor: a beam keeps N/M chains and expands each of them M times. Used by
    /// {using_m} only.
    "m" "m" "M" Count "4" "1.." "search.m" Request Search Always;
    /// Rule that turns step scores into a chain's score
    ///
    /// min, product, mean, last, max, soft-min[:T] or likely-min[:W]. With `scorer` orm, and with
    /// `score_as` median or lower, the rule is always last.
    "aggregation" "" "RULE" Text "min" "" "search.aggregation" Request Search Long;
    /// Rule that chooses the answer among finished chains
    ///
    /// best (the highest score), majority (the most chains) or weighted (the highest sum of
    /// scores) [default: {usual}]
    "choose" "" "CHOICE" Text "" "" "search.choose" Request Search Long;
    /// Most steps of a chain
    "max_steps" "" "STEPS" Count "40" "1.." "search.max_steps" Request Search Long;
    /// Most tokens sampled for a problem
    ///
    /// Tokens of discarded chains count, too. 0 means no limit.
    "budget_tokens" "" "TOKENS" Count "0" "0.." "search.budget_tokens" Request Search Always;
    /// Withhold an answer whose chain scores less than SCORE, from 0 to 1
    "threshold" "" "SCORE" Number "0" "0..1" "search.threshold" Request Search Long;
    /// Stop sampling chains at this probability of success, from 0 to 1
    ///
    /// For best-of-n, which samples at most N chains. It stops when a chain reaches the score that
    /// the calibration gives for C, from the answers of runs with `n` 1 (`beamgen calibrate`). With
    /// `score_as` calibrated, it stops when the probabilities reach C. 0 always samples N chains.
    "confidence" "" "C" Number "0" "0..1" "search.confidence" Request Search Long;
    /// Stop a majority vote as soon as it is decided
    ///
    /// The vote is decided when the remaining chains cannot change its answer.
    "consensus" "" "" Switch "" "" "search.consensus" Request Search Long;
    /// Score each step after TAU tokens, and reject the worst steps there
    ///
    /// For beam and dvts only. 0 never rejects a step early.
    "early_rejection" "" "TAU" Count "0" "0.." "search.early_rejection" Request Search Long;
    /// Complete each new step K times, and score its chain by how many completions agree with the vote
    ///
    /// Completions are chains, too: they give answers and vote. 0 completes no step. With
    /// `search.rollouts.value` prm a completion counts with its chain score by the reward model, with
    /// `verifier` by the outcome of an open verifier;
    /// with `search.rollouts.weight` W below 1 a chain's score is W times this value plus 1 - W times
    /// the chain score by the reward model. For {rolls_out}.
    "rollouts" "" "K" Count "0" "0..1024" "search.rollouts.count" Request Search Long;
    /// Continue chains whose step is finished while slower chains of the round still write theirs
    ///
    /// Changes the speed, never the results.
    "speculate" "" "" Switch "" "" "search.speculate" Request Search Long;
    /// Score a complete chain 1 or 0 by the outcome of the verifier
    ///
    /// The search of every strategy then prefers chains that the verifier calls right. An outcome
    /// that is unknown leaves the score of the scorer. Only an open verifier may guide a search:
    /// one that judges by the problem alone, without the reference answer.
    "outcome_scores" "" "" Switch "" "" "search.outcome_scores" Request Search Long OPEN;
    /// End the search of a problem at the first chain that the verifier calls right
    ///
    /// The search ends with its round. Includes `outcome_scores`.
    "stop_when_verified" "" "" Switch "" "" "search.stop_when_verified" Request Search Long OPEN;
    /// Problems solved at the same time
    ///
    /// Changes the speed, never the results.
    "in_flight" "" "K" Count "16" "1.." "search.in_flight" Solver Search Long;
    /// Seed of all random numbers
    "seed" "" "SEED" Count "0" "0.." "generator.seed" Request Search Always;
    /// Sampling temperature; 0 takes the likeliest token
    ///
    /// [default: the value in the generator's checkpoint, or 1.0]
    "temperature" "" "T" Number "" "0.." "generator.sampling.temperature" Request Sampling Long;
    /// Sample among the K likeliest tokens; 0 among all tokens
    "top_k" "" "K" Count "" "0.." "generator.sampling.top_k" Request Sampling Long;
    /// Sample among the likeliest tokens that have total probability P; 1 among all tokens
    "top_p" "" "P" Number "" "0..1" "generator.sampling.top_p" Request Sampling Long;
    /// Sample among tokens at least P times as likely as the likeliest token; 0 among all tokens
    "min_p" "" "P" Number "" "0..1" "generator.sampling.min_p" Request Sampling Long;
    /// Most tokens of a thought before the answer; 0: no thought
    ///
    /// 8192 for a generator whose chat template names tags of thoughts, such as `<think>`. A thought
    /// that reaches the limit is closed, and the answer follows. 0 uses the template's own switch
    /// or, without one, an empty thought.
    "thinking_budget" "" "TOKENS" Count "" "0.." "generator.thinking.budget" Request Sampling Long;
    /// Generator, which writes steps
    ///
    /// A folder in Hugging Face layout, a GGUF file, ORG/NAME[@REVISION] on the Hugging Face hub,
    /// or bundled.
    "generator" "" "MODEL" Path "bundled" "" "models.generator" Solver Models Always;
    /// Servers that run the generator, e.g. http://HOST:8000
    ///
    /// vLLM, SGLang or llama.cpp's server; with models.generator_server.engine = "openai", any
    /// OpenAI-compatible endpoint. Separate several addresses by commas. `generator` then names the
    /// model whose tokenizer and chat template are used [default: the model that the servers
    /// report]. The environment variable BEAMGEN_GENERATOR_KEY may hold an API key. Other settings
    /// are keys of models.generator_server.
    "generator_url" "" "URL" List "" "" "models.generator_server.urls" Solver Models Long;
    /// Model whose tokenizer and chat template the generator uses [default: its own]
    ///
    /// Named as for `generator`. For checkpoints without a tokenizer that can be read, such as a
    /// GGUF file with an unknown pre-tokenizer. It must have the generator's tokens.
    "tokenizer" "" "MODEL" Path "" "" "models.tokenizer" Solver Models Long;
    /// Score steps with prm, orm, exact, none, or a reward model; may be repeated
    ///
    /// prm is the model of `prm`, orm the bundled outcome reward model. exact computes the bundled
    /// problems, and knows no others. none is for strategies that need no scores. Any other name is
    /// a reward model, as for `prm`, or the address of its server. Further names are judges, whose
    /// scores `combine` combines with the first. `prm` and `judge` are short forms.
    "scorer" "" "SCORER" Texts "prm" "" "models.scorer" Solver Scorer Long;
    /// Add a judge of the steps to the scorer; may be repeated
    ///
    /// A name as for a further `scorer`, or an entailment (NLI) classifier, which judges whether a
    /// step follows from the problem's context. The tree has each judge's scores, and the ledger
    /// has the tokens that the judge read. Other settings of a judge: [[models.judges]] in a file.
    "judge" "" "JUDGE" Texts "" "" "models.judges" Solver Models Long;
    /// Rule that combines the scores of several judges into one
    ///
    /// min, product, mean-logits, veto[:T] (the scorer's score, or 0 where a judge scores below T)
    /// or cascade[:LOW..HIGH] (the scorer's score; if it is between the bounds, the next judge's,
    /// which is asked for those steps only).
    "combine" "" "RULE" Text "min" "" "models.combine" Solver Models Long JUDGE;
    /// Calibration of the reward model, a file of `beamgen calibrate`
    ///
    /// With a calibration, steps are labelled sure or unsure [default: calibration.json in the
    /// model's folder, if it exists]
    "calibration" "" "FILE" Path "" "" "models.calibration" Solver Models Long MODEL;
    /// Score of a step: raw, calibrated, median or lower
    ///
    /// raw is the reward model's score. calibrated is the probability of success that the
    /// calibration gives for that score (use the `aggregation` of `beamgen calibrate`). median and
    /// lower (10 %) are quantiles of that probability, read from the model's hidden state.
    "score_as" "" "WHAT" Text "raw" "" "models.score_as" Solver Models Long MODEL;
    /// Withhold answers so that at most this share of the returned answers is wrong, from 0 to 1
    ///
    /// The calibration has the threshold for that share (`beamgen calibrate` with run files). 0
    /// withholds no answer.
    "max_error" "" "SHARE" Number "0" "0..1" "models.max_error" Solver Models Long MODEL;
    /// Checkers that veto steps that they prove wrong: arithmetic, consistency, exact
    ///
    /// arithmetic checks equations in text and in <<3*4=12>>, exactly. consistency finds a
    /// calculation to which the next step gives another result. exact checks lines of the bundled
    /// world. Separate several names by commas, or repeat the flag. [default: no checker]
    "checker" "" "NAME" List "" "" "checkers.builtin" Solver Checkers Long;
    /// Run a checker of your own: a shell command that speaks JSON lines (docs/rewards/checkers.md)
    ///
    /// May be repeated. If the command does not answer for a step, or dies, it counts as
    /// abstaining on that step.
    "checker_command" "" "CMD" Texts "" "" "checkers.commands" Solver Checkers Long;
    /// Seconds after which a checker command that does not answer is killed
    "checker_timeout" "" "SECONDS" Number "10" "0.001..86400" "checkers.timeout" Solver Checkers Long COMMAND;
    /// Checkers that audit the chain of each answer: exact, arithmetic, ... or none
    ///
    /// The audit changes no score. A right answer whose chain has a step that is proved wrong is
    /// reported as unsound. Separate several names by commas, or repeat the flag.
    "audit" "" "NAME" List "exact,arithmetic" "" "checkers.audit" Solver Soundness Long;
    /// Count an answer as unsound if a step of its chain scores less than SCORE, from 0 to 1
    ///
    /// Reported apart from the findings of checkers. 0 never does so.
    "sound_above" "" "SCORE" Number "0" "0..1" "checkers.sound_above" Solver Soundness Long;
    /// Withhold answers that are unsound by `audit` or `sound_above`
    "require_sound" "" "" Switch "" "" "checkers.require_sound" Solver Soundness Long;
    /// Rule that decides whether a chain is right: math, lean, or a shell command that speaks JSON lines
    ///
    /// math compares the answer with the reference. lean checks proofs in Lean 4 on a Kimina
    /// server. A command gets each finished chain, with the reference and the tests of its problem,
    /// and says right, wrong or unknown
    /// (docs/rewards/verifiers.md). A problem may name another one in `verifier`.
    "verifier" "" "math|lean|CMD" Text "math" "" "verifier.run" Solver Soundness Long;
    /// Address of the Kimina server that the verifier `lean` asks
    ///
    /// Problems may then name `lean` in `verifier`, whatever the usual verifier is. The environment
    /// variable `LEAN_SERVER_API_KEY` has the key of the server. [default: http://127.0.0.1:8000]
    "lean_url" "" "URL" Text "" "" "verifier.lean_url" Solver Soundness Long;
    /// Keep the reference answer and the tests from the verifier, which judges by the problem alone
    "verifier_open" "" "" Switch "" "" "verifier.open" Solver Soundness Long VERIFIER;
    /// Seconds after which a verifier command that does not answer is killed
    "verifier_timeout" "" "SECONDS" Number "10" "0.001..86400" "verifier.timeout" Solver Soundness Long VERIFIER;
    /// Published models by name, e.g. qwen2.5-math-1.5b
    ///
    /// A generator and a reward model with the settings that suit them: a pair of `beamgen models`,
    /// or a TOML file. A file of settings wins over the pair; `generator` and `prm` replace the
    /// pair's models. [default: the bundled pair]
    "pair" "" "NAME|FILE" Text "" "" "" Solver Reward Always;
    /// Process reward model (PRM)
    ///
    /// A folder in Hugging Face layout, a GGUF file, ORG/NAME[@REVISION] on the Hugging Face hub,
    /// bundled, or none, which is the same as `scorer` none.
    "prm" "" "MODEL" Path "bundled" "" "models.prm" Solver Reward Always MODEL;
    /// Servers that run the reward model, as for `generator_url`
    ///
    /// The environment variable BEAMGEN_PRM_KEY may hold an API key.
    "prm_url" "" "URL" List "" "" "models.prm_server.urls" Solver Reward Long MODEL;
    /// Format of the reward model: how its input is written and its scores are read
    ///
    /// auto (recognised from the checkpoint), a family (`beamgen models` lists them) or a TOML file
    /// [default: auto]
    "prm_format" "" "NAME|FILE" Text "" "" "models.prm_format" Solver Reward Long MODEL;
    /// Model whose tokenizer and chat template the reward model uses [default: its own]
    "prm_tokenizer" "" "MODEL" Path "" "" "models.prm_tokenizer" Solver Reward Long MODEL;
    /// Reference model of an implicit reward model, named as for `prm`
    "prm_reference" "" "MODEL" Path "" "" "models.prm_reference" Solver Reward Long MODEL;
    /// Weights: auto, f32, bf16, f16, int8
    ///
    /// The number type of weights in memory. auto keeps the checkpoint's type, exactly; int8 is
    /// fastest, but not exact.
    "dtype" "" "TYPE" Text "auto" "" "models.dtype" Solver Engine Always;
    /// Arithmetic of float weights: auto, f32 or bf16
    ///
    /// bf16 rounds weights and activations to bfloat16, as other engines do by default. With
    /// AMD's AVX512-BF16 it is faster: searches were 1.5 to 1.8 times as fast on a Zen 4. The
    /// order of sums is bf16-tiles with AMX, otherwise bf16-pairs; any cpu gives the numbers of
    /// both, if named. auto is f32 on the cpu, and the weights' type on a CUDA device.
    "compute" "" "TYPE" Text "auto" "" "models.compute" Solver Engine Long;
    /// Device that computes: auto, cpu, cuda or cuda:N
    ///
    /// auto is the cpu for the bundled models. For other models auto is CUDA device 0, if the device
    /// passes a test and the models fit; otherwise the cpu. N counts from 0, the fastest card first;
    /// with CUDA_DEVICE_ORDER=PCI_BUS_ID in the environment, in the order of nvidia-smi.
    "device" "" "DEVICE" Text "auto" "" "engine.device" Solver Engine Long;
    /// Number type of the KV cache: auto, f32, bf16 or f16
    ///
    /// auto is f32 on the cpu, and the weights' type on a CUDA device. bf16 and f16 take half the
    /// memory of f32; bf16 is fastest on processors with AMX.
    "kv_dtype" "" "TYPE" Text "auto" "" "engine.kv_dtype" Solver Engine Long;
    /// Most memory for KV caches, e.g. 2GiB
    ///
    /// For both models together: bytes, or a number with a unit. The cpu's memory is taken as it is
    /// needed, a CUDA device's at the start. auto is 4GiB on the cpu; on a CUDA device, enough for
    /// all chains in flight.
    "kv_memory" "" "SIZE" Size "auto" "" "engine.kv_bytes" Solver Engine Always;
    /// Use models from the hub's local cache only, never the network
    "offline" "" "" Switch "" "" "models.offline" Solver Engine Long;
    /// Threads that compute
    ///
    /// At most 1024; 0 takes one for each physical core.
    "threads" "" "COUNT" Count "0" "0..1024" "engine.threads" Solver Engine Long;
};

impl Setting {
    /// Returns the row of [`SETTINGS`] with this name; `None` for an unknown name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Returns the first paragraph of the description, as one line.
    pub fn help(&self) -> String {
        let (help, _) = self.doc.split_once("\n\n").unwrap_or((self.doc, ""));
        joined(help)
    }

    /// Returns the paragraphs after the first one, and the default; empty if there is neither.
    pub fn more(&self) -> String {
        let (_, more) = self.doc.split_once("\n\n").unwrap_or_default();
        let mut more = joined(more);
        if more.contains('{') {
            let of_one = StrategyName::list(|config| config.chains() == 1);
            let using_m = StrategyName::list(|config| config.strategy.spec().uses_m);
            more = more.replace("{of_one}", &of_one);
            let rolls_out = StrategyName::list(|config| config.strategy.spec().rolls_out);
            more = more.replace("{using_m}", &using_m);
            more = more.replace("{rolls_out}", &rolls_out);
            more = more.replace("{usual}", &StrategyName::usual_choices());
        }
        if !self.default.is_empty() {
            let gap = if more.is_empty() { "" } else { " " };
            // Writing into a string cannot fail.
            let _ = write!(more, "{gap}[default: {}]", self.default);
        }
        more
    }

    /// Returns the allowed values of `strategy` or `checker`, each with its description; an empty
    /// list for other settings.
    pub fn known(&self) -> Vec<(&'static str, &'static str)> {
        let names = StrategyName::all();
        match self.name {
            "strategy" => names.map(|name| (name.name(), name.summary())).collect(),
            "checker" => CHECKERS.iter().map(|row| (row.name, row.about)).collect(),
            _ => Vec::new(),
        }
    }

    /// Reads a value from a text. For a list, the text is one item of the list.
    ///
    /// # Errors
    /// Returns the reason why the text is not a valid value.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        // TOML's integers end at i64::MAX. A larger count becomes i64::MAX, which exceeds every
        // limit and is therefore refused later. A seed has no limit, so a larger seed is refused
        // here.
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
        // The value is tried on the defaults, so that an error is reported under the flag's name.
        match put(&Config::default(), self.name, value.clone()) {
            Err(Error::Key { reason, .. }) => Err(reason),
            Err(error) => Err(error.to_string()),
            Ok(_) => Ok(value),
        }
    }
}

/// Returns a copy of settings with one of [`SETTINGS`] changed. `settings` may be a [`Config`], or
/// the [`Settings`](crate::Settings) of a request.
///
/// # Errors
/// Returns [`Error::Key`] if the name is unknown, or if the value is invalid for the setting.
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
        return Err(refused("not the name of a setting".to_owned()));
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

/// Returns a copy of `config` with all settings of `given`, applied in the order of the table.
///
/// # Errors
/// Returns the errors of [`put`], and [`Error::Refused`] if two settings contradict each other.
pub fn put_all(config: &Config, given: &[(impl AsRef<str>, Value)]) -> Result<Config, Error> {
    refuse_contradictions(given)?;
    let mut config = config.clone();
    // The order of the table puts a strategy first, whose preset must not undo other settings.
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

type Keys = Vec<(&'static str, Value)>;

/// Returns the table `search` with the strategy `name`, and with the settings that the name
/// implies.
fn strategy_keys(settings: &impl Serialize, name: &str) -> Result<Keys, Error> {
    let strategy: StrategyName = name.parse()?;
    let wrong = |reason: String| Error::Refused(reason.into());
    // `settings` is a whole configuration or the settings of a request; both have the table
    // `search`.
    let mut table = Table::try_from(settings).map_err(|error| wrong(error.to_string()))?;
    let search = table.remove("search").unwrap_or(Table::new().into());
    let search: Result<SearchConfig, _> = search.try_into();
    let mut search = search.map_err(|error| wrong(error.to_string()))?;
    strategy.apply(&mut search);
    let search = Value::try_from(search).map_err(|error| wrong(error.to_string()))?;
    Ok(vec![("search", search)])
}

/// Returns the keys for the values of `scorer`. The first value is the scorer; others are judges.
fn scorer_keys(names: &[String]) -> Result<Keys, Error> {
    let [first, others @ ..] = names else {
        return Err(Error::Refused(
            "the list of scorers is empty: name a scorer, or none".into(),
        ));
    };
    let kind = if is_scorer_word(first) { first } else { "prm" };
    let mut keys = vec![("models.scorer", kind.into())];
    if is_address(first) {
        keys.push(("models.prm_server.urls", vec![first.clone()].into()));
    } else if first == "bundled" || first.contains(['/', '.']) || Path::new(first).exists() {
        keys.push(("models.prm", first.as_str().into()));
    } else {
        // A reserved word is valid. Any other text fails here, with an error that lists the words.
        let _: ScorerKind = first.parse()?;
    }
    if !others.is_empty() {
        keys.push(("models.judges", judges(others)?));
    }
    Ok(keys)
}

/// Returns the value of `models.judges`, with a table for each name or address.
fn judges(names: &[String]) -> Result<Value, Error> {
    if names.iter().any(|name| name == "none") {
        let reason = "none cannot be a judge: leave it out, or name it first and once";
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

/// Joins the lines of a description into one.
fn joined(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
