//! Puts the commit that the program is built from into `BEAMGEN_COMMIT`, for `--version` and for
//! the reports of `beamgen bench`.

use std::path::Path;
use std::process::Command;

/// The commit of a build without a repository of its own, such as a build from a packaged source.
const UNKNOWN: &str = "unknown";

/// The paths that are built into the program: a change of any may make the commit `-dirty`.
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
        // Cargo takes a path that does not exist as changed, and would run this script every time.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    for path in references(root) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// Returns the first 12 digits of the commit of the repository whose root is `root`, with `-dirty`
/// if a tracked file differs from the commit.
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

/// Whether `root` is the root of a repository. A source that was unpacked inside another project's
/// repository must not report that project's commit.
fn is_root(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    let same =
        |top: String| Some(Path::new(&top).canonicalize().ok()? == root.canonicalize().ok()?);
    top.and_then(same).unwrap_or(false)
}

/// Returns the files that change when a commit is made or another is checked out.
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

/// Runs git and returns its output without the last line break; `None` if git is missing or fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Git sets these variables inside hooks, where they may name another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    // `git status` refreshes the index on disk; a build should not write to its source.
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
