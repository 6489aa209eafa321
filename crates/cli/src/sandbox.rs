//! `beamgen sandbox`: a program that nobody trusts, without network and without rights.

use std::process::ExitCode;

use beamgen::launcher::run_sandboxed;

use crate::args::SandboxArgs;
use crate::output;

pub(crate) fn main(args: &SandboxArgs) -> ExitCode {
    let Some((program, arguments)) = args.program.split_first() else {
        return ExitCode::from(2);
    };
    match run_sandboxed(&args.sandbox(), args.show_layers, program, arguments) {
        Ok((code, line)) => {
            if let Some(line) = line {
                output::note(format_args!("beamgen: {line}"));
            }
            ExitCode::from(code)
        }
        Err(error) => {
            output::note(format_args!("beamgen: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
