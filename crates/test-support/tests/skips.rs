//! Tests what the harness and `.ci/run` see of a skip. The test runs its own program with other
//! environment variables.

use std::path::Path;
use std::process::{Command, Output};

use beamgen_test_support::{Missing, named_by, python, skip};

#[test]
#[ignore = "run by the other tests"]
fn lacks_a_program() {
    assert!(named_by("BEAMGEN_TEST_NOTHING", "program").is_none());
}

#[test]
#[ignore = "run by the other tests"]
fn lacks_a_package() {
    assert!(python("import no_such_package").is_none());
}

#[test]
#[ignore = "run by the other tests"]
fn lacks_a_gpu() {
    skip(Missing::Gpu, "no GPU");
}

/// Runs the tests above whose names contain `filter`.
fn run(filter: &str, strict: &str, file: &Path) -> Output {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", filter])
        .env("BEAMGEN_TEST_STRICT", strict)
        .env("BEAMGEN_TEST_SKIPS", file)
        .env_remove("BEAMGEN_TEST_NOTHING")
        .output()
        .expect("it starts")
}

#[test]
fn a_skip_passes_is_printed_and_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("skips");
    let output = run("lacks_", "0", &file);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stderr).expect("UTF-8");
    let mut printed: Vec<&str> = printed.lines().collect();
    printed.sort_unstable();
    let package = "beamgen-test-support";
    assert_eq!(printed.len(), 3, "{printed:?}");
    assert_eq!(
        printed[0],
        format!("skipped (gpu): {package} lacks_a_gpu: no GPU")
    );
    let recorded = std::fs::read_to_string(&file).expect("the file");
    let mut recorded: Vec<&str> = recorded.lines().collect();
    recorded.sort_unstable();
    assert_eq!(recorded.len(), 3, "{recorded:?}");
    assert_eq!(recorded[0], format!("gpu\t{package} lacks_a_gpu\tno GPU"));
    let program = format!("tool\t{package} lacks_a_program\tBEAMGEN_TEST_NOTHING names no program");
    assert_eq!(recorded[2], program);
}

#[test]
fn where_tools_must_exist_a_missing_one_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("skips");
    for filter in ["lacks_a_program", "lacks_a_package"] {
        let output = run(filter, "1", &file);
        assert!(!output.status.success(), "{filter}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("BEAMGEN_TEST_STRICT asks for"), "{said}");
    }
    assert!(!file.exists());
    assert!(run("lacks_a_gpu", "1", &file).status.success());
}
