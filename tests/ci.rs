//! Checks that a person, `.ci/run` and the workflow run the same steps, and that versions agree if
//! several files name them.

use std::collections::BTreeSet;

use crate::run::root;

/// Programs in `ci/` that only a release uses.
const RELEASE: [&str; 2] = ["notes", "release"];

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns what follows `prefix` on the lines that begin with it; indentation is ignored.
fn after<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim);
    lines.filter_map(|line| line.strip_prefix(prefix)).collect()
}

#[test]
fn the_workflow_runs_the_steps_of_ci_run_in_its_order() {
    let run = text(".ci/run");
    let steps: Vec<&str> = after(&run, "steps=\"")[0]
        .trim_end_matches('"')
        .split(' ')
        .collect();
    let workflow = text(".github/workflows/ci.yml");
    assert_eq!(after(&workflow, "- run: ci/"), steps);

    let entries = std::fs::read_dir(root().join("ci")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("UTF-8"));
    let files: BTreeSet<String> = names
        .filter(|name| !name.contains('.') && name != "toolchain")
        .collect();
    let started: BTreeSet<String> = steps
        .into_iter()
        .chain(RELEASE)
        .map(str::to_owned)
        .collect();
    assert_eq!(files, started);
    for step in &files {
        let usage = format!("\n# ci/{step}");
        assert!(text(&format!("ci/{step}")).contains(&usage), "{step}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let file = root().join("ci").join(step).metadata().expect("a file");
            assert_eq!(file.permissions().mode() & 0o111, 0o111, "{step}");
        }
    }
    let release = text(".github/workflows/release.yml");
    for step in RELEASE {
        assert!(release.contains(&format!("ci/{step} ")), "{step}");
    }
}

#[test]
fn the_toolchain_is_the_same_everywhere() {
    let toolchain = text("ci/toolchain");
    let image = format!("rust:{}-", toolchain.trim());
    assert!(text("Dockerfile").contains(&format!("FROM {image}")));
    assert!(text(".github/workflows/ci.yml").contains(&format!("container: {image}")));
}

#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let manifest = text("Cargo.toml");
    let dependencies = manifest.lines().filter(|line| {
        line.starts_with("beamgen") && line.contains("path = ") && line.contains("version")
    });
    let mut count = 0;
    for line in dependencies {
        let same = line.contains(&format!("version = \"{version}\""));
        assert!(same, "not {version}: {line}");
        count += 1;
    }
    assert!(count > 15, "{count}");
    assert_eq!(after(&text("CITATION.cff"), "version: "), [version]);
    assert!(text("CHANGELOG.md").contains(&format!("\n## [{version}]")));
}

#[test]
fn no_step_of_the_image_runs_the_program_as_root() {
    let file = text("Dockerfile");
    assert_eq!(after(&file, "USER "), ["beamgen"]);
    let user = file.find("USER ").expect("a user");
    assert!(user < file.find("ENTRYPOINT ").expect("a program"));
}
