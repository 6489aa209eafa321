//! `beamgen serve`: an HTTP server that answers requests with searches.

use std::collections::BTreeMap;
use std::env::VarError;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use beamgen::eval::calibrate::Calibration;
use beamgen::eval::profile::Profile;
use beamgen::program::search_name;
use beamgen::{Config, Settings, Solver};
use beamgen_serve::{
    Error, Event, Key, Limits, Loaded, Origin, Presets, Reload, ServeOptions, Served, Server, Stop,
};
use serde_json::json;
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
#[cfg(unix)]
use signal_hook::iterator::Signals;

use crate::args::{LogFormat, ServeArgs};
use crate::failure::{Failure, refuse};
use crate::interrupt;
use crate::json_log::{self, Level};
use crate::lost;
use crate::output;
use crate::settings::{self, ShowPlan};
use crate::table::counted;
use crate::write::read_text;

const KEY_VARIABLE: &str = "BEAMGEN_API_KEY";

/// Routes that probes call every few seconds. The JSON log leaves such requests out unless they
/// fail or `--verbose` is given.
const PROBES: [&str; 3] = ["health", "ready", "metrics"];

pub(crate) fn main(args: &ServeArgs) -> Result<(), Failure> {
    if args.log_format == LogFormat::Json {
        json_log::turn_on();
    }
    let config = settings::search_config(&args.settings)?;
    config.check()?;
    let files = Files {
        presets: args.presets.clone(),
        keys: args.api_key_file.clone(),
        own: config.settings(),
    };
    let loaded = files.load()?;
    let reload = Reload::new(move || files.load().map_err(|failure| failure.to_string()));
    let reference = args.reference.as_deref();
    let calibration = reference
        .map(beamgen_measure::calibrate::read)
        .transpose()?;
    // The address is bound before models are loaded, so that a port in use is reported at once.
    let options = options(args, &config, loaded.keys, reload.clone())?;
    let mut server = Server::bind(options)?;
    // By default the signal would end the process, so it is handled before the models are loaded.
    reload_on_signal(&reload)?;
    let show = match args.log_format {
        // The memory plan and the settings are tables for people, not log lines.
        LogFormat::Json => ShowPlan::Never,
        LogFormat::Text if args.verbose => ShowPlan::Always,
        LogFormat::Text => ShowPlan::OwnModels,
    };
    let solver = settings::any_solver(config, show)?;
    if let (Some(path), Some(calibration)) = (reference, &calibration) {
        compare(&mut server, path, calibration, &solver, &loaded.presets)?;
    }
    let stop = Stop::new();
    let draining = "stopping when running requests are finished; press Ctrl-C again to stop now";
    // These signals are handled only from here on: while models are loaded, they should end the
    // process.
    stop_on_signals(&stop, draining)?;
    let address = server.address()?;
    output::event(
        Level::Info,
        "listening",
        json!({"address": format!("http://{address}")}),
        format_args!("listening on http://{address}"),
    );
    let (solver, summary) = server.run(solver, loaded.presets, &stop)?;
    lost::tell_of(&solver);
    let (problems, tokens) = (summary.problems, summary.ledger.generated_tokens);
    output::event(
        Level::Info,
        "stopped",
        json!({"problems": problems, "generated_tokens": tokens}),
        format_args!(
            "stopped: {} solved, {} sampled",
            counted(problems, "problem", "problems"),
            counted(tokens, "token", "tokens")
        ),
    );
    Ok(())
}

/// Lets the server compare each preset's answers with those of the runs in a calibration.
fn compare(
    server: &mut Server,
    path: &Path,
    calibration: &Calibration,
    solver: &Solver,
    presets: &Presets,
) -> Result<(), Failure> {
    let profiles: BTreeMap<String, Profile> = presets
        .iter()
        .filter_map(|preset| {
            let search = search_name(&solver.identity_of(&preset.settings));
            let mut curves = calibration.answers.iter();
            let curve = curves.find(|curve| curve.search == search)?;
            Some((preset.name.clone(), curve.profile.clone()?))
        })
        .collect();
    if profiles.is_empty() {
        return refuse(format!(
            "--reference {}: has no profile of a search with a preset's settings and these models: add one with `beamgen calibrate --runs`",
            path.display()
        ));
    }
    let names: Vec<&str> = profiles.keys().map(String::as_str).collect();
    output::event(
        Level::Info,
        "reference",
        json!({"presets": names}),
        format_args!("drift is measured for {}", names.join(", ")),
    );
    server.compare_with(profiles);
    Ok(())
}

/// The files that a server reads again when asked to reload.
struct Files {
    presets: Option<PathBuf>,
    keys: Option<PathBuf>,
    /// The settings of the server itself, into which presets are merged.
    own: Settings,
}

impl Files {
    fn load(&self) -> Result<Loaded, Failure> {
        Ok(Loaded {
            presets: presets(self.presets.as_deref(), &self.own)?,
            keys: keys(self.keys.as_deref())?,
        })
    }
}

fn options(
    args: &ServeArgs,
    config: &Config,
    keys: Vec<Key>,
    reload: Reload,
) -> Result<ServeOptions, Failure> {
    for (flag, value) in [
        ("queue", args.queue),
        ("connections", args.connections),
        ("max-request-tokens", args.max_tokens),
        ("deadline", args.deadline as usize),
    ] {
        if value == 0 {
            return refuse(format!("--{flag} 0: use at least 1"));
        }
    }
    if !(0.0..=1.0).contains(&args.shadow_share) {
        return refuse(format!(
            "--shadow-share {}: use a share from 0 to 1",
            args.shadow_share
        ));
    }
    Ok(ServeOptions {
        address: SocketAddr::new(args.host, args.port),
        keys,
        allow_anyone: args.allow_anyone,
        host_names: args.host_name.clone(),
        allow_origins: origins(&args.allow_origin)?,
        limits: Limits {
            queue: args.queue,
            connections: args.connections,
            tokens: args.max_tokens,
            search_time: Duration::from_secs(args.deadline),
            drain_time: Duration::from_secs(args.drain_seconds),
            ..Limits::default()
        },
        fixed_seed: fixed_seed(args, config),
        references: BTreeMap::new(),
        shadow_share: args.shadow_share,
        observe: Some(Arc::new({
            let verbose = args.verbose;
            move |event| log(event, verbose)
        })),
        reload: Some(reload),
    })
}

/// Returns the seed for requests that give none; `None` (a new seed each time) unless the user set
/// one.
fn fixed_seed(args: &ServeArgs, config: &Config) -> Option<u64> {
    let seed = config.generator.seed;
    // A settings file that sets the default seed cannot be distinguished from one that sets none.
    (args.settings.given.has("seed") || seed != 0).then_some(seed)
}

fn origins(texts: &[String]) -> Result<Vec<Origin>, Failure> {
    let read = |text: &String| {
        let origin = text.parse::<Origin>();
        origin.map_err(|error| Failure::Input(format!("--allow-origin {text}: {error}")))
    };
    texts.iter().map(read).collect()
}

/// Logs an event of the server. In the text log, requests appear only with `--verbose`.
fn log(event: &Event<'_>, verbose: bool) {
    match event {
        Event::Served(served) => {
            let is_fine_probe = served.status == 200 && PROBES.contains(&served.route);
            if verbose || (json_log::is_on() && !is_fine_probe) {
                log_request(served);
            }
        }
        Event::Reloaded { presets, keys } => output::event(
            Level::Info,
            "reloaded",
            json!({"presets": presets, "keys": keys}),
            format_args!(
                "reloaded: {}, {}",
                counted(*presets, "preset", "presets"),
                counted(*keys, "key", "keys")
            ),
        ),
        Event::FieldIgnored { field } => output::event(
            Level::Info,
            "field_ignored",
            json!({"field": field}),
            format_args!(
                "field {field} of a request has no effect here (said once; answers name it)"
            ),
        ),
        Event::NotReloaded { reason } => output::event(
            Level::Error,
            "not_reloaded",
            json!({"message": reason}),
            format_args!("nothing was reloaded: {reason}"),
        ),
        // `Event` is non-exhaustive: a later version of the crate may have further events.
        _ => {}
    }
}

fn log_request(served: &Served) {
    let Served {
        request_id,
        route,
        status,
        seconds,
        ..
    } = served;
    let level = match status {
        500.. => Level::Error,
        499 | ..400 => Level::Info,
        _ => Level::Warn,
    };
    let mut facts = json!({
        "request_id": request_id,
        "route": route,
        "status": status,
        "seconds": (seconds * 1e6).round() / 1e6,
    });
    if let Some(tokens) = served.tokens {
        facts["prompt_tokens"] = tokens.prompt.into();
        facts["generated_tokens"] = tokens.generated.into();
        facts["scored_tokens"] = tokens.scored.into();
    }
    let text = format_args!("{route} {status} {seconds:.3} s {request_id}");
    output::event(level, "request", facts, text);
}

/// Reads the API keys: from the file if one is named, or else from the environment variable.
fn keys(file: Option<&Path>) -> Result<Vec<Key>, Failure> {
    let (place, text) = match file {
        Some(path) => (path.display().to_string(), read_text(path)?),
        None => match std::env::var(KEY_VARIABLE) {
            Ok(text) => (KEY_VARIABLE.to_owned(), text),
            Err(VarError::NotPresent) => return Ok(Vec::new()),
            // A variable that cannot be read must not count as no key, which would open the server
            // to everyone.
            Err(VarError::NotUnicode(_)) => {
                return refuse(format!("{KEY_VARIABLE}: not UTF-8: write the key in ASCII"));
            }
        },
    };
    let lines = text.lines().map(str::trim).enumerate();
    let keys = lines.filter(|(_, line)| !line.is_empty());
    let keys = keys.map(|(at, line)| {
        let key = line.parse::<Key>();
        // The error has the number of the line but not its text, which may be a key with a typing
        // error.
        key.map_err(|error| Failure::Input(format!("{place}: line {}: {error}", at + 1)))
    });
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() {
        refuse(format!("{place}: has no key: write a key on a line"))
    } else {
        Ok(keys)
    }
}

fn presets(file: Option<&Path>, own: &Settings) -> Result<Presets, Failure> {
    Ok(match file {
        Some(path) => Presets::parse(&read_text(path)?, &path.display().to_string(), own)?,
        None => Presets::built_in(own)?,
    })
}

#[cfg(unix)]
fn handled(signals: impl IntoIterator<Item = i32>) -> Result<Signals, Failure> {
    Signals::new(signals)
        .map_err(|error| Failure::Run(anyhow::Error::new(error).context("no signal handlers")))
}

/// Stops the server after the first SIGINT, SIGTERM or SIGHUP, with a note. A second SIGINT or
/// SIGTERM ends the process at once.
#[cfg(unix)]
pub(crate) fn stop_on_signals(stop: &Stop, note: &'static str) -> Result<(), Failure> {
    let mut heeded = vec![SIGINT, SIGTERM];
    // nohup makes the process ignore SIGHUP, so that it outlives its terminal; a handler would undo
    // that.
    heeded.extend(Some(SIGHUP).filter(|&signal| interrupt::is_default(signal)));
    let mut signals = handled(heeded)?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            say_stopping(note);
            stop.begin();
        }
        // A closed terminal sends SIGHUP twice, so a second SIGHUP must not end the process.
        if let Some(signal) = signals.find(|&signal| signal != SIGHUP) {
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Stops the server after the first Ctrl-C, with a note. A second one ends the process.
///
/// Only Unix can wait for signals, so a thread polls the flag that the handler sets.
#[cfg(not(unix))]
pub(crate) fn stop_on_signals(stop: &Stop, note: &'static str) -> Result<(), Failure> {
    let interrupt = interrupt::Interrupt::watch();
    let stop = stop.clone();
    std::thread::spawn(move || {
        while !interrupt.is_pressed() {
            std::thread::sleep(Duration::from_millis(100));
        }
        say_stopping(note);
        stop.begin();
    });
    Ok(())
}

fn say_stopping(note: &str) {
    output::event(Level::Info, "stopping", json!({}), note);
}

/// Makes the server read its presets and keys again at each SIGUSR1.
#[cfg(unix)]
fn reload_on_signal(reload: &Reload) -> Result<(), Failure> {
    let mut signals = handled([SIGUSR1])?;
    let reload = reload.clone();
    std::thread::spawn(move || {
        for _ in &mut signals {
            reload.begin();
        }
    });
    Ok(())
}

/// Does nothing. Only Unix has SIGUSR1; `POST /v1/reload` works everywhere.
#[cfg(not(unix))]
fn reload_on_signal(_: &Reload) -> Result<(), Failure> {
    Ok(())
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Open { .. } => Self::Input(format!(
                "{error}: give --api-key-file FILE or {KEY_VARIABLE}, or say --allow-anyone"
            )),
            Error::EveryOrigin => Self::Input(format!(
                "--allow-origin *: {error}: give --api-key-file FILE or {KEY_VARIABLE}, or name the origins"
            )),
            Error::Lost(error) => Self::from(error),
            Error::Runtime(_) => Self::Run(error.into()),
            error => Self::Input(error.to_string()),
        }
    }
}
