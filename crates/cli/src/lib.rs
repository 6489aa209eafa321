//! The commands of the program `beamgen`.
//!
//! A command has two stages, as in ripgrep. First, `args` parses the command line without reading
//! any file. Then the command's own module builds its configuration, problems and models, and runs.
//! A fault found before the run is a `Failure::Input`: one line and exit code 2. A fault during the
//! run has exit code 1.

#![forbid(unsafe_code)]

mod about;
mod annotate;
mod args;
mod assign;
mod bench;
mod bench_engine;
mod calibrate;
mod check;
mod completions;
mod data;
mod download;
mod effective;
mod eval_prm;
mod failure;
mod forecast;
mod foreign;
mod interrupt;
#[cfg_attr(
    not(feature = "serve"),
    allow(dead_code, reason = "only a server writes JSON")
)]
mod json_log;
mod label;
mod labels;
mod lost;
mod man;
mod mend;
mod models;
mod monitor;
mod output;
mod palette;
mod paths;
mod peak_memory;
mod plan;
mod printed;
mod problems;
mod progress;
mod run_report;
mod sandbox;
mod score;
#[cfg(feature = "serve")]
mod serve;
mod servers;
mod settings;
mod show;
mod solve;
mod table;
#[cfg(feature = "train")]
mod train;
mod verdicts;
mod watch;
mod wrap;
mod write;

use std::ffi::OsString;
use std::process::ExitCode;

use args::Command;
use beamgen::launcher::run_if_asked;
use beamgen_measure::printable;
use failure::Failure;
use json_log::Level;

/// Runs the command that the command line names. A process that was started as a launcher does only
/// the launcher's work.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // A launcher's arguments are not this program's, so they must be recognised before parsing.
    match run_if_asked(&arguments, 1) {
        Some(Ok(code)) => return ExitCode::from(code),
        Some(Err(error)) => {
            output::note(format_args!("beamgen: {error}"));
            return ExitCode::from(error.exit_code());
        }
        None => {}
    }
    // The handler must exist before anything is written, so that a file size limit becomes an
    // error.
    interrupt::survive_file_limits();
    let result = args::parse().and_then(|(command, given)| {
        // Opening an output may already change a file, so paths are checked before the command
        // starts.
        paths::check(&given)?;
        if let Command::Sandbox(args) = command {
            return Ok(sandbox::main(&args));
        }
        run(command).map(|()| ExitCode::SUCCESS)
    });
    match result {
        Ok(code) => code,
        Err(Failure::ReaderLeft) => ExitCode::SUCCESS,
        Err(failure) => {
            let facts = json_log::message(&failure.to_string());
            let text = format_args!("beamgen: {failure}");
            output::event(Level::Error, "failed", facts, text);
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Solve(args) => solve::main(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::main(&args),
        #[cfg(not(feature = "serve"))]
        Command::Serve(_) => failure::refuse(
            "this build has no server: build one with cargo build --release --features serve",
        ),
        Command::Bench(args) => bench::main(&args),
        Command::BenchEngine(args) => bench_engine::main(&args),
        Command::Show(args) => show::main(&args),
        Command::Score(args) => score::main(&args),
        Command::Refine(args) => mend::refine(&args),
        Command::Guard(args) => mend::guard(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::EvalPrm(args) => eval_prm::main(&args),
        Command::Monitor(args) => monitor::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Label(args) => label::main(&args),
        Command::Annotate(args) => annotate::main(&args),
        Command::Models(args) => models::main(&args),
        #[cfg(feature = "train")]
        Command::Train(args) => train::main(&args),
        #[cfg(feature = "train")]
        Command::Adapt(args) => train::adapt(&args),
        #[cfg(not(feature = "train"))]
        Command::Train(_) | Command::Adapt(_) => failure::refuse(
            "this build has no training: build it in with cargo build --release --features train",
        ),
        Command::Labels(args) => labels::main(&args.command),
        // It has exit codes of its own, so `main` runs it.
        Command::Sandbox(_) => Ok(()),
        Command::Problems(args) => problems::main(&args),
        Command::Completions(args) => completions::main(&args),
        Command::Man(args) => man::main(&args),
    }
}
