//! Help, completions and manual pages: complete, and readable in a terminal of 80 columns.

use std::collections::BTreeSet;

use crate::run::Place;

const COMMANDS: [&str; 15] = [
    "solve",
    "serve",
    "bench",
    "bench-engine",
    "show",
    "score",
    "eval-prm",
    "label",
    "labels",
    "annotate",
    "models",
    "train",
    "problems",
    "completions",
    "man",
];

/// The long flags that a command's `--help` has a paragraph for.
fn flags(place: &Place, command: &str) -> BTreeSet<String> {
    let help = place.run(&[command, "--help"]).ok().stdout;
    let named = |line: &str| {
        let line = line.trim_start();
        let after = line.split_once("--")?;
        let alone = after.0.is_empty() || (after.0.len() == 4 && after.0.ends_with(", "));
        let name = after.1.split([' ', '<', '=']).next()?;
        alone.then(|| format!("--{name}"))
    };
    let flags: BTreeSet<String> = help.lines().filter_map(named).collect();
    assert!(flags.contains("--help"), "{command}: {flags:?}");
    flags
}

#[test]
fn completions_hold_every_command_and_flag() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = place.run(&["completions", shell]).ok().stdout;
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
            for flag in flags(&place, command) {
                // fish names a long option with -l and without its dashes.
                let found = match shell {
                    "fish" => script.contains(&format!("-l {}", &flag[2..])),
                    _ => script.contains(&flag),
                };
                assert!(found, "{shell}: {command} {flag}");
            }
        }
    }
    let ran = place.run(&["completions", "tcsh"]);
    ran.assert_refused("another shell", &["'tcsh'", "bash"]);
}

#[test]
fn manual_pages_hold_every_command_and_flag() {
    let place = Place::new();
    let plain = |page: &str| {
        page.replace("\\-", "-")
            .replace("\\fB", "")
            .replace("\\fR", "")
    };
    let top = plain(&place.run(&["man"]).ok().stdout);
    assert!(top.contains(".TH beamgen 1"), "{top}");
    place.run(&["man", "--out", "pages"]).ok();
    for command in COMMANDS {
        assert!(
            top.contains(&format!("beamgen-{command}(1)")),
            "{command}: {top}"
        );
        let page = place.run(&["man", command]).ok().stdout;
        let page = plain(&page);
        assert!(page.contains(&format!(".TH beamgen-{command} 1")), "{page}");
        for flag in flags(&place, command) {
            assert!(page.contains(&flag), "{command} {flag}: {page}");
        }
        let written = place.read(&format!("pages/beamgen-{command}.1"));
        for flag in flags(&place, command) {
            assert!(
                plain(&written).contains(&flag),
                "{command} {flag}: {written}"
            );
        }
    }
    place
        .run(&["man", "sovle"])
        .assert_refused("a command misspelt", &["sovle", "solve"]);
}

#[test]
fn short_help_is_short_and_fits_80_columns() {
    let place = Place::new();
    for (command, most) in [
        ("solve", 34),
        ("serve", 40),
        ("bench", 40),
        ("score", 26),
        ("models", 26),
    ] {
        let ran = place.run_with(&[("COLUMNS", "80")], &[command, "-h"]).ok();
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert!(lines.len() <= most, "{command}: {} lines", lines.len());
        for line in &lines {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
        let long = place.run(&[command, "--help"]).ok().stdout;
        assert!(long.lines().count() > lines.len(), "{command}");
    }
}
