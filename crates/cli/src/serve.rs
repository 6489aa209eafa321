//! `beamgen serve`: an HTTP server that answers requests with searches.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use beamgen::Settings;
use beamgen_serve::{Error, Key, Limits, Presets, ServeOptions, Served, Server, Stop};
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
#[cfg(unix)]
use signal_hook::iterator::Signals;

use crate::args::ServeArgs;
use crate::failure::{Failure, refuse};
use crate::interrupt;
use crate::lost;
use crate::output;
use crate::settings::{self, ShowPlan};
use crate::table::counted;
use crate::write::read_text;

/// The environment variable that may hold an API key.
const KEY_VARIABLE: &str = "BEAMGEN_API_KEY";

pub(crate) fn main(args: &ServeArgs) -> Result<(), Failure> {
    let config = settings::search_config(&args.settings)?;
    config.check()?;
    let presets = presets(args.presets.as_deref(), &config.settings())?;
    // The address is bound before the models are loaded, so that a port in use fails at once.
    let server = Server::bind(options(args)?)?;
    let show = if args.verbose {
        ShowPlan::Always
    } else {
        ShowPlan::OwnModels
    };
    let solver = settings::any_solver(config, show)?;
    let stop = Stop::new();
    let draining = "stopping when running requests are finished; press Ctrl-C again to stop now";
    stop_on_signals(&stop, draining)?;
    let address = server.address()?;
    output::note(format_args!("listening on http://{address}"));
    let (solver, summary) = server.run(solver, presets, &stop)?;
    lost::tell_of(&solver);
    output::note(format_args!(
        "stopped: {} solved, {} sampled",
        counted(summary.problems, "problem", "problems"),
        counted(summary.ledger.generated_tokens, "token", "tokens")
    ));
    Ok(())
}

fn options(args: &ServeArgs) -> Result<ServeOptions, Failure> {
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
    Ok(ServeOptions {
        address: SocketAddr::new(args.host, args.port),
        keys: keys(args.api_key_file.as_deref())?,
        allow_anyone: args.allow_anyone,
        host_names: args.host_name.clone(),
        limits: Limits {
            queue: args.queue,
            connections: args.connections,
            tokens: args.max_tokens,
            search_time: Duration::from_secs(args.deadline),
            drain_time: Duration::from_secs(args.drain_seconds),
            ..Limits::default()
        },
        observe: args.verbose.then(|| Arc::new(log) as Arc<_>),
    })
}

fn log(served: &Served) {
    output::note(format_args!(
        "{} {} {:.3} s",
        served.route, served.status, served.seconds
    ));
}

/// Reads API keys from the file if a file is named, otherwise from the environment variable.
fn keys(file: Option<&Path>) -> Result<Vec<Key>, Failure> {
    let (place, text) = match file {
        Some(path) => (path.display().to_string(), read_text(path)?),
        None => match std::env::var(KEY_VARIABLE) {
            Ok(text) => (KEY_VARIABLE.to_owned(), text),
            Err(_) => return Ok(Vec::new()),
        },
    };
    let lines = text.lines().map(str::trim).enumerate();
    let keys = lines.filter(|(_, line)| !line.is_empty());
    let key = |(at, line): (usize, &str)| {
        let key = line.parse::<Key>();
        key.map_err(|error| Failure::Input(format!("{place}: line {}: {error}", at + 1)))
    };
    let keys = keys.map(key).collect::<Result<Vec<_>, _>>()?;
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

/// Stops the server, with a note, after the first SIGTERM, SIGHUP or Ctrl-C. A second SIGTERM or Ctrl-C
/// ends the process.
#[cfg(unix)]
pub(crate) fn stop_on_signals(stop: &Stop, note: &'static str) -> Result<(), Failure> {
    let mut heeded = vec![SIGINT, SIGTERM];
    // nohup ignores SIGHUP, so that the server survives its terminal: a handler would undo that.
    heeded.extend(Some(SIGHUP).filter(|&signal| interrupt::is_default(signal)));
    let mut signals = Signals::new(heeded)
        .map_err(|error| Failure::Run(anyhow::Error::new(error).context("no signal handlers")))?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            output::note(note);
            stop.begin();
        }
        // A closed terminal sends SIGHUP twice, so a second one must not end the process.
        if let Some(signal) = signals.find(|&signal| signal != SIGHUP) {
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Stops the server after the first Ctrl-C, with a note; the second one ends the process.
///
/// Signals can be waited for on Unix only, so a thread looks for the flag that a handler sets.
#[cfg(not(unix))]
pub(crate) fn stop_on_signals(stop: &Stop, note: &'static str) -> Result<(), Failure> {
    let interrupt = interrupt::Interrupt::watch();
    let stop = stop.clone();
    std::thread::spawn(move || {
        while !interrupt.is_pressed() {
            std::thread::sleep(Duration::from_millis(100));
        }
        output::note(note);
        stop.begin();
    });
    Ok(())
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Open { .. } => Self::Input(format!(
                "{error}: give --api-key-file FILE or {KEY_VARIABLE}, or say --allow-anyone"
            )),
            Error::Lost(error) => Self::from(error),
            Error::Runtime(_) => Self::Run(error.into()),
            error => Self::Input(error.to_string()),
        }
    }
}
