//! Who may know whom: the crate edges of ARCHITECTURE.md, held against `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::run::root;

/// Every crate of the workspace and the crates of it that it may depend on (outside of tests).
const EDGES: &[(&str, &[&str])] = &[
    ("beamgen-kernels", &[]),
    // the thread pool's sources under loom, in tests alone
    ("beamgen-pool-models", &[]),
    // how tests skip: others know it in their tests alone
    ("beamgen-test-support", &[]),
    ("beamgen-emulated-cuda", &["beamgen-test-support"]),
    ("beamgen-files", &[]),
    ("beamgen-records", &["beamgen-files"]),
    ("beamgen-certificates", &[]),
    ("beamgen-search", &[]),
    ("beamgen-engine", &["beamgen-files", "beamgen-kernels"]),
    ("beamgen-generator", &["beamgen-engine", "beamgen-search"]),
    (
        "beamgen-prm",
        &["beamgen-engine", "beamgen-files", "beamgen-search"],
    ),
    (
        "beamgen-remote",
        &[
            "beamgen-certificates",
            "beamgen-engine",
            "beamgen-generator",
            "beamgen-prm",
            "beamgen-search",
        ],
    ),
    (
        "beamgen-candle-backend",
        &["beamgen-engine", "beamgen-generator", "beamgen-search"],
    ),
    (
        "beamgen-eval",
        &["beamgen-files", "beamgen-records", "beamgen-search"],
    ),
    ("beamgen-view", &["beamgen-eval", "beamgen-search"]),
    (
        "beamgen-labels",
        &[
            "beamgen-eval",
            "beamgen-files",
            "beamgen-records",
            "beamgen-search",
        ],
    ),
    (
        "beamgen-checkers",
        &[
            "beamgen-certificates",
            "beamgen-eval",
            "beamgen-launcher",
            "beamgen-search",
            "beamgen-world",
        ],
    ),
    (
        "beamgen-measure",
        &["beamgen", "beamgen-files", "beamgen-labels", "beamgen-view"],
    ),
    ("beamgen-launcher", &[]),
    ("beamgen-hub", &["beamgen-certificates", "beamgen-files"]),
    ("beamgen-world", &[]),
    (
        "beamgen",
        &[
            "beamgen-candle-backend",
            "beamgen-checkers",
            "beamgen-engine",
            "beamgen-eval",
            "beamgen-files",
            "beamgen-generator",
            "beamgen-hub",
            "beamgen-launcher",
            "beamgen-prm",
            "beamgen-remote",
            "beamgen-search",
            "beamgen-world",
        ],
    ),
    (
        "beamgen-serve",
        &["beamgen", "beamgen-files", "beamgen-view"],
    ),
    ("beamgen-train", TRAIN),
    ("beamgen-cli", CLI),
    ("beamgen-program", &["beamgen-cli"]),
    (
        "beamgen-python",
        &["beamgen", "beamgen-labels", "beamgen-measure"],
    ),
];
const CLI: &[&str] = &[
    "beamgen",
    "beamgen-eval",
    "beamgen-files",
    "beamgen-hub",
    "beamgen-labels",
    "beamgen-measure",
    "beamgen-serve",
    "beamgen-train",
    "beamgen-view",
    "beamgen-world",
];
const TRAIN: &[&str] = &[
    "beamgen-checkers",
    "beamgen-engine",
    "beamgen-eval",
    "beamgen-files",
    "beamgen-generator",
    "beamgen-labels",
    "beamgen-prm",
    "beamgen-records",
    "beamgen-search",
    "beamgen-world",
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

#[test]
fn crates_know_only_whom_they_may() {
    let metadata = metadata();
    let allowed: BTreeMap<&str, BTreeSet<&str>> = EDGES
        .iter()
        .map(|(name, edges)| (*name, edges.iter().copied().collect()))
        .collect();
    let packages = metadata["packages"].as_array().expect("packages");
    let names: BTreeSet<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(
        names,
        allowed.keys().copied().collect(),
        "a crate was added: give it its edges here"
    );
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let on = dependency["name"].as_str().expect("a name");
            let in_tests_only = dependency["kind"] == "dev";
            if names.contains(on) && !in_tests_only {
                assert!(allowed[name].contains(on), "{name} must not depend on {on}");
            }
        }
    }
}
