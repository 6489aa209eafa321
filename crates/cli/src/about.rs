//! The program's version and command line, for the head of a report.

use std::ffi::OsString;

use beamgen_measure::About;

/// Returns the head of a report that begins now. Its commit has 12 digits, with `-dirty` if the source
/// differed from the commit, or is `unknown` if the program was built without a repository.
pub(crate) fn this() -> About {
    About::now(env!("CARGO_PKG_VERSION"), env!("BEAMGEN_COMMIT"), command())
}

/// Returns the command line, quoted for a shell. It lacks `--resume`, so that a resumed run has the
/// same report as one that was never interrupted.
fn command() -> String {
    let args = std::env::args_os().skip(1).filter(|arg| arg != "--resume");
    std::iter::once("beamgen".to_owned())
        .chain(args.map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(arg: OsString) -> String {
    // An argument that is not UTF-8 is shown inexactly: that is better than to lose the report.
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
