//! The program, its call and its machine, for the head of a report.

use std::ffi::OsString;

use beamgen_measure::About;

/// A report that this call begins now. The commit has 12 digits, with `-dirty` if the source differed
/// from it, or is `unknown` if the program was built without a repository.
pub(crate) fn this() -> About {
    About::now(env!("CARGO_PKG_VERSION"), env!("BEAMGEN_COMMIT"), command())
}

/// The call, without `--resume`.
fn command() -> String {
    let quoted = |arg: OsString| {
        // What is no text cannot be shown exactly, and is no reason to lose a report.
        let arg = arg.to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
        if !arg.is_empty() && arg.chars().all(plain) {
            arg
        } else {
            format!("'{}'", arg.replace('\'', "'\\''"))
        }
    };
    let args = std::env::args_os().skip(1).filter(|arg| arg != "--resume");
    std::iter::once("beamgen".to_owned())
        .chain(args.map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}
