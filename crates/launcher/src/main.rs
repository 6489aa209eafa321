//! The program `beamgen-launcher`: a launcher for programs that use the library, and a sandbox for
//! programs that nobody trusts.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use beamgen_launcher::{Launcher, sandbox_command};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let ran = match arguments.get(1) {
        Some(word) if word == "sandbox" => {
            let ran = sandbox_command(Launcher::this_program(), &arguments[2..]);
            Some(ran)
        }
        _ => beamgen_launcher::run_if_asked(&arguments, 1).map(|ran| ran.map(|code| (code, None))),
    };
    match ran {
        Some(Ok((code, line))) => {
            if let Some(line) = line {
                eprintln!("beamgen-launcher: {line}");
            }
            ExitCode::from(code)
        }
        Some(Err(error)) => {
            eprintln!("beamgen-launcher: {error}");
            ExitCode::from(error.exit_code())
        }
        None => {
            eprintln!(
                "beamgen-launcher: it is started by programs that use the library beamgen of the same version, not by hand \
                 (but for `beamgen-launcher sandbox -- PROGRAM`)"
            );
            ExitCode::from(2)
        }
    }
}
