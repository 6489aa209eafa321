//! Tools for the tests of several crates. A test that cannot run on this machine calls [`skip`],
//! which prints and counts the skip. If the test must not be skipped here, `skip` fails it.
//!
//! Environment variables: `BEAMGEN_TEST_STRICT=1`, which `.ci/run` sets, makes a missing tool a
//! failure. `BEAMGEN_TEST_SKIPS` names a file, to which each skip adds a line
//! `class<TAB>test<TAB>reason`.

#![forbid(unsafe_code)]

pub mod numbers;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The kinds of things that a test may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A program or a package that anybody can install; with `BEAMGEN_TEST_STRICT=1` it must exist.
    Tool,
    /// A file of the folder `shared`; where the folder exists, the file must exist too.
    Shared,
    /// A GPU. For tests of machines without a GPU, the absence of one.
    Gpu,
    /// The weights of a model that is too large to be fetched for a test.
    Model,
    /// A right that only an administrator has.
    Right,
}

impl Missing {
    /// Returns the name under which `.ci/run` counts skips of this class.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Shared => "shared",
            Self::Gpu => "gpu",
            Self::Model => "model",
            Self::Right => "right",
        }
    }

    /// Returns the reason why a skip of this class must fail; `None` if the skip is allowed.
    fn refusal(self, strict: bool, shared_exists: bool) -> Option<&'static str> {
        match self {
            Self::Tool if strict => Some("BEAMGEN_TEST_STRICT asks for every tool"),
            Self::Shared if shared_exists => Some("the folder `shared` exists, so its files must"),
            _ => None,
        }
    }
}

/// Records that the calling test does not run, or runs only in part. Returns normally, so the
/// caller has to return.
///
/// # Panics
///
/// Panics if this machine must be able to run tests of the class.
#[track_caller]
pub fn skip(missing: Missing, reason: impl Display) {
    let (class, test) = (missing.name(), calling_test(Location::caller()));
    let strict = std::env::var_os("BEAMGEN_TEST_STRICT").is_some_and(|value| value == "1");
    if let Some(why) = missing.refusal(strict, shared_folder().is_some()) {
        panic!("{test} cannot be skipped for {reason}: {why}");
    }
    // not eprintln, which the test harness hides when a test passes
    let _ = writeln!(std::io::stderr(), "skipped ({class}): {test}: {reason}");
    if let Some(file) = std::env::var_os("BEAMGEN_TEST_SKIPS") {
        record(Path::new(&file), &format!("{class}\t{test}\t{reason}\n"));
    }
}

/// Appends a line with a single write, so that lines of parallel tests do not mix.
fn record(file: &Path, line: &str) {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("BEAMGEN_TEST_SKIPS: {}: {error}", file.display()));
}

/// Returns the package and the name of the calling test, or the place of the call if the name is
/// unknown.
fn calling_test(caller: &Location<'_>) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    match std::thread::current().name() {
        // The test harness names each thread after its test, but a run with one thread uses `main`.
        None | Some("main") => format!("{package} {}:{}", caller.file(), caller.line()),
        Some(name) => format!("{package} {name}"),
    }
}

/// Returns the folder `shared`, which is next to the repository, or one level higher for a git
/// worktree.
fn shared_folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["../shared", "../../shared"].map(|folder| root.join(folder));
    folders.into_iter().find(|folder| folder.is_dir())
}

/// Returns the path of a file in the folder `shared`, which is outside of the repository; `None`
/// after a skip.
///
/// # Panics
///
/// Panics if the folder exists but lacks the file.
#[must_use]
#[track_caller]
pub fn shared(file: &str) -> Option<PathBuf> {
    let path = shared_folder().map(|folder| folder.join(file));
    let found = path.filter(|path| path.is_file());
    if found.is_none() {
        skip(Missing::Shared, format_args!("no shared/{file}"));
    }
    found
}

/// Returns the value of an environment variable that names a tool. `None` after a skip.
///
/// # Panics
///
/// If tools must exist and the variable is not set.
#[must_use]
#[track_caller]
pub fn named_by(variable: &str, what: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable);
    if value.is_none() {
        skip(Missing::Tool, format_args!("{variable} names no {what}"));
    }
    value.map(PathBuf::from)
}

/// Returns the path of a Python that can run `code`; `None` after a skip. Tries the Python that
/// `$BEAMGEN_PYTHON` names, or else `python3`.
///
/// # Panics
///
/// Panics if tools must exist on this machine and Python cannot run `code`.
#[must_use]
#[track_caller]
pub fn python(code: &str) -> Option<String> {
    let program = std::env::var("BEAMGEN_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    // The interpreter prints its own path, so that callers use exactly this one.
    let script = format!("{code}\nimport sys\nprint(sys.executable)");
    match Command::new(&program).args(["-c", &script]).output() {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        _ => {
            let reason = format_args!("{program} cannot run {code:?} (set BEAMGEN_PYTHON)");
            skip(Missing::Tool, reason);
            None
        }
    }
}

/// Returns the path of the file `name` below the folder in `BEAMGEN_TEST_WEIGHTS`; `None` after a
/// skip.
///
/// # Panics
///
/// Panics if tools must exist on this machine and the file is missing.
#[must_use]
#[track_caller]
pub fn weights(name: &str) -> Option<PathBuf> {
    let folder = named_by("BEAMGEN_TEST_WEIGHTS", &format!("folder with {name}"))?;
    let found = below(&folder, name);
    if found.is_none() {
        let reason = format_args!("no {name} below {}", folder.display());
        skip(Missing::Tool, reason);
    }
    found
}

/// Returns the path of the program `beamgen-launcher` in the calling test's profile. Builds the
/// program if it is older than its sources.
///
/// # Panics
///
/// Panics if the program cannot be built.
#[must_use]
pub fn launcher() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build_launcher).clone()
}

fn build_launcher() -> PathBuf {
    // TARGET/release/deps/TEST
    let test = std::env::current_exe().expect("this program");
    let folder = test.ancestors().nth(2).expect("a folder of builds");
    let profile = folder.file_name().and_then(|name| name.to_str());
    let profile = profile.filter(|name| *name != "debug").unwrap_or("dev");
    let target = folder.parent().expect("a folder of targets");
    let name = format!("beamgen-launcher{}", std::env::consts::EXE_SUFFIX);
    let launcher = folder.join(name);
    if is_current(&launcher) {
        return launcher;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        // A test must not download crates.
        .args(["build", "--offline", "-q", "-p", "beamgen-launcher"])
        .args(["--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "no launcher");
    launcher
}

/// Whether the launcher is newer than its sources, as after a build of the whole workspace.
fn is_current(launcher: &Path) -> bool {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../launcher/src");
    let mut newest = None;
    let mut folders = vec![sources];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            newest = newest.max(modified(&path));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    modified(launcher) > newest
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
}

fn below(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // The entries of a folder have no fixed order; sorting makes every run find the same file.
    paths.sort();
    paths.into_iter().find_map(|path| {
        if path.is_dir() {
            below(&path, name)
        } else {
            path.file_name()
                .is_some_and(|file| file == name)
                .then_some(path)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tools_and_files_of_an_existing_folder_are_refused() {
        fn refused(missing: Missing, strict: bool, shared_exists: bool) -> bool {
            missing.refusal(strict, shared_exists).is_some()
        }
        for shared_exists in [false, true] {
            assert!(refused(Missing::Tool, true, shared_exists));
            assert!(!refused(Missing::Tool, false, shared_exists));
            for strict in [false, true] {
                assert!(!refused(Missing::Gpu, strict, shared_exists));
                assert!(!refused(Missing::Model, strict, shared_exists));
                assert_eq!(
                    refused(Missing::Shared, strict, shared_exists),
                    shared_exists
                );
            }
        }
    }

    #[test]
    fn weights_are_found_in_any_folder_below() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a/b");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("model.gguf"), "").unwrap();
        assert_eq!(
            below(folder.path(), "model.gguf"),
            Some(inside.join("model.gguf"))
        );
        assert_eq!(below(folder.path(), "other.gguf"), None);
    }

    #[test]
    fn lines_of_parallel_tests_stay_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skips");
        let line = "tool\ta package and a test\ta reason\n";
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..100).for_each(|_| record(&file, line)));
            }
        });
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(written == line.repeat(800));
    }
}
