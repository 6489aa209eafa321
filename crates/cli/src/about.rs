//! The program's version, commit and command line, which head each report.

use std::ffi::OsString;

use beamgen_measure::About;

/// Returns the head of a report that begins now. The commit has 12 digits, and ends in `-dirty` if
/// the sources had other changes. It is `unknown` if the program was built outside of a repository.
pub(crate) fn this() -> About {
    About::now(env!("CARGO_PKG_VERSION"), env!("BEAMGEN_COMMIT"), command())
}

/// Returns the command line, quoted for a shell. `--resume` is left out, so that a resumed run
/// gives the same report as an uninterrupted one.
fn command() -> String {
    let args = std::env::args_os().skip(1).filter(|arg| arg != "--resume");
    std::iter::once("beamgen".to_owned())
        .chain(args.map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(arg: OsString) -> String {
    // A wrong character in the report is better than no report, so bytes that are not UTF-8 are
    // replaced.
    let arg = arg.to_string_lossy().into_owned();
    let is_plain = arg
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c));
    if is_plain && !arg.is_empty() {
        arg
    } else {
        format!("'{}'", arg.replace('\'', "'\\''"))
    }
}
