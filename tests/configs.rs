//! Every file in configs/ loads, and the defaults written there are the defaults in the code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use beamgen::Config;

use crate::run::{Place, root};

fn files(folder: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(root().join("configs").join(folder)).expect("a folder of configs");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    paths.sort();
    paths
}

#[test]
fn every_search_config_loads_and_is_valid() {
    let paths = files("search");
    assert!(paths.len() >= 4, "{paths:?}");
    for path in paths {
        let config = Config::load(&path).unwrap_or_else(|e| panic!("{e}"));
        config
            .check()
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

#[test]
fn the_default_file_says_what_the_code_does() {
    let path = root().join("configs/search/default.toml");
    let loaded = toml::Table::try_from(Config::load(&path).expect("it loads")).expect("TOML");
    let all = toml::Table::try_from(Config::default()).expect("TOML");
    let differing: Vec<String> = leaves(&all).difference(&leaves(&loaded)).cloned().collect();
    assert!(
        differing.is_empty(),
        "default.toml says otherwise of {differing:?}"
    );
    // And it names every key, so that a reader finds them all there.
    let written: toml::Table = std::fs::read_to_string(path)
        .expect("a file")
        .parse()
        .expect("TOML");
    let names = |table| -> BTreeSet<String> {
        let leaves = leaves(table).into_iter();
        leaves
            .filter_map(|leaf| Some(leaf.split_once(" = ")?.0.to_owned()))
            .collect()
    };
    let differing: Vec<String> = names(&all)
        .symmetric_difference(&names(&written))
        .cloned()
        .collect();
    assert!(
        differing.is_empty(),
        "default.toml lacks {differing:?}, or nobody knows them"
    );
}

/// Keys without a default of their own are shown behind a `#`; they are keys too.
#[test]
fn what_the_default_file_shows_in_comments_can_be_set() {
    let path = root().join("configs/search/default.toml");
    let text = std::fs::read_to_string(path).expect("a file");
    let is_key = |line: &str| {
        let name = line.split_once(" = ").map(|(name, _)| name);
        name.is_some_and(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    let set = |line: &str| match line.strip_prefix("# ") {
        Some(key) if is_key(key) => key.to_owned(),
        _ => line.to_owned(),
    };
    let all: Vec<String> = text.lines().map(set).collect();
    let config: Config = toml::from_str(&all.join("\n")).expect("every key is known");
    let sampling = config.generator.sampling;
    assert_eq!(
        sampling,
        beamgen::program::sampling_settings(beamgen::program::SamplingParams::default())
    );
    assert!(config.generator.date.is_some() && config.models.prm.is_some());
}

/// Every key with its value, `search.n = 16`.
fn leaves(table: &toml::Table) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (key, value) in table {
        if let toml::Value::Table(inner) = value {
            found.extend(leaves(inner).iter().map(|leaf| format!("{key}.{leaf}")));
        } else {
            found.insert(format!("{key} = {value}"));
        }
    }
    found
}

#[test]
fn every_bench_config_plans() {
    let paths = files("bench");
    assert!(!paths.is_empty());
    for path in paths {
        let path = path.to_str().expect("a path in UTF-8");
        let ran = Place::new()
            .run(&["bench", "--plan", "--limit", "1", "--config", path])
            .ok();
        assert!(ran.stdout.contains("searches"), "{path}: {}", ran.stdout);
    }
}
