//! Checks that links and paths in the documents lead to existing files.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::root;

/// Every file of the project. A clean checkout has no others; in a working one, `git` says which
/// are meant.
fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let text = String::from_utf8(listed.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

fn documents(files: &[String]) -> Vec<PathBuf> {
    // A summary of results is not updated when files move; only the index of summaries is.
    let index = "benches/results/README.md";
    let is_current = |file: &str| file == index || !file.starts_with("benches/results/");
    let current = |file: &&String| file.ends_with(".md") && is_current(file);
    files.iter().filter(current).map(PathBuf::from).collect()
}

/// Targets of links that are not addresses.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

/// Code spans that name a file or folder of the project: source files, and whatever begins with one
/// of its folders.
fn paths<'a>(text: &'a str, folders: &[&str]) -> Vec<&'a str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans
        .filter(|span| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            let source = [".rs", ".cu", ".cuh"].iter().any(|end| span.ends_with(end));
            let inside = folders.iter().any(|folder| span.starts_with(folder));
            span.chars().all(plain) && !span.contains("NAME") && (source || inside)
        })
        .collect()
}

#[test]
fn every_path_in_the_documents_exists() {
    let files = files();
    let folders = [
        "crates/",
        "tests/",
        "docs/",
        "configs/",
        "benches/",
        "kernels/",
        "models/abacus",
        ".ci/",
        ".github/",
        "ci/",
        "python/",
        "examples/",
    ];
    let mut missing = Vec::new();
    let (mut linked, mut named) = (0, 0);
    for document in documents(&files) {
        let text = std::fs::read_to_string(root().join(&document)).expect("a document");
        let folder = document.parent().unwrap_or(Path::new(""));
        for link in links(&text) {
            linked += 1;
            if !root().join(folder).join(link).exists() {
                missing.push(format!("{}: link to {link}", document.display()));
            }
        }
        // Fenced blocks are commands, not names.
        let prose: Vec<&str> = text.split("```").step_by(2).collect();
        for path in prose.iter().flat_map(|part| paths(part, &folders)) {
            named += 1;
            let suffix = format!("/{}", path.trim_end_matches('/'));
            let known = |file: &String| file == path || file.ends_with(&suffix);
            if !root().join(path).exists() && !files.iter().any(known) {
                missing.push(format!("{}: `{path}`", document.display()));
            }
        }
    }
    assert!(linked > 20 && named > 40, "{linked} links, {named} paths");
    assert!(missing.is_empty(), "not there:\n{}", missing.join("\n"));
}
