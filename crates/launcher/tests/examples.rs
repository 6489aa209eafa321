//! The verifier of code in `examples/verifiers`: candidates that try to forge a verdict.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use beamgen_test_support::python;
use serde_json::{Value, json};

const LAUNCHER: &str = env!("CARGO_BIN_EXE_beamgen-launcher");

/// Tests with three assertions.
const TESTS: &str = "\
assert add(1, 2) == 3
assert all(add(n, 1) == n + 1 for n in range(3))
assert len([add(20, 21)]) == 1 and add(-4, 4) == 0
";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Runs the verifier on requests with this sandbox.
fn verify(python: &str, sandbox: &str, options: &[&str], requests: &[Value]) -> Output {
    let mut verifier = Command::new(python)
        .arg(folder("../../examples/verifiers/unit_tests.py"))
        .args(options)
        .env("BEAMGEN_SANDBOX", sandbox)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = verifier.stdin.take().expect("a pipe");
    for request in requests {
        // A verifier that refuses does not read its input.
        let _ = writeln!(input, "{request}");
    }
    drop(input);
    verifier.wait_with_output().expect("it ends")
}

fn request(id: usize, code: &str, tests: &str) -> Value {
    let step = format!("So:\n```python\n{code}\n```\n");
    json!({"id": id, "kind": "outcome", "problem": "", "steps": ["words", step], "answer": "", "reference": tests})
}

/// Returns the verdicts on pairs of code and tests.
fn verdicts(python: &str, pairs: &[(String, &str)]) -> Vec<Value> {
    let requests: Vec<Value> = pairs
        .iter()
        .enumerate()
        .map(|(id, (code, tests))| request(id, code, tests))
        .collect();
    let output = verify(python, LAUNCHER, &[], &requests);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let verdicts: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(verdicts.len(), pairs.len(), "{text}{errors}");
    for (id, verdict) in verdicts.iter().enumerate() {
        assert_eq!(verdict["id"], id);
    }
    verdicts
}

#[test]
fn a_candidate_cannot_forge_a_verdict() {
    let Some(python) = python("") else {
        return;
    };
    let names = [
        "right",
        "wrong",
        "exit_early",
        "exit_in_a_call",
        "exit_as_a_limit",
        "patch_assert",
        "equal_to_all",
        "own_length",
        "find_tests",
        "answer_ahead",
    ];
    let candidates: Vec<(String, &str)> = names
        .iter()
        .map(|name| {
            let path = folder("tests/candidates").join(format!("{name}.py"));
            (std::fs::read_to_string(path).expect("a candidate"), TESTS)
        })
        .collect();
    for (name, verdict) in names.iter().zip(verdicts(&python, &candidates)) {
        let expected = if *name == "right" { "right" } else { "wrong" };
        assert_eq!(verdict["verdict"], expected, "{name}: {verdict}");
        let all = verdict["passed"] == verdict["total"];
        assert_eq!(all, *name == "right", "{name}: {verdict}");
    }
}

#[test]
fn tests_of_several_shapes_are_run() {
    let Some(python) = python("") else {
        return;
    };
    let cases = [
        (
            "def put(x): x.sort()",
            "x = [3, 1]\nput(x)\nassert x == [1, 3]",
            "right",
        ),
        (
            "def f(n):\n    if n < 0: raise ValueError('negative')\n    return {'a': (1, 2.5), 'b': {3}, 'c': None}",
            "try:\n    f(-1)\n    assert False\nexcept ValueError:\n    pass\n\
             assert f(1) == {'a': (1, 2.5), 'b': {3}, 'c': None}",
            "right",
        ),
        (
            "def f(n): return n",
            "import math\ndef check(g):\n    for n in range(3):\n        assert math.floor(g(n)) == n\ncheck(f)\nprint('x')",
            "right",
        ),
        (
            "def f(n): return 0",
            "def check(g):\n    assert g(1) == 1\ncheck(f)",
            "wrong",
        ),
        ("def f(n): return n", "assert f(1) ==", "unknown"),
        ("def f(n): return n", "f(1)", "unknown"),
        (
            "def f(n): return 0",
            "for n in range(f(3)):\n    assert f(n) == n",
            "wrong",
        ),
        ("x = (", "assert f(1) == 1", "wrong"),
        (
            "def f(n): return (n for n in [])",
            "assert list(f(1)) == []",
            "wrong",
        ),
        ("def g(n): return n", "assert f(1) == 1", "wrong"),
    ];
    let pairs: Vec<(String, &str)> = cases
        .iter()
        .map(|(code, tests, _)| ((*code).to_owned(), *tests))
        .collect();
    for ((code, tests, expected), verdict) in cases.iter().zip(verdicts(&python, &pairs)) {
        assert_eq!(verdict["verdict"], *expected, "{code}\n{tests}\n{verdict}");
    }
}

#[test]
fn nothing_is_run_without_a_sandbox_unless_that_is_asked_for() {
    let Some(python) = python("") else {
        return;
    };
    let requests = [request(0, "def f(): return 1", "assert f() == 1")];
    let refused = verify(&python, "/no/such/program", &[], &requests);
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && refused.stdout.is_empty());
    assert!(
        errors.contains("BEAMGEN_SANDBOX") && errors.lines().count() == 1,
        "{errors}"
    );
    let open = verify(
        &python,
        "/no/such/program",
        &["--sandbox", "none"],
        &requests,
    );
    let text = String::from_utf8_lossy(&open.stdout).into_owned();
    assert!(text.contains("\"right\""), "{text}");
}
