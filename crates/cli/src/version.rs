//! What program this is.

/// The commit of the build: 12 digits, with `-dirty` if the source differed from it, or `unknown`
/// if it was built without a repository.
pub const COMMIT: &str = env!("BEAMGEN_COMMIT");

/// The answer to `--version`.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("BEAMGEN_COMMIT"),
    ")"
);
