//! Puts the commit that the program is built from into `BEAMGEN_COMMIT`, for `--version` and for
//! the reports of `beamgen bench`.

use std::path::Path;
use std::process::Command;

/// What a build without a repository of its own says, such as one from a packaged source.
const UNKNOWN: &str = "unknown";

/// All that is built into the program: a change of it may make the commit a `-dirty` one.
const SOURCES: [&str; 7] = [
    "Cargo.toml",
    "Cargo.lock",
    "configs",
    "crates",
    "kernels",
    "models",
    "src",
];

#[cfg_attr(test, allow(dead_code))]
fn main() {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = &Path::new(&package).join("../..");
    println!("cargo::rustc-env=BEAMGEN_COMMIT={}", commit(root));
    for path in SOURCES.iter().map(|path| root.join(path)) {
        // Of a path that is not there Cargo thinks that it changes all the time.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    for path in references(root) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// The first 12 digits of the commit of the repository that has its root at `root`, with `-dirty`
/// if a tracked file is not as committed.
pub(crate) fn commit(root: &Path) -> String {
    if !is_root(root) {
        return UNKNOWN.to_owned();
    }
    let Some(hash) = git(root, &["rev-parse", "--short=12", "HEAD"]) else {
        return UNKNOWN.to_owned();
    };
    match git(root, &["status", "--porcelain", "--untracked-files=no"]).as_deref() {
        Some("") => hash,
        _ => hash + "-dirty",
    }
}

/// Whether a repository begins here: a source unpacked inside another project's repository has
/// nothing to do with that project's commits.
fn is_root(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    let same =
        |top: String| Some(Path::new(&top).canonicalize().ok()? == root.canonicalize().ok()?);
    top.and_then(same).unwrap_or(false)
}

/// The files that change when another commit is checked out or made.
fn references(root: &Path) -> Vec<String> {
    if !is_root(root) {
        return Vec::new();
    }
    let branch = git(root, &["symbolic-ref", "-q", "HEAD"]);
    let names = ["HEAD".to_owned(), "packed-refs".to_owned()];
    let files = names.into_iter().chain(branch).filter_map(|name| {
        let path = git(root, &["rev-parse", "--git-path", &name])?;
        let path = root.join(path);
        path.exists().then(|| path.display().to_string())
    });
    files.collect()
}

/// What git says, without the last line's end; `None` if it is not there or fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Set inside hooks: they would name another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    // `status` would write the refreshed index, and a build writes nothing into its source.
    let command = command
        .arg("--no-optional-locks")
        .arg("-C")
        .arg(root)
        .args(arguments);
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim_end().to_owned())
}
