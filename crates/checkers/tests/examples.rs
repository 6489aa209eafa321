//! Tests of the programs in examples/checkers: their verdicts, and that hostile code cannot escape.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use beamgen_checkers::{CheckItem, Checker, External, ExternalConfig, Lost, Verdict};
use beamgen_launcher::Launcher;
use beamgen_test_support::python;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/checkers")
}

/// The verdicts on the steps of one chain.
fn verdicts(python: &str, script: &str, steps: &[&str]) -> (Vec<Verdict>, Lost) {
    let launcher = beamgen_test_support::launcher();
    // Only Linux has what a sandbox needs.
    let protection = if cfg!(target_os = "linux") {
        "full"
    } else {
        "none"
    };
    let command = format!(
        "BEAMGEN_SANDBOX={} {python} {}/{script} --sandbox {protection}",
        launcher.display(),
        folder().display()
    );
    verdicts_in(&command, steps)
}

fn verdicts_in(command: &str, steps: &[&str]) -> (Vec<Verdict>, Lost) {
    let mut checker = External::start(ExternalConfig {
        timeout: Duration::from_secs(60),
        launcher: Launcher::new(beamgen_test_support::launcher()),
        ..ExternalConfig::new(command)
    })
    .expect("there is a launcher");
    let id = checker.open("a problem");
    let steps = steps.to_vec();
    let verdicts = checker.check(&[CheckItem { id, steps }]).remove(0);
    (verdicts, checker.lost().expect("counts"))
}

fn names(verdicts: &[Verdict]) -> Vec<&'static str> {
    verdicts.iter().map(Verdict::name).collect()
}

fn code(text: &str) -> String {
    format!("We compute:\n```python\n{text}\n```\n")
}

#[test]
fn python_is_parsed_and_not_run_unless_asked() {
    let Some(python) = python("") else {
        return;
    };
    let wrong = code("x = 3 * 4\nassert x == 13");
    let steps = ["words alone", &code("x = (3"), &wrong];
    let (parsed, _) = verdicts(&python, "python_steps.py", &steps);
    assert_eq!(names(&parsed), ["abstain", "fail", "abstain"]);
    assert_eq!(parsed[1].reason(), Some("line 1: '(' was never closed"));
    let (ran, _) = verdicts(&python, "python_steps.py --run", &[&wrong]);
    assert_eq!(ran[0], Verdict::fail("line 2: AssertionError"));
}

#[test]
fn python_that_runs_is_held_against_its_claims() {
    let Some(python) = python("") else {
        return;
    };
    let output = |printed: &str| format!("{}```output\n{printed}\n```\n", code("print(eggs * 2)"));
    let (ran, lost) = verdicts(
        &python,
        "python_steps.py --run",
        &[
            &code("eggs = 16 - 3 - 4\nassert eggs == 9"),
            &output("18"),
            &output("19"),
            &code("1 / 0"),
            &code("import math\nprint(math.pi)"),
        ],
    );
    // The last one goes on from code that raised.
    assert_eq!(names(&ran), ["pass", "pass", "fail", "fail", "abstain"]);
    assert_eq!(ran[2].reason(), Some("it prints '18', not '19'"));
    assert_eq!(
        ran[3].reason(),
        Some("line 1: ZeroDivisionError: division by zero")
    );
    assert_eq!(lost, Lost::default());
}

#[test]
fn hostile_python_is_refused_before_it_runs() {
    let Some(python) = python("") else {
        return;
    };
    let mark = tempfile::tempdir().expect("a folder");
    let path = mark.path().join("was-here");
    let write = format!("open({:?}, 'w').write('x')", path.display().to_string());
    let deep = format!("x = {}1{}", "(".repeat(5000), ")".repeat(5000));
    let long = format!("x = {}", "9".repeat(1_000_000));
    for text in [
        "import os\nos.fork()",
        "import socket",
        "from os import fork",
        &write,
        "__import__('os').fork()",
        "().__class__.__bases__[0].__subclasses__()",
        "eval('1')",
        "getattr(1, 'x')",
        &deep,
        &long,
    ] {
        let (said, lost) = verdicts(
            &python,
            "python_steps.py --run",
            &[&code(text), &code("assert True")],
        );
        assert!(!said[0].is_fail() || text == deep, "{text:.40}: {said:?}");
        assert_ne!(said[0], Verdict::Pass, "{text:.40}");
        assert_eq!(lost, Lost::default(), "{text:.40}");
    }
    assert!(!path.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn hostile_python_that_runs_all_the_same_is_contained() {
    let Some(python) = python("import os; os.setuid") else {
        return;
    };
    let mark = tempfile::tempdir().expect("a folder");
    let path = mark.path().join("was-here");
    // What the verification would refuse, given to the process that executes.
    let run = format!(
        r#"
import sys, json
sys.path.insert(0, {:?})
import python_steps as steps
hostile = [
    "import os\nos.fork()",
    "import os\nwhile True: os.fork()",
    "import time\ntime.sleep(1000)",
    "while True: pass",
    "x = 'a' * 10**11",
    "x = [0]\nwhile True: x += x",
    "9 ** 9 ** 9 ** 9",
    "while True: print('x' * 1000)",
    "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "open('{}', 'w').write('x')",
    "open('/etc/passwd').read()",
    "import os\nos.kill(os.getppid(), 9)",
    "import threading\nthreading.Thread(target=print).start()",
    "def f(): f()\nf()",
]
words = steps.prefix([], **{{**steps.BOUNDS, "cpu": 1, "wall": 3}})
for code in hostile:
    end = steps.run([code], words)
    assert end["end"] in ("limit", "raised"), (code, end)
    assert len(json.dumps(end)) < 2000, code
assert steps.run(["assert 1 + 1 == 2"], words)["end"] == "done"
"#,
        folder().display(),
        path.display()
    );
    let ran = Command::new(&python)
        .args(["-c", &run])
        .env("BEAMGEN_SANDBOX", beamgen_test_support::launcher())
        .output()
        .expect("Python");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(!path.exists());
}

#[test]
fn python_is_not_run_without_a_sandbox_unless_that_is_asked_for() {
    let Some(python) = python("") else {
        return;
    };
    let script = format!("{python} {}/python_steps.py --run", folder().display());
    let wrong = code("assert 3 * 4 == 13");
    let without = format!("BEAMGEN_SANDBOX=/no/such/program {script}");
    let (_, lost) = verdicts_in(&without, &[&wrong]);
    assert_ne!(lost, Lost::default());
    let (ran, lost) = verdicts_in(&format!("{without} --sandbox none"), &[&wrong]);
    assert!(ran[0].is_fail() && lost == Lost::default());
}

#[test]
fn z3_fails_what_contradicts_and_passes_what_follows() {
    let Some(python) = python("import z3") else {
        return;
    };
    let (said, _) = verdicts(
        &python,
        "z3_steps.py",
        &[
            "x + y = 10, x - y = 2",
            "So 2x = 12",
            "Then x = 6 and y = 4",
            "y = 5",
        ],
    );
    assert_eq!(names(&said), ["abstain", "pass", "pass", "fail"]);
    let (said, _) = verdicts(
        &python,
        "z3_steps.py",
        &["x + y = 10", "Suppose x = 3", "x = 4", "words", "n > 3"],
    );
    assert_eq!(names(&said), ["abstain"; 5]);
}

#[test]
fn lean_abstains_where_there_is_none() {
    let Some(python) = python("") else {
        return;
    };
    let step = "```lean\nexample : 2 + 2 = 5 := by decide\n```\n";
    let command = format!(
        "PATH=/nowhere {python} {}/lean_steps.py",
        folder().display()
    );
    let (said, lost) = verdicts_in(&command, &[step]);
    assert_eq!((names(&said), lost), (vec!["abstain"], Lost::default()));
}

#[test]
fn a_failed_proof_is_no_failure_and_a_decided_negation_is() {
    let Some(python) = python("") else {
        return;
    };
    // Stands for Lean: it accepts the code that has one of two lines.
    let bin = tempfile::tempdir().expect("a folder");
    let lean = bin.path().join("lean");
    let accepts =
        "#!/bin/sh\ngrep -qE 'example : (2 \\+ 2 = 4|¬ \\(2 \\+ 2 = 5\\)) := by decide'\n";
    std::fs::write(&lean, accepts).expect("a file");
    Command::new("chmod")
        .arg("+x")
        .arg(&lean)
        .status()
        .expect("chmod");
    let step = |statement: &str, proof: &str| {
        format!("```lean\nexample : {statement} := by {proof}\n```\n")
    };
    let command = format!(
        "PATH={}:$PATH {python} {}/lean_steps.py",
        bin.path().display(),
        folder().display()
    );
    let (said, _) = verdicts_in(
        &command,
        &[
            &step("2 + 2 = 4", "decide"),
            &step("2 + 2 = 5", "decide"),
            &step("2 + 2 = 4", "omega"),
            &step("2 + 2 = 4", "sorry"),
        ],
    );
    assert_eq!(names(&said), ["pass", "fail", "abstain", "abstain"]);
    assert_eq!(said[1].reason(), Some("2 + 2 = 5 is false"));
}
