//! A verifier's program judges whole chains, loses its own outcomes at most, and sees only what it
//! may see.

use std::path::Path;
use std::time::{Duration, Instant};

use beamgen_checkers::{
    CheckItem, Checker, External, ExternalConfig, ProgramVerifier, Verdict, Verifiers,
};
use beamgen_launcher::Launcher;
use beamgen_search::{BatchId, Outcome, OutcomeKind, Problem, Verifier, WholeChain};
use beamgen_test_support::python;
use serde_json::json;

/// A verifier in `sh` that finds chains with "bad" in their last step wrong, and others right; it
/// runs `hostile` for the chains that have the word "hostile".
fn script(hostile: &str) -> String {
    format!(
        r#"while IFS= read -r line; do
            id=$(printf '%s' "$line" | sed 's/^{{"id":\([0-9]*\).*/\1/')
            case "$line" in
              *hostile*) {hostile} ;;
              *bad*) printf '{{"id":%s,"verdict":"wrong","reason":"it is bad","passed":1,"total":3}}\n' "$id" ;;
              *) printf '{{"id":%s,"verdict":"right"}}\n' "$id" ;;
            esac
        done"#
    )
}

fn config(command: String) -> ExternalConfig {
    ExternalConfig {
        timeout: Duration::from_millis(1500),
        launcher: Launcher::new(beamgen_test_support::launcher()),
        ..ExternalConfig::new(command)
    }
}

fn problem() -> Problem {
    Problem {
        id: "7".into(),
        text: "P".into(),
        answer: Some("the reference".into()),
        tests: Some(json!(["a test"])),
        ..Problem::default()
    }
}

/// Has chains of one step each judged in one batch.
fn ask(verifier: &mut dyn Verifier, batch: u64, steps: &[&str]) -> Vec<Outcome> {
    let chains: Vec<WholeChain<'_>> = steps
        .iter()
        .map(|step| WholeChain {
            steps: vec![step],
            answer: Some("the answer"),
        })
        .collect();
    outcomes(verifier, batch, &problem(), &chains)
}

fn outcomes(
    verifier: &mut dyn Verifier,
    batch: u64,
    problem: &Problem,
    chains: &[WholeChain<'_>],
) -> Vec<Outcome> {
    verifier.submit(BatchId(batch), problem, chains);
    let began = Instant::now();
    loop {
        let done = verifier.collect(true);
        if let Some((id, outcomes)) = done.into_iter().next() {
            assert_eq!((id, outcomes.len()), (BatchId(batch), chains.len()));
            return outcomes;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no outcomes");
    }
}

fn kinds(outcomes: &[Outcome]) -> Vec<&'static str> {
    outcomes.iter().map(|o| o.kind.words()).collect()
}

fn started(command: String) -> ProgramVerifier {
    ProgramVerifier::start("it", config(command), false).expect("there is a launcher")
}

#[test]
fn every_chain_of_many_gets_its_own_outcome() {
    let steps: Vec<String> = (0..100)
        .map(|i| format!("{} {i}", if i % 3 == 0 { "bad" } else { "good" }))
        .collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let outcomes = ask(&mut started(script(":")), 5, &steps);
    for (i, outcome) in outcomes.iter().enumerate() {
        if i % 3 == 0 {
            assert_eq!(outcome.to_string(), "wrong, 1 of 3: it is bad");
        } else {
            assert_eq!(outcome.to_string(), "right");
        }
    }
}

#[test]
fn only_a_closed_verifier_sees_reference_and_tests() {
    let echo = r#"while IFS= read -r line; do
        id=$(printf '%s' "$line" | sed 's/^{"id":\([0-9]*\).*/\1/')
        said=$(printf '%s' "$line" | sed 's/^[^,]*,//; s/"//g')
        printf '{"id":%s,"verdict":"unknown","reason":"%s"}\n' "$id" "$said"
    done"#;
    for (open, expected) in [
        (
            false,
            "problem:P,steps:[s],kind:outcome,answer:the answer,reference:the reference,tests:[a test]}",
        ),
        (true, "problem:P,steps:[s],kind:outcome,answer:the answer}"),
    ] {
        let started = ProgramVerifier::start("it", config(echo.to_owned()), open);
        let outcomes = ask(&mut started.unwrap(), 1, &["s\n"]);
        let unknown = Outcome::new(OutcomeKind::Unknown, expected);
        assert_eq!(outcomes, [unknown]);
    }
}

#[test]
fn a_program_that_dies_hangs_or_answers_for_others_loses_its_own_outcomes_only() {
    for (hostile, crashes, timeouts) in [
        ("exit 3", 1, 0),
        ("sleep 1000", 0, 1),
        (r#"printf '{"id":999999,"verdict":"right"}\n'"#, 0, 1),
        (r#"printf '{"id":%s,"verdict":"maybe"}\n' "$id""#, 0, 1),
    ] {
        let one = ExternalConfig {
            workers: 1,
            ..config(script(hostile))
        };
        let mut verifier = ProgramVerifier::start("it", one, false).unwrap();
        let outcomes = ask(&mut verifier, 1, &["good", "hostile", "bad", "fine"]);
        let lost = verifier.lost().get();
        // Requests go out in order, so the hostile one waits longest when its process ends.
        assert_eq!(
            kinds(&outcomes),
            ["right", "lost", "wrong", "right"],
            "{hostile}"
        );
        assert_eq!(
            (lost.verdicts, lost.crashes, lost.timeouts),
            (1, crashes, timeouts),
            "{hostile}"
        );
    }
}

#[test]
fn a_program_that_never_answers_is_given_up_after_three_starts() {
    let mut verifier = started("exit 1".to_owned());
    let steps: Vec<String> = (0..20).map(|i| format!("step {i}")).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let outcomes = ask(&mut verifier, 1, &steps);
    assert_eq!(kinds(&outcomes), ["lost"; 20]);
    let lost = verifier.lost().get();
    assert_eq!((lost.verdicts, lost.crashes), (20, 6));
    let reason = lost.given_up.unwrap();
    assert!(reason.contains("3 times in a row"), "{reason}");
}

#[test]
fn equal_chains_are_judged_once_but_asked_again_if_its_outcome_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!(
        r#"while IFS= read -r line; do
            printf '%s\n' "$line" >> '{}'
            id=$(printf '%s' "$line" | sed 's/^{{"id":\([0-9]*\).*/\1/')
            case "$line" in *hostile*) exit 3 ;; esac
            printf '{{"id":%s,"verdict":"right"}}\n' "$id"
        done"#,
        log.display()
    );
    let mut verifier = started(command);
    for batch in 0..3 {
        let outcomes = ask(&mut verifier, batch, &["same", "other", "same"]);
        assert_eq!(kinds(&outcomes), ["right"; 3]);
    }
    let lines = || std::fs::read_to_string(&log).unwrap().lines().count();
    assert_eq!(lines(), 2);
    for batch in 3..5 {
        let outcomes = ask(&mut verifier, batch, &["hostile", "hostile"]);
        assert_eq!(kinds(&outcomes), ["lost", "lost"]);
    }
    assert_eq!(lines(), 4);
}

#[test]
fn a_problem_chooses_its_verifier_by_name() {
    let mut verifiers = Verifiers::default();
    assert_eq!(verifiers.name_for(&problem()), None);
    assert_eq!(verifiers.identity(false), None);
    verifiers
        .add_program("rules", config(script(":")), false)
        .unwrap();
    let named = |name: &str| Problem {
        verifier: Some(name.into()),
        ..problem()
    };
    assert_eq!(verifiers.name_for(&problem()), None);
    assert_eq!(verifiers.name_for(&named("rules")), Some("rules"));
    verifiers.set_usual("rules");
    assert_eq!(verifiers.name_for(&problem()), Some("rules"));
    assert_eq!(verifiers.name_for(&named("math")), None);
    assert_eq!(
        kinds(&ask(&mut verifiers, 1, &["bad", "good"])),
        ["wrong", "right"]
    );
    // An unknown name costs the problem its outcomes, and says what there is.
    let chain = WholeChain {
        steps: vec!["s"],
        answer: None,
    };
    let unknown = named("lean3");
    assert!(verifiers.name_for(&unknown).is_some());
    verifiers.submit(BatchId(2), &unknown, &[chain]);
    let done = verifiers.collect(false);
    let reason = "cannot tell: the problem names the verifier \"lean3\": choose from math, rules";
    assert_eq!(done[0].1[0].to_string(), reason);
}

#[test]
fn the_example_for_the_game_of_24_finds_every_fault() {
    let Some(python) = python("") else {
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/verifiers");
    let mut slow = config(format!("{python} {}/game24.py", folder.display()));
    slow.timeout = Duration::from_secs(60);
    let mut verifier = ProgramVerifier::start("game24", slow, true).unwrap();
    let told = "The answer is 24.\n";
    let [first, second, third] = [
        "13 - 9 = 4 (left: 4 4 10)\n",
        "10 - 4 = 6 (left: 4 6)\n",
        "4 * 6 = 24 (left: 24)\n",
    ];
    let slip = "4 * 4 = 18 (left: 10 18)\n";
    let cases: [(&[&str], &str); 11] = [
        (&[first, second, third, told], "right"),
        (&[first, second, third], "right"),
        (&[first, second, told], "wrong: 2 numbers are left"),
        (&[first, slip, told], "wrong: step 2: 4 * 4 is 16, not 18"),
        (
            &["13 - 8 = 5 (left: 4 5 9 10)", told],
            "wrong: step 1: 8 is not left",
        ),
        (
            &[first, "10 - 4 = 6 (left: 6)", told],
            "wrong: step 2: left are 4 6",
        ),
        (
            &[first, second, "4 + 6 = 10 (left: 10)", "The answer is 10."],
            "wrong: it makes 10",
        ),
        (
            &[first, second, third, "The answer is 7."],
            "wrong: left is 24, not 7",
        ),
        (
            &["4 / 1/0 = 4 (left: 4 9 10)", told],
            "wrong: step 1 is not a step of the game",
        ),
        (
            &["I think so.", told],
            "wrong: step 1 is not a step of the game",
        ),
        (
            &["4 - 4 = 0 (left: 0 9 10 13)", told],
            "wrong: step 1: 4 is not left",
        ),
    ];
    let game = Problem {
        text: "Make 24 of 4 9 10 13.".into(),
        ..Problem::default()
    };
    let chains = cases.map(|(steps, _)| WholeChain {
        steps: steps.to_vec(),
        answer: None,
    });
    let outcomes = outcomes(&mut verifier, 1, &game, &chains);
    for (outcome, (steps, expected)) in outcomes.iter().zip(cases) {
        assert_eq!(outcome.to_string(), expected, "{steps:?}");
    }
    let other = Problem::from("How many?");
    let [outcome] = &self::outcomes(&mut verifier, 2, &other, &chains[..1])[..] else {
        panic!("one chain");
    };
    assert_eq!(outcome.kind, OutcomeKind::Unknown);
}

#[test]
fn the_example_of_ten_lines_judges_rows_of_a_sudoku() {
    let Some(python) = python("") else {
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/verifiers");
    let mut slow = config(format!("{python} {}/sudoku_row.py", folder.display()));
    slow.timeout = Duration::from_secs(60);
    let mut verifier = ProgramVerifier::start("sudoku", slow, true).unwrap();
    let problem = Problem::from("Complete the row: 5 3 _ _ 7 _ _ 1 _");
    let rows = [
        (Some("5 3 2 4 7 6 8 1 9"), "right"),
        (
            Some("5 3 2 4 7 6 8 9 1"),
            "wrong: a given digit was changed",
        ),
        (
            Some("5 3 2 4 7 2 8 1 9"),
            "wrong: each of 1 to 9 must be there once",
        ),
        (None, "wrong: each of 1 to 9 must be there once"),
    ];
    let chains = rows.map(|(answer, _)| WholeChain {
        steps: vec!["Fill it."],
        answer,
    });
    verifier.submit(BatchId(1), &problem, &chains);
    let outcomes = loop {
        if let Some((_, outcomes)) = verifier.collect(true).pop() {
            break outcomes;
        }
    };
    let said: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
    assert_eq!(said, rows.map(|(_, words)| words));
}

#[test]
fn the_example_for_the_game_of_24_also_checks_single_steps() {
    let Some(python) = python("") else {
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/verifiers");
    let mut slow = config(format!("{python} {}/game24.py", folder.display()));
    slow.timeout = Duration::from_secs(60);
    let mut checker = External::start(slow).unwrap();
    let id = checker.open("Make 24 of 4 9 10 13.");
    let steps = vec![
        "13 - 9 = 4 (left: 4 4 10)\n",
        "10 - 4 = 5 (left: 4 5)\n",
        "The answer is 5.\n",
    ];
    let verdicts = checker.check(&[CheckItem { id, steps }]).remove(0);
    let names: Vec<&str> = verdicts.iter().map(Verdict::name).collect();
    assert_eq!(names, ["pass", "fail", "fail"]);
    let id = checker.open("What is 2 + 2?");
    let steps = vec!["2 + 2 = 4\n"];
    let verdicts = checker.check(&[CheckItem { id, steps }]).remove(0);
    assert_eq!(verdicts[0].name(), "abstain");
}
