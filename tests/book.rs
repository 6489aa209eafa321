//! Checks of the book under `docs/`: every page is in the table of contents, links are valid, and
//! code comes from examples that run.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use beamgen::strategy::StrategyName;
use beamgen_test_support::{Missing, skip};

use crate::run::root;

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the pages of the book as paths relative to `docs/`.
fn pages() -> BTreeSet<String> {
    let docs = root().join("docs");
    let mut folders = vec![docs.clone()];
    let mut pages = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                let path = path.strip_prefix(&docs).expect("below docs");
                pages.insert(path.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    assert!(pages.remove("SUMMARY.md"));
    pages
}

fn page(path: &str) -> String {
    read(Path::new("docs").join(path))
}

/// Returns the fenced blocks of a page, each as language and contents.
fn fences(text: &str) -> Vec<(&str, &str)> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.filter_map(|block| block.split_once('\n')).collect()
}

/// Returns a page without its fenced blocks, in which brackets are no links.
fn prose(text: &str) -> String {
    text.split("\n```")
        .step_by(2)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the targets of links, without web addresses.
fn links(text: &str) -> Vec<String> {
    let targets = prose(text);
    let targets = targets.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.contains("://"))
        .collect()
}

/// Returns the anchors that mdBook makes of a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let text = prose(text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let names = headings.map(|line| line.trim_start_matches('#').trim());
    let slug = |name: &str| -> String {
        let kept = name.chars().filter_map(|c| match c {
            c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
            c if c.is_whitespace() => Some('-'),
            _ => None,
        });
        kept.collect()
    };
    names.map(slug).collect()
}

/// Removes `.` and `..` from a path; `None` if the path leads out of its first folder.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => found.push(name),
            Component::ParentDir if found.pop() => {}
            Component::ParentDir => return None,
            _ => {}
        }
    }
    Some(found)
}

#[test]
fn the_table_of_contents_has_every_page() {
    let listed: Vec<String> = links(&page("SUMMARY.md"));
    let set: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), set.len(), "a page is listed twice");
    assert_eq!(set, pages());
}

/// The built book contains only `docs/`, so pages name files elsewhere as code and do not link
/// them.
#[test]
fn links_lead_to_pages_and_headings_of_the_book() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for from in pages() {
        let text = page(&from);
        let folder = Path::new(&from).parent().expect("a parent");
        for link in links(&text) {
            count += 1;
            let (target, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if target.is_empty() {
                Some(PathBuf::from(&from))
            } else {
                resolved(&folder.join(target))
            };
            let file = target.map(|target| root().join("docs").join(target));
            let Some(file) = file.filter(|file| file.is_file()) else {
                wrong.push(format!("docs/{from}: {link} is not a file of the book"));
                continue;
            };
            let is_page = file.extension().is_some_and(|end| end == "md");
            if !anchor.is_empty() && is_page && !anchors(&read(&file)).contains(anchor) {
                wrong.push(format!("docs/{from}: {link} is not a heading"));
            }
        }
    }
    assert!(count > 60, "{count} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns mdBook's includes: the path, and the name of a part or an empty text.
fn includes(text: &str) -> Vec<(&str, &str)> {
    let found = text.split("{{#").skip(1);
    let found = found.filter_map(|rest| rest.split_once("include "));
    found
        .filter_map(|(_, rest)| rest.split_once("}}"))
        .map(|(target, _)| target.split_once(':').unwrap_or((target, "")))
        .collect()
}

#[test]
fn what_pages_include_exists() {
    let mut count = 0;
    for from in pages() {
        let text = page(&from);
        let folder = root().join("docs").join(&from);
        let folder = folder.parent().expect("a parent");
        for (target, part) in includes(&text) {
            count += 1;
            let file = folder.join(target);
            let included = std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("docs/{from} includes {target}: {error}"));
            let mark = format!("ANCHOR: {part}");
            assert!(
                part.is_empty() || included.lines().any(|line| line.contains(&mark)),
                "docs/{from} includes {part} of {target}, which has no such part"
            );
        }
    }
    assert!(count > 8, "{count} includes");
}

/// Code in a page is not compiled and would become outdated, so pages include it from examples.
#[test]
fn code_in_the_book_is_that_of_examples_that_run() {
    let run = [
        "crates/beamgen/examples",
        "python/examples",
        "tests/sdk",
        "examples/checkers",
        "examples/scaling",
        "examples/verifiers",
    ];
    let mut count = 0;
    for from in pages() {
        let text = page(&from);
        let folder = Path::new("docs").join(&from);
        let folder = folder.parent().expect("a parent");
        for (language, code) in fences(&text) {
            if !language.starts_with("rust") && !language.starts_with("python") {
                continue;
            }
            count += 1;
            let files = includes(code);
            assert_eq!(
                files.len(),
                1,
                "docs/{from}: include this from an example:\n{code}"
            );
            assert_eq!(code.trim().lines().count(), 1, "docs/{from}:\n{code}");
            let file = resolved(&folder.join(files[0].0)).expect("a file of the project");
            let is_run = run.iter().any(|folder| file.starts_with(folder));
            assert!(is_run, "docs/{from}: no test runs {}", file.display());
        }
    }
    assert!(count > 5, "{count} blocks of code");
}

/// The code in README.md equals the examples line by line, since GitHub has no includes.
#[test]
fn code_in_the_readme_is_that_of_examples_that_run() {
    let readme = read("README.md");
    for (language, example) in [
        ("rust", "crates/beamgen/examples/shortest.rs"),
        ("python", "python/examples/shortest.py"),
    ] {
        let fences = fences(&readme);
        let code = fences.iter().find(|(name, _)| *name == language);
        let (_, code) = code.expect(language);
        let found = read(example);
        let lines: BTreeSet<&str> = found.lines().map(str::trim).collect();
        for line in code.lines().map(str::trim) {
            assert!(
                lines.contains(line),
                "{example} lacks the README's line: {line}"
            );
        }
    }
}

#[test]
fn the_readme_has_every_strategy_with_advice() {
    let readme = read("README.md");
    for named in StrategyName::all() {
        let row = format!("| `{}` | {} | ", named.name(), named.summary());
        let line = readme.lines().find(|line| line.starts_with(&row));
        let line = line.unwrap_or_else(|| panic!("README.md wants a row that begins: {row}"));
        assert!(
            line.len() > row.len() + 10,
            "README.md wants advice: {line}"
        );
    }
}

#[test]
fn the_examples_of_the_library_run() {
    let folder = root().join("crates/beamgen/examples");
    let program = Path::new(env!("CARGO_BIN_EXE_beamgen"));
    let built = program.parent().expect("a folder").join("examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let example = built.join(path.file_stem().expect("a name"));
        if !example.is_file() {
            let name = example.display();
            return skip(
                Missing::Tool,
                format!("{name} (cargo build --release -p beamgen --examples)"),
            );
        }
        let output = Command::new(&example).stdin(Stdio::null()).output();
        let output = output.expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", example.display());
        assert!(!output.stdout.is_empty(), "{}", example.display());
        count += 1;
    }
    assert!(count >= 7, "{count} examples");
}

/// The index of results links every folder, and every folder has a summary.
#[test]
fn the_index_of_results_has_every_folder() {
    let index = read("benches/results/README.md");
    for entry in std::fs::read_dir(root().join("benches/results")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if !path.is_dir() {
            continue;
        }
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        let link = format!("]({name}/");
        assert!(
            index.contains(&link),
            "benches/results/README.md lacks {name}"
        );
    }
}
