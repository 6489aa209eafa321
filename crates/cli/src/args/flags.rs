//! Flags that are settings. They are made from the library's table of settings.

use std::path::{Path, PathBuf};

use beamgen::settings::{Kind, Part, SETTINGS, Setting, Shown};
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, builder::PossibleValue};
use toml::Value;

const fn bit(part: Part) -> u16 {
    1 << part as u16
}

/// The bit for `--config` and `--set`, which are not settings of the table but can set any key.
const FILE: u16 = 1 << 15;
const REWARD: u16 = bit(Part::Reward) | bit(Part::Engine);
const MANY: u16 = FILE
    | bit(Part::Search)
    | bit(Part::Sampling)
    | bit(Part::Models)
    | bit(Part::Checkers)
    | bit(Part::Soundness)
    | REWARD;

/// Flags of a command that runs one search.
pub(crate) type SearchFlags = Flags<{ MANY | bit(Part::Width) | bit(Part::Scorer) }>;
/// Flags of a command that has its own strategies, widths and scorers.
pub(crate) type SettingFlags = Flags<MANY>;
/// Flags of a command that uses a reward model without a search.
pub(crate) type PrmFlags = Flags<{ FILE | REWARD }>;
/// Flags of a command that scores chains, by a reward model or by completions.
pub(crate) type ScoreFlags =
    Flags<{ FILE | REWARD | bit(Part::Models) | bit(Part::Sampling) | bit(Part::Checkers) }>;
/// Flags about the reward model and the engine.
pub(crate) type ModelFlags = Flags<REWARD>;
/// Flags about the engine: device, number types, memory, threads.
pub(crate) type EngineFlags = Flags<{ bit(Part::Engine) }>;
/// Flags about checkers that veto steps.
pub(crate) type CheckerFlags = Flags<{ bit(Part::Checkers) }>;

/// The flags of some parts of the table of settings, and their given values. `PARTS` has one bit
/// for each part, so the type shows which flags a command has.
#[derive(Debug, Default)]
pub(crate) struct Flags<const PARTS: u16> {
    pub config: Option<PathBuf>,
    pub set: Vec<String>,
    pub given: Given,
}

/// The settings that were given as flags, as names and values in the order of the table.
#[derive(Debug, Default)]
pub(crate) struct Given(pub Vec<(&'static str, Value)>);

impl Given {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        let mut given = self.0.iter();
        given.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Whether --offline was given: nothing is downloaded.
    pub(crate) fn offline(&self) -> bool {
        self.get("offline").and_then(Value::as_bool) == Some(true)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    pub(crate) fn path(&self, name: &str) -> Option<&Path> {
        self.text(name).map(Path::new)
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let texts = self.get(name).and_then(Value::as_array).into_iter();
        let texts = texts.flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }
}

fn rows(parts: u16) -> impl Iterator<Item = &'static Setting> {
    SETTINGS
        .iter()
        .filter(move |setting| parts & bit(setting.part) != 0)
}

impl<const PARTS: u16> Args for Flags<PARTS> {
    fn augment_args(command: Command) -> Command {
        let heading = if PARTS & bit(Part::Search) != 0 {
            "Search"
        } else {
            "Models"
        };
        let arg = |name, value, help| Arg::new(name).long(name).value_name(value).help(help);
        let about =
            "Examples are in configs/search/. --set wins over the file, other flags win over both.";
        let config = arg("config", "FILE", "Read settings from a TOML file");
        let config = config.value_parser(clap::value_parser!(PathBuf));
        let set = arg("set", "KEY=VALUE", "Set any key of the configuration");
        let example = "For example --set search.rebase.balance=paper. May be repeated.";
        let file = [(config, about), (set.action(ArgAction::Append), example)];
        let file = file.into_iter().filter(|_| PARTS & FILE != 0);
        let file = file.map(|(arg, more)| {
            let long = format!("{}\n\n{more}", arg.get_help().unwrap_or_default());
            arg.long_help(long).help_heading(heading)
        });
        command.args(file).args(rows(PARTS).map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Returns the definition of the flag for a setting.
fn flag(setting: &'static Setting) -> Arg {
    let (help, more) = (flagged(&setting.help()), flagged(&setting.more()));
    let long = if more.starts_with("[default:") {
        format!("{help} {more}")
    } else {
        format!("{help}\n\n{more}")
    };
    let short = match setting.default {
        "" => help,
        default => format!("{help} [default: {default}]"),
    };
    let arg = Arg::new(setting.name)
        // clap requires a static name. The leak is harmless, since definitions live as long as the
        // process.
        .long(&*dashed(setting.name).leak())
        .short(setting.short.chars().next())
        .help(short)
        .long_help(long.trim_end().to_owned())
        .help_heading(setting.part.heading())
        .hide_short_help(setting.shown == Shown::Long);
    match setting.kind {
        Kind::Switch => arg.action(ArgAction::SetTrue),
        kind => arg
            .action(match kind {
                Kind::List | Kind::Texts => ArgAction::Append,
                _ => ArgAction::Set,
            })
            .value_delimiter((kind == Kind::List).then_some(','))
            // Without this, clap would read `-1` as a flag, and the error would not name the
            // allowed range.
            .allow_negative_numbers(kind == Kind::Number)
            .value_name(setting.value)
            .hide_possible_values(true)
            .value_parser(parser(setting)),
    }
}

fn parser(setting: &'static Setting) -> ValueParser {
    let read = |text: String| setting.read(&text);
    let known = setting.known();
    if known.is_empty() {
        ValueParser::new(OsStringValueParser::new().try_map(move |given| {
            let text = given.into_string();
            text.map_err(|_| "not UTF-8: use another name".to_owned())
                .and_then(read)
        }))
    } else {
        let known = known
            .into_iter()
            .map(|(name, about)| PossibleValue::new(name).help(about));
        ValueParser::new(PossibleValuesParser::new(known).try_map(read))
    }
}

/// Returns the flag's spelling of a setting's name.
fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

/// Replaces names of settings in backticks by flags. The texts of the table are also for Python and
/// HTTP, where settings are spelt differently.
pub(crate) fn flagged(text: &str) -> String {
    let mut parts = text.split('`');
    let mut flagged = parts.next().unwrap_or_default().to_owned();
    while let Some(name) = parts.next() {
        let after = parts.next();
        if after.is_some() && Setting::named(name).is_some() {
            flagged += &format!("--{}", dashed(name));
        } else {
            flagged += &format!("`{name}{}", if after.is_some() { "`" } else { "" });
        }
        flagged += after.unwrap_or_default();
    }
    flagged
}

impl<const PARTS: u16> FromArgMatches for Flags<PARTS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        if PARTS & FILE != 0 {
            self.config = matches.get_one("config").cloned();
            let set = matches.get_many("set").unwrap_or_default();
            self.set = set.cloned().collect();
        }
        for Setting { name, kind, .. } in rows(PARTS) {
            let value = match kind {
                // clap reports `false` for a switch that was not typed, which must not count as
                // given.
                Kind::Switch => matches.get_flag(name).then_some(Value::Boolean(true)),
                Kind::List | Kind::Texts => matches
                    .get_many::<Value>(name)
                    .map(|values| Value::Array(values.cloned().collect())),
                _ => matches.get_one(name).cloned(),
            };
            self.given.0.extend(value.map(|value| (*name, value)));
        }
        Ok(())
    }
}
