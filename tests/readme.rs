//! Checks that the commands and flags in README.md and in the book exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::run::{Place, root};

/// Returns the paths of README.md, of the Python package's README, and of the book's pages.
fn documents() -> Vec<PathBuf> {
    let mut documents = vec![root().join("README.md"), root().join("python/README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                documents.push(path);
            }
        }
    }
    documents
}

/// Returns the arguments of each call of beamgen in a document's shell blocks.
fn commands(document: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(document).expect("a document");
    let mut commands = Vec::new();
    let mut in_shell = false;
    for line in text.lines() {
        if let Some(language) = line.trim().strip_prefix("```") {
            in_shell = !in_shell && ["sh", "console", "bash", "shell"].contains(&language.trim());
            continue;
        }
        let line = line.trim().trim_start_matches("$ ");
        let called = line
            .strip_prefix("cargo run --release -- ")
            .or_else(|| line.strip_prefix("target/release/beamgen "))
            .or_else(|| line.strip_prefix("beamgen "));
        if let (true, Some(args)) = (in_shell, called) {
            let args = unquoted(args.split(" #").next().unwrap_or(args));
            let args = args.split(['|', '>', '<']).next().unwrap_or(&args);
            commands.push(args.split_whitespace().map(str::to_owned).collect());
        }
    }
    commands
}

/// Removes quoted text from a command, since it may look like flags.
fn unquoted(command: &str) -> String {
    let outside_single = command.split('\'').step_by(2).collect::<Vec<_>>().join("x");
    outside_single
        .split('"')
        .step_by(2)
        .collect::<Vec<_>>()
        .join("x")
}

#[test]
fn every_command_and_flag_exists() {
    let place = Place::new();
    let commands: Vec<Vec<String>> = documents().iter().flat_map(|path| commands(path)).collect();
    assert!(commands.len() >= 80, "{} commands", commands.len());
    let names: BTreeSet<&str> = commands
        .iter()
        .filter_map(|args| args.first())
        .map(String::as_str)
        .collect();
    assert!(
        names.contains("solve") && names.contains("bench"),
        "{names:?}"
    );
    for args in &commands {
        if args[0].starts_with('-') {
            place
                .run(&args.iter().map(String::as_str).collect::<Vec<_>>())
                .ok();
            continue;
        }
        let of_command = place.run(&[&args[0], "--help"]).ok().stdout;
        // A command with commands of its own has no flags: theirs count.
        let help = if of_command.contains("\nCommands:\n") {
            place.run(&[&args[0], &args[1], "--help"]).ok().stdout
        } else {
            of_command
        };
        for flag in args
            .iter()
            .skip(1)
            .filter(|arg| arg.starts_with('-') && arg.len() > 1)
        {
            let flag = flag.split('=').next().unwrap_or(flag);
            let named = help.split([' ', ',', '\n', '=']).any(|word| word == flag);
            assert!(
                named,
                "a document has `beamgen {}`, but no help names {flag}",
                args.join(" ")
            );
        }
    }
}

#[test]
fn help_is_there_for_everything() {
    let place = Place::new();
    let help = place.run(&["--help"]).ok().stdout;
    assert!(
        help.contains("Examples:") && help.contains("beamgen solve"),
        "{help}"
    );
    for command in ["solve", "bench"] {
        assert!(help.contains(command));
        assert!(
            place
                .run(&[command, "--help"])
                .ok()
                .stdout
                .contains("Examples:"),
            "{command}"
        );
    }
    assert!(
        place
            .run(&["--version"])
            .ok()
            .stdout
            .starts_with("beamgen 0.")
    );
}

/// Returns the text between `before` and `after`; white space becomes single spaces.
fn between(text: &str, before: &str, after: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, rest) = text.split_once(before).expect(before);
    rest.split_once(after).expect(after).0.trim().to_owned()
}

/// Whoever tries the first example sees a right solution that the reward model is sure of.
#[test]
fn every_step_of_the_first_example_scores_above_0_8() {
    let place = Place::new();
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let crate_docs = read("crates/beamgen/src/lib.rs").replace("//!", " ");
    let help = place.run(&["--help"]).ok().stdout;
    for (shown, problem) in [
        ("README.md", between(&read("README.md"), "solve( \"", "\"")),
        ("lib.rs", between(&crate_docs, "solve( \"", "\"")),
        ("--help", between(&help, "beamgen solve '", "'")),
    ] {
        assert!(problem.ends_with('?'), "{shown}: {problem}");
        let ran = place.run(&["solve", &problem, "--json"]);
        let steps = ran.ok().json()[0]["steps"].clone();
        let steps = steps.as_array().expect("steps");
        assert!(steps.len() >= 4, "{shown}: {steps:?}");
        for step in steps {
            let score = step["score"].as_f64().expect("a score");
            assert!(score > 0.8, "{shown}: {step}");
        }
    }
}
