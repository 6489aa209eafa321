//! Puts the commit that the program is built from into `BEAMGEN_COMMIT`, for `--version` and for
//! the reports of `beamgen bench`.

use std::path::Path;
use std::process::Command;

/// The commit of a build outside of a repository, such as from a source package.
const UNKNOWN: &str = "unknown";

/// The paths that become part of the program. After a change in one of them, the commit may be
/// `-dirty`.
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
        // Cargo treats a missing path as changed, and would run this script in every build.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    for path in references(root) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// Returns the first 12 digits of the current commit in the repository at `root`. `-dirty` is added
/// if a tracked file has changed since the commit.
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

/// Whether `root` is the root of a repository. If the source was unpacked inside another
/// repository, the commit of that repository would be wrong.
fn is_root(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    let same =
        |top: String| Some(Path::new(&top).canonicalize().ok()? == root.canonicalize().ok()?);
    top.and_then(same).unwrap_or(false)
}

/// Returns the files of the repository that change with a commit or a checkout.
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

/// Runs git. Returns the output without the last line break, or `None` if git is missing or fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Inside a git hook these variables are set, and may name another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    // `git status` would write a refreshed index, but a build must not write to its source.
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
