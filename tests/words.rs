//! Bounds for habits of prose and code in `crates/*/src`. When a habit becomes rarer, its bound has
//! to be lowered.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::run::root;

/// Each habit has a unit, a bound, and a function that counts its places in a file.
const HABITS: [Habit; 10] = [
    Habit {
        name: "doc comments that begin with What, Of or a pronoun: begin with the thing or a verb",
        unit: Unit::PerCent(docs),
        bound: Bound::AtMost(0.05),
        count: |source| matching(source, begins_without_a_subject),
    },
    Habit {
        name: "doc comments with so many, so long or so much: name the number",
        unit: Unit::PerCent(docs),
        bound: Bound::AtMost(0.02),
        count: |source| {
            matching(source, |doc| {
                ["so many", "so long", "so much"]
                    .iter()
                    .any(|words| doc.contains(words))
            })
        },
    },
    Habit {
        name: "match arms on a boolean: write if and else",
        unit: Unit::Places,
        bound: Bound::AtMost(2.0),
        count: |source| {
            let arms = source.text.lines().filter(|line| {
                let is_indented = line.starts_with([' ', '\t']);
                let line = line.trim_start();
                is_indented && (line.starts_with("true =>") || line.starts_with("false =>"))
            });
            arms.count()
        },
    },
    Habit {
        name: "closures bound by let: call them twice or more, else write them in their place",
        unit: Unit::PerCent(lets),
        bound: Bound::AtMost(3.8),
        count: |source| let_lines(source).filter(|rest| is_closure(rest)).count(),
    },
    Habit {
        name: "comments inside functions, of lines of code: say why",
        unit: Unit::PerCent(|source| source.code),
        bound: Bound::AtLeast(2.7),
        count: |source| source.inline,
    },
    Habit {
        name: "doc comments with drawn: write sampled, of random numbers",
        unit: Unit::Places,
        bound: Bound::AtMost(14.0),
        count: |source| matching(source, |doc| has_words(doc, "drawn")),
    },
    Habit {
        name: "doc comments with company: write batch, or other chains in flight",
        unit: Unit::Places,
        bound: Bound::AtMost(1.0),
        count: |source| matching(source, |doc| has_words(doc, "company")),
    },
    Habit {
        name: "doc comments with anew: write again",
        unit: Unit::Places,
        bound: Bound::AtMost(0.0),
        count: |source| matching(source, |doc| has_words(doc, "anew")),
    },
    Habit {
        name: "doc comments with go on: write continue or resume",
        unit: Unit::Places,
        bound: Bound::AtMost(1.0),
        count: |source| {
            matching(source, |doc| {
                has_words(doc, "go on") || has_words(doc, "goes on")
            })
        },
    },
    Habit {
        name: "doc comments with is no: write is not a",
        unit: Unit::Places,
        bound: Bound::AtMost(20.0),
        count: |source| matching(source, |doc| has_words(doc, "is no")),
    },
];

struct Habit {
    name: &'static str,
    unit: Unit,
    bound: Bound,
    count: fn(&Source) -> usize,
}

/// The unit of a count.
enum Unit {
    Places,
    /// Percent of a second count, e.g. of all doc comments.
    PerCent(fn(&Source) -> usize),
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

struct Source {
    path: PathBuf,
    text: String,
    /// Doc comments; the lines of each are joined by spaces.
    docs: Vec<String>,
    /// The number of lines with code.
    code: usize,
    /// The number of lines with a comment that is not a doc comment.
    inline: usize,
}

impl Source {
    fn read(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let (mut docs, mut doc) = (Vec::new(), Vec::new());
        let (mut code, mut inline) = (0, 0);
        for line in text.lines().map(str::trim).chain([""]) {
            let rest = line.strip_prefix("///").or(line.strip_prefix("//!"));
            if let Some(rest) = rest {
                doc.push(rest.trim());
                continue;
            }
            if !doc.is_empty() {
                docs.push(doc.join(" "));
                doc.clear();
            }
            if line.starts_with("//") {
                inline += 1;
            } else if !line.is_empty() {
                code += 1;
            }
        }
        Self {
            path,
            text,
            docs,
            code,
            inline,
        }
    }
}

fn docs(source: &Source) -> usize {
    source.docs.len()
}

fn lets(source: &Source) -> usize {
    let_lines(source).count()
}

/// Returns what follows `let` on each line that begins with `let`.
fn let_lines(source: &Source) -> impl Iterator<Item = &str> {
    let lines = source.text.lines();
    let indented = lines.filter(|line| line.starts_with([' ', '\t']));
    indented.filter_map(|line| line.trim_start().strip_prefix("let "))
}

/// Whether a `let` binds a closure; `rest` is the line after `let`.
fn is_closure(rest: &str) -> bool {
    let rest = rest.strip_prefix("mut ").unwrap_or(rest);
    let Some((name, value)) = rest.split_once(" = ") else {
        return false;
    };
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name
        && value
            .strip_prefix("move ")
            .unwrap_or(value)
            .starts_with('|')
}

fn matching(source: &Source, is_wanted: impl Fn(&str) -> bool) -> usize {
    source.docs.iter().filter(|doc| is_wanted(doc)).count()
}

fn begins_without_a_subject(doc: &str) -> bool {
    let starts = [
        "What ",
        "Of ",
        "That of ",
        "Those ",
        "Its ",
        "It ",
        "They ",
        "Their ",
        "The same ",
        "Such ",
        "As ",
        "Likewise ",
    ];
    starts.iter().any(|start| doc.starts_with(start))
}

/// Whether a text contains these words, not as a part of longer words.
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Reads all sources in `crates/*/src`.
fn sources() -> Vec<Source> {
    let crates = std::fs::read_dir(root().join("crates")).expect("a folder");
    let mut folders: Vec<PathBuf> = crates
        .map(|entry| entry.expect("an entry").path().join("src"))
        .filter(|folder| folder.is_dir())
        .collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources.push(Source::read(path));
            }
        }
    }
    sources
}

#[test]
fn bad_habits_become_rarer() {
    let sources = sources();
    assert!(sources.len() > 100, "{} sources", sources.len());
    let mut faults = String::new();
    for habit in &HABITS {
        let places: usize = sources.iter().map(habit.count).sum();
        // Bounds have a margin. Without a margin nearly every commit would have to change a bound.
        let (value, margin) = match habit.unit {
            Unit::Places => (places as f64, 1.0),
            Unit::PerCent(all) => {
                let all: usize = sources.iter().map(all).sum();
                (100.0 * places as f64 / all as f64, 0.05)
            }
        };
        let advice = match habit.bound {
            Bound::AtMost(bound) if value > bound => format!("the bound is {bound}"),
            Bound::AtMost(bound) if value < 0.75 * bound - margin => {
                format!("lower the bound {bound}")
            }
            Bound::AtLeast(bound) if value < bound => format!("the bound is {bound}"),
            Bound::AtLeast(bound) if value > 1.5 * bound => format!("raise the bound {bound}"),
            _ => continue,
        };
        let _ = writeln!(faults, "{}: {value:.2}, {advice}", habit.name);
        let mut files: Vec<(usize, &Path)> = sources
            .iter()
            .map(|source| ((habit.count)(source), source.path.as_path()))
            .collect();
        files.sort_by(|a, b| b.cmp(a));
        for (count, path) in files.iter().take(5).filter(|(count, _)| *count > 0) {
            let path = path.strip_prefix(root()).unwrap_or(path);
            let _ = writeln!(faults, "    {count} in {}", path.display());
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn habits_are_found_where_they_are() {
    assert!(begins_without_a_subject("What it costs."));
    assert!(!begins_without_a_subject("Whether it costs."));
    assert!(has_words("A token is drawn.", "drawn") && !has_words("withdrawn", "drawn"));
    for line in ["of = |x| x;", "mut at = move || 0;"] {
        assert!(is_closure(line), "{line}");
    }
    for line in ["all = a | b;", "x = 3;", "(a, b) = |x| x;"] {
        assert!(!is_closure(line), "{line}");
    }
}
