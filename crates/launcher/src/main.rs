//! The program `beamgen-launcher`: a launcher for programs that use the library.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match beamgen_launcher::run_if_asked(&arguments, 1) {
        Some(Ok(code)) => ExitCode::from(code),
        Some(Err(error)) => {
            eprintln!("beamgen-launcher: {error}");
            ExitCode::from(error.exit_code())
        }
        None => {
            eprintln!(
                "beamgen-launcher: it is started by programs that use the library beamgen of the same version, not by hand"
            );
            ExitCode::from(2)
        }
    }
}
