//! The command line, Python, HTTP and the file of defaults have the settings of the library's table.

use std::collections::BTreeSet;
use std::fmt::Write;

use beamgen::Config;
use beamgen::settings::{Kind, Part, SETTINGS, Scope, Setting, put, put_all};

use crate::run::{Place, root};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect(path)
}

fn names(are_wanted: impl Fn(&Setting) -> bool) -> BTreeSet<String> {
    let rows = SETTINGS.iter().filter(|row| are_wanted(row));
    rows.map(|row| row.name.to_owned()).collect()
}

fn assert_same(found: &BTreeSet<String>, wanted: &BTreeSet<String>, place: &str) {
    let lacks: Vec<_> = wanted.difference(found).collect();
    let more: Vec<_> = found.difference(wanted).collect();
    assert!(
        found == wanted,
        "{place} lacks {lacks:?} of the table's settings, and has {more:?} besides"
    );
}

#[test]
fn the_flags_of_a_search_are_the_rows_of_the_table() {
    let help = Place::new().run(&["solve", "--help"]).ok().stdout;
    let (_, help) = help.split_once("\nSearch:\n").expect("a heading");
    let (_, of_files) = help.split_once("\nInput and output:\n").expect("a heading");
    let of_settings = &help[..help.len() - of_files.len()];
    let flags = of_settings.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line
            .split_once(", ")
            .filter(|_| line.starts_with('-'))
            .map_or(line, |(_, long)| long);
        let name = line.strip_prefix("--")?;
        name.split(' ').next().map(|name| name.replace('-', "_"))
    });
    let mut flags: BTreeSet<String> = flags.collect();
    for other in ["config", "set"] {
        assert!(flags.remove(other), "{other}");
    }
    assert_same(&flags, &names(|_| true), "`beamgen solve --help`");
    for row in SETTINGS {
        let start: String = row
            .help()
            .split_whitespace()
            .take(4)
            .collect::<Vec<_>>()
            .join(" ");
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let start = start.replace('`', "");
        assert!(words.contains(&start), "--{}: {start}", row.name);
    }
}

#[test]
fn defaults_and_ranges_are_those_of_the_library() {
    let own = Config::default();
    for row in SETTINGS.iter().filter(|row| !row.default.is_empty()) {
        let value = row.read(row.default).expect(row.name);
        let config = put_all(&own, &[(row.name, value)]).expect(row.name);
        let is_default = config == own;
        assert!(is_default, "{} has no default {}", row.name, row.default);
    }
    for row in SETTINGS.iter().filter(|row| !row.range.is_empty()) {
        let (least, most) = row.range.split_once("..").expect(row.name);
        let below = least.parse::<f64>().expect(row.name) - 1.0;
        let above = most.parse().map(|most: f64| most + 1.0).unwrap_or(f64::NAN);
        for outside in [below, above] {
            let is_possible = outside >= 0.0 || (row.kind != Kind::Count && outside < 0.0);
            if is_possible {
                let value = row.read(&outside.to_string()).expect(row.name);
                let config = put(&own, row.name, value).expect(row.name);
                assert!(config.check().is_err(), "{} = {outside}", row.name);
            }
        }
    }
}

/// A flag without what it needs is refused with one line, by itself and in a bench of a file.
#[test]
fn flags_that_change_nothing_are_refused() {
    let place = Place::new();
    place.write("bench.toml", "[[run]]\nname = \"a\"\nscorer = \"exact\"\n");
    let needy: Vec<&Setting> = SETTINGS
        .iter()
        .filter(|row| !row.needs.is_empty())
        .collect();
    let named: Vec<&str> = needy.iter().map(|row| row.name).collect();
    let models = ["calibration", "score_as", "max_error", "prm", "prm_url"];
    let others = ["prm_format", "prm_tokenizer", "prm_reference"];
    let all = [
        &["outcome_scores", "stop_when_verified", "combine"],
        &models[..3],
        &["checker_timeout", "verifier_open", "verifier_timeout"],
        &models[3..],
        &others,
    ]
    .concat();
    assert_eq!(named, all);
    for row in needy {
        let own = Config::default();
        let bare = put_all(&own, &[("scorer", "exact".into())]).expect("a scorer");
        for (need, is_there) in row.needs {
            assert!(!is_there(&bare), "{}: {need}", row.name);
        }
        let value = match row.name {
            "combine" => "min",
            "checker_timeout" | "verifier_timeout" => "9",
            "score_as" => "median",
            "max_error" => "0.1",
            "prm_url" => "http://127.0.0.1:9",
            _ => "x",
        };
        let flag = format!("--{}", row.name.replace('_', "-"));
        let given = match row.kind {
            Kind::Switch => vec![flag.as_str()],
            _ => vec![flag.as_str(), value],
        };
        for command in [
            &["solve", "--scorer", "exact"][..],
            &["bench", "--scorers", "exact"],
            &["bench", "--config", "bench.toml"],
        ] {
            let args = [command, &given[..]].concat();
            // The runs of a file are checked first, and a search that may not use outcomes is refused.
            let is_search = row.key.starts_with("search.") && command.contains(&"--config");
            let reason = if is_search {
                "need an open one"
            } else {
                "changes nothing here"
            };
            let ran = place.run(&args);
            ran.assert_refused(&args.join(" "), &[&flag, reason]);
        }
    }
}

#[test]
fn the_file_of_defaults_has_every_key() {
    let text = read("configs/search/default.toml");
    for row in SETTINGS.iter().filter(|row| !row.key.is_empty()) {
        let (table, key) = row.key.rsplit_once('.').expect(row.key);
        // Keys of servers are shown within their table.
        let (table, key) = match table.strip_suffix("_server") {
            Some(_) => table.rsplit_once('.').expect(row.key),
            None => (table, key),
        };
        let section = text
            .split("\n[")
            .find(|section| section.starts_with(&format!("{table}]")));
        let section = section.unwrap_or_else(|| panic!("[{table}] for {}", row.name));
        let shown = section.lines().any(|line| {
            let name = line.trim_start_matches("# ").split(" = ").next();
            name == Some(key)
        });
        let is_likewise = section.contains(&format!("{key} likewise"));
        assert!(
            shown || is_likewise,
            "configs/search/default.toml lacks {key} in [{table}]"
        );
    }
}

#[test]
fn the_document_of_the_server_has_what_a_request_may_set() {
    let text = read("docs/reference/http.md");
    let (_, text) = text
        .split_once("### The `beamgen` object of a request")
        .expect("a heading");
    let (text, _) = text.split_once("\n## ").expect("a heading");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let listed: BTreeSet<String> = rows
        .filter_map(|row| row.split_once('|'))
        .flat_map(|(names, _)| names.split('`'))
        .filter(|name| !name.trim_matches([',', ' ']).is_empty())
        .map(str::to_owned)
        .collect();
    let mut wanted = names(|row| row.scope == Scope::Request);
    let others = [
        "id",
        "timeout",
        "search",
        "generator",
        "reference",
        "steps",
        "context",
        "verifier",
        "tests",
        "events",
        "tree",
    ];
    wanted.extend(others.map(str::to_owned));
    assert_same(&listed, &wanted, "the table of docs/reference/http.md");
}

/// `BEAMGEN_WRITE=1` writes the file.
#[test]
fn the_keywords_of_python_are_the_rows_of_the_table() {
    let path = "python/package/beamgen/_settings_table.py";
    let text = python();
    if std::env::var_os("BEAMGEN_WRITE").is_some() {
        std::fs::write(root().join(path), &text).expect("written");
    }
    let advice = "BEAMGEN_WRITE=1 cargo test --release --test integration settings_agree";
    let there = read(path);
    let differs = there.lines().zip(text.lines()).find(|(a, b)| a != b);
    assert!(
        there == text,
        "{path} is not what the table says, first at {differs:?}. If the change is meant, renew it: {advice}"
    );
}

fn python() -> String {
    let mut text = "\
\"\"\"The keywords that are settings. `tests/settings_agree.rs` writes this file from `crates/beamgen/src/settings.rs`.\"\"\"

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict

_Path = str | os.PathLike[str]


class _Width(TypedDict, total=False):
"
    .to_owned();
    keywords(&mut text, |row| row.part == Part::Width);
    text += "

class _Search(TypedDict, total=False):
";
    keywords(&mut text, |row| {
        row.scope == Scope::Request && row.part != Part::Width
    });
    text += "    settings: Mapping[str, Any] | None
    \"\"\"Any other key by its name in the TOML file: ``{\"search.mcts.exploration\": 2}``, or tables within tables.\"\"\"


class SearchSettings(_Width, _Search, total=False):
    \"\"\"Settings of a search, which each request may have of its own. ``None`` leaves a setting as it is.\"\"\"


class BenchSettings(_Search, total=False):
    \"\"\"Settings of all searches of a bench, which has strategies and numbers of chains of its own, and its models.\"\"\"

    config: _Path | None
    \"\"\"A TOML file of settings; other keywords win over it.\"\"\"
";
    // The scorer is an argument of its own, since it may be a function.
    keywords(&mut text, |row| {
        row.scope == Scope::Solver && row.name != "scorer"
    });
    text += "

class Settings(_Width, BenchSettings, total=False):
    \"\"\"Settings of a solver: those of its searches, and its models.\"\"\"
";
    text
}

/// The keywords that are wanted.
fn keywords(text: &mut String, are_wanted: impl Fn(&Setting) -> bool) {
    for row in SETTINGS.iter().filter(|row| are_wanted(row)) {
        let kind = match row.kind {
            Kind::Switch => "bool",
            Kind::Count => "int",
            Kind::Number => "float",
            Kind::Text => "str",
            Kind::Path => "_Path",
            Kind::Size => "str | int",
            Kind::List | Kind::Texts => "str | list[str]",
        };
        let help = row.help().replace('`', "``");
        let end = if help.ends_with('.') { "" } else { "." };
        let _ = writeln!(
            text,
            "    {}: {kind} | None\n    \"\"\"{help}{end}\"\"\"",
            row.name
        );
    }
}
