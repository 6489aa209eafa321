//! The commit that a program says it was built from.

use std::path::Path;
use std::process::Command;

use crate::run::{Place, root};

#[path = "../crates/cli/build.rs"]
#[allow(dead_code)]
mod build;

fn git(folder: &Path, arguments: &[&str]) -> String {
    let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
    let output = Command::new("git")
        .current_dir(folder)
        .args(who)
        .args(arguments)
        .output()
        .expect("git starts");
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout)
        .expect("UTF-8")
        .trim()
        .to_owned()
}

#[test]
fn the_version_names_the_commit_of_the_build() {
    let said = Place::new().run(&["--version"]).ok().stdout;
    let before = format!("beamgen {} (commit ", env!("CARGO_PKG_VERSION"));
    let commit = said.trim().strip_prefix(&before);
    let commit = commit.and_then(|rest| rest.strip_suffix(')'));
    let commit = commit.unwrap_or_else(|| panic!("{said}"));
    // The tests may themselves be run from a packaged source.
    if root().join(".git").exists() {
        let head = git(root(), &["rev-parse", "--short=12", "HEAD"]);
        assert_eq!(commit.trim_end_matches("-dirty"), head);
    }
}

#[test]
fn a_build_knows_its_own_repository_and_no_other() {
    let place = Place::new();
    let source = place.path("");
    assert_eq!(build::commit(&source), "unknown", "a packaged source");

    git(&source, &["init", "-q"]);
    assert_eq!(build::commit(&source), "unknown", "nothing committed yet");
    place.write("file", "one");
    git(&source, &["add", "file"]);
    git(&source, &["commit", "-q", "-m", "first"]);
    let hash = git(&source, &["rev-parse", "HEAD"])[..12].to_owned();
    assert_eq!(build::commit(&source), hash);
    place.write("not-tracked", "one");
    assert_eq!(build::commit(&source), hash);
    place.write("file", "two");
    assert_eq!(build::commit(&source), format!("{hash}-dirty"));

    let inside = place.write("vendored/file", "one");
    let inside = inside.parent().expect("a folder");
    assert_eq!(
        build::commit(inside),
        "unknown",
        "unpacked in another repository"
    );
}
