//! An external checker loses its own verdicts and nothing else, whatever it does.

use std::path::Path;
use std::time::Duration;

use beamgen_checkers::{
    CheckItem, Checker, External, ExternalConfig, ExternalScorer, Lost, Verdict,
};
use beamgen_launcher::Launcher;
use beamgen_search::{BatchId, Problem, ScoreId, ScoreItem, Scorer, StepRef, Submitted};

/// A checker in `sh` that fails steps with "bad" in them and passes others; before it answers, it
/// runs `hostile` for the steps that have the word "hostile".
fn script(hostile: &str) -> String {
    format!(
        r#"while IFS= read -r line; do
            id=$(printf '%s' "$line" | sed 's/^{{"id":\([0-9]*\).*/\1/')
            last=$(printf '%s' "$line" | sed 's/.*,"\([^"]*\)"\]}}$/\1/; s/.*\["\([^"]*\)"\]}}$/\1/')
            case "$last" in
              *hostile*) {hostile} ;;
              *bad*) printf '{{"id":%s,"verdict":"fail","reason":"it is bad"}}\n' "$id" ;;
              *) printf '{{"id":%s,"verdict":"pass"}}\n' "$id" ;;
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

/// Checks each step in a chain of its own. Returns the verdicts' names and the losses.
fn ask(config: ExternalConfig, steps: &[&str]) -> (Vec<&'static str>, Lost) {
    let mut checker = External::start(config).expect("there is a launcher");
    let items: Vec<CheckItem<'_>> = steps
        .iter()
        .map(|step| CheckItem {
            id: checker.open("the problem"),
            steps: vec![*step],
        })
        .collect();
    let verdicts = checker.check(&items);
    let names = verdicts.iter().map(|verdict| verdict[0].name()).collect();
    (names, checker.lost().expect("an external checker counts"))
}

#[test]
fn every_step_of_many_gets_its_own_verdict() {
    let steps: Vec<String> = (0..100)
        .map(|i| format!("{} {i}", if i % 3 == 0 { "bad" } else { "good" }))
        .collect();
    let texts: Vec<&str> = steps.iter().map(String::as_str).collect();
    let (verdicts, lost) = ask(config(script(":")), &texts);
    for (i, verdict) in verdicts.iter().enumerate() {
        let want = if i % 3 == 0 { "fail" } else { "pass" };
        assert_eq!(*verdict, want, "{i}");
    }
    assert_eq!(lost, Lost::default());
}

#[test]
fn it_is_told_the_problem_and_the_steps_so_far_and_forks_part() {
    let echo = r#"while IFS= read -r line; do
        id=$(printf '%s' "$line" | sed 's/^{"id":\([0-9]*\).*/\1/')
        said=$(printf '%s' "$line" | sed 's/^[^,]*,//; s/"//g')
        printf '{"id":%s,"verdict":"fail","reason":"%s"}\n' "$id" "$said"
    done"#;
    let mut checker = External::start(config(echo.to_owned())).expect("there is a launcher");
    let root = checker.open("P");
    let check = |checker: &mut External, id, steps: &[&'static str]| {
        let items = [CheckItem {
            id,
            steps: steps.to_vec(),
        }];
        checker.check(&items).remove(0)
    };
    let first = check(&mut checker, root, &["a", "b"]);
    assert_eq!(first[0].reason(), Some("problem:P,steps:[a]}"));
    assert_eq!(first[1].reason(), Some("problem:P,steps:[a,b]}"));
    let fork = checker.fork(root);
    assert_eq!(
        check(&mut checker, root, &["c"])[0].reason(),
        Some("problem:P,steps:[a,b,c]}")
    );
    assert_eq!(
        check(&mut checker, fork, &["d"])[0].reason(),
        Some("problem:P,steps:[a,b,d]}")
    );
    checker.release(root);
    checker.release(fork);
}

#[test]
fn a_crash_costs_the_step_that_it_crashed_on() {
    let (verdicts, lost) = ask(
        config(script("exit 3")),
        &["good", "hostile", "bad", "good"],
    );
    assert_eq!(verdicts, ["pass", "lost", "fail", "pass"]);
    assert_eq!((lost.verdicts, lost.crashes), (1, 1));
    assert_eq!(lost.given_up, None);
}

#[test]
fn a_step_that_is_not_answered_in_time_costs_itself() {
    let (verdicts, lost) = ask(config(script("sleep 1000")), &["good", "hostile", "bad"]);
    assert_eq!(verdicts, ["pass", "lost", "fail"]);
    assert_eq!((lost.verdicts, lost.timeouts, lost.crashes), (1, 1, 0));
}

#[test]
fn babble_is_counted_and_not_believed() {
    let babble = r#"echo hello; echo '{"id":999999,"verdict":"fail"}'; echo '{"id":'$id',"verdict":"maybe"}';
        head -c 300000 /dev/zero | tr '\0' x; echo; printf '\377\376\n';
        printf '{"id":%s,"verdict":"pass"}\n' "$id""#;
    let (verdicts, lost) = ask(config(script(babble)), &["bad", "hostile", "good"]);
    assert_eq!(verdicts, ["fail", "pass", "pass"]);
    assert_eq!((lost.verdicts, lost.noise), (0, 5));
}

#[test]
fn endless_babble_ends_the_process() {
    let mut config = config(script("yes"));
    config.timeout = Duration::from_secs(60);
    let (verdicts, lost) = ask(config, &["hostile", "good"]);
    assert_eq!(verdicts, ["lost", "pass"]);
    assert_eq!((lost.verdicts, lost.crashes), (1, 1));
    assert!(lost.noise >= 1000, "{lost:?}");
}

#[test]
fn an_endless_line_ends_the_process() {
    let (verdicts, lost) = ask(config(script("cat /dev/zero")), &["hostile", "good"]);
    assert_eq!(verdicts, ["lost", "pass"]);
    assert_eq!((lost.verdicts, lost.timeouts), (1, 1));
}

#[test]
fn a_process_that_does_not_read_stops_nobody() {
    let long = "x".repeat(300_000);
    let mut config = config("sleep 1000".to_owned());
    config.workers = 1;
    config.timeout = Duration::from_millis(200);
    let (verdicts, lost) = ask(config, &[&long, &long, &long, &long]);
    assert_eq!(verdicts, ["lost"; 4]);
    assert_eq!((lost.verdicts, lost.timeouts), (4, 3));
    assert!(lost.given_up.is_some());
}

#[test]
fn a_command_that_cannot_run_is_given_up_with_what_it_said() {
    let (verdicts, lost) = ask(config("no-such-program-here".to_owned()), &["good"; 20]);
    assert_eq!(verdicts, ["lost"; 20]);
    assert_eq!(lost.verdicts, 20);
    let reason = lost.given_up.expect("given up");
    assert!(
        reason.contains("127") && reason.contains("no-such-program-here"),
        "{reason}"
    );
}

#[test]
fn too_long_a_problem_is_not_sent() {
    let mut checker = External::start(config(script(":"))).expect("there is a launcher");
    let id = checker.open(&"x".repeat(5 << 20));
    let verdicts = checker.check(&[CheckItem {
        id,
        steps: vec!["good"],
    }]);
    assert_eq!(verdicts, [[Verdict::Lost]]);
    assert_eq!(checker.lost().expect("counts").verdicts, 1);
}

#[test]
fn all_that_it_started_is_killed_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let pids = folder.path().join("pids");
    let hostile = format!(
        "sh -c 'echo $$ >> {0}; exec sleep 1000' & sh -c 'echo $$ >> {0}; exec sleep 1000' & \
         while [ $(wc -l < {0}) -lt 2 ]; do sleep 0.01; done; printf '{{\"id\":%s,\"verdict\":\"pass\"}}\\n' \"$id\"",
        pids.display()
    );
    std::fs::write(&pids, "").expect("a file");
    let mut config = config(script(&hostile));
    config.timeout = Duration::from_secs(30);
    let (verdicts, _) = ask(config, &["hostile"]);
    assert_eq!(verdicts, ["pass"]);
    let pids = std::fs::read_to_string(&pids).expect("a file");
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        assert!(!runs(pid), "{pid} still runs");
    }
}

fn scorer(config: ExternalConfig) -> ExternalScorer {
    ExternalScorer::new(External::start(config).expect("there is a launcher"))
}

fn open(scorer: &mut ExternalScorer) -> ScoreId {
    let problem = Problem {
        id: "p".into(),
        text: "the problem".into(),
        answer: None,
        ..Problem::default()
    };
    scorer.open(&problem, 0).expect("it opens all")
}

fn item<'a>(id: ScoreId, texts: &[&'a str]) -> ScoreItem<'a> {
    let step = |text: &&'a str| StepRef {
        text,
        tokens: &[],
        finish: None,
    };
    ScoreItem {
        id,
        steps: texts.iter().map(step).collect(),
    }
}

/// Returns a program that answers a hostile step only after the file `gate` was created.
fn gated(gate: &Path) -> ExternalConfig {
    let gate = gate.display();
    let mut config = config(script(&format!(
        r#"while [ ! -e {gate} ]; do sleep 0.01; done; printf '{{"id":%s,"verdict":"pass"}}\n' "$id""#
    )));
    config.timeout = Duration::from_secs(60);
    config
}

/// Collects `count` batches and returns their scores.
fn collected(scorer: &mut ExternalScorer, count: usize) -> Vec<(BatchId, Vec<Option<f32>>)> {
    let mut done = Vec::new();
    while done.len() < count {
        done.extend(scorer.collect(true));
    }
    let said = done.into_iter().map(|(batch, scored)| {
        let scored = scored.expect("scores").remove(0).expect("scores");
        (batch, scored.probabilities)
    });
    said.collect()
}

#[test]
fn a_search_goes_on_until_it_answers_and_gets_each_batch() {
    let folder = tempfile::tempdir().expect("a folder");
    let gate = folder.path().join("gate");
    let mut scorer = scorer(gated(&gate));
    let (a, b) = (open(&mut scorer), open(&mut scorer));
    let pending = |submitted| matches!(submitted, Submitted::Pending);
    let first = scorer.submit(BatchId(1), &[item(a, &["hostile", "good"])]);
    assert!(pending(first));
    // What happens to a chain meanwhile is in order.
    let fork = scorer.fork(a);
    assert!(scorer.collect(false).is_empty());
    // A batch with nothing that is slow does not wait for the other one.
    assert!(pending(scorer.submit(BatchId(2), &[item(b, &["bad"])])));
    let quick = collected(&mut scorer, 1);
    assert_eq!(quick, [(BatchId(2), vec![Some(0.0)])]);
    std::fs::write(&gate, "").expect("a file");
    // A call that waits for its own answer keeps those of the others.
    let at_once = scorer.score(&[item(fork, &["bad"])]).expect("scores");
    let at_once = at_once[0].as_ref().expect("scores");
    assert_eq!(at_once.probabilities, [Some(0.0)]);
    let slow = collected(&mut scorer, 1);
    assert_eq!(slow, [(BatchId(1), vec![Some(1.0), Some(1.0)])]);
    assert!(scorer.collect(true).is_empty());
    assert_eq!(scorer.lost().get(), Lost::default());
}

#[test]
fn what_waits_of_a_released_chain_is_not_asked_any_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let gate = folder.path().join("gate");
    let mut config = gated(&gate);
    (config.workers, config.in_flight) = (1, 1);
    let mut scorer = scorer(config);
    let (a, b) = (open(&mut scorer), open(&mut scorer));
    scorer.submit(BatchId(1), &[item(a, &["hostile"])]);
    scorer.submit(BatchId(2), &[item(b, &["bad", "bad"])]);
    scorer.release(b);
    // It is settled although the only process is at the first step.
    let released = collected(&mut scorer, 1);
    assert_eq!(released, [(BatchId(2), vec![None, None])]);
    std::fs::write(&gate, "").expect("a file");
    assert_eq!(collected(&mut scorer, 1), [(BatchId(1), vec![Some(1.0)])]);
    assert_eq!(scorer.lost().get(), Lost::default());
}

#[test]
fn a_search_that_ends_does_not_wait_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid");
    let hang = format!("echo $$ > {}; sleep 1000", pid.display());
    let mut config = config(script(&hang));
    config.timeout = Duration::from_secs(86_400);
    let mut scorer = scorer(config);
    let id = open(&mut scorer);
    scorer.submit(BatchId(1), &[item(id, &["hostile"])]);
    while !std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')) {
        assert!(scorer.collect(true).is_empty());
    }
    drop(scorer);
    let pid = std::fs::read_to_string(&pid).expect("a file");
    assert!(!runs(pid.trim()), "{pid} still runs");
}

#[test]
fn what_is_lost_in_a_search_is_known_outside() {
    let mut scorer = scorer(config("exit 3".to_owned()));
    let lost = scorer.lost();
    let id = open(&mut scorer);
    let scored = scorer.score(&[item(id, &["good", "bad"])]).expect("scores");
    let scored = scored[0].as_ref().expect("scores");
    assert_eq!(scored.probabilities, [None; 2]);
    assert_eq!(scored.lost_verdicts, 2);
    let lost = lost.get();
    assert_eq!(lost.verdicts, 2);
    assert!(lost.crashes > 0, "{lost:?}");
}

/// Whether a process is still running. A zombie has ended, so it does not count.
fn runs(pid: &str) -> bool {
    (0..100).all(|_| {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
        let alive = stat.is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "));
        if alive {
            std::thread::sleep(Duration::from_millis(20));
        }
        alive
    })
}

#[test]
fn without_a_launcher_nothing_is_started() {
    let mut config = config("exit 0".to_owned());
    config.launcher = Launcher::new("no-such/beamgen-launcher");
    let error = External::start(config)
        .expect_err("there is none")
        .to_string();
    assert!(
        error.contains("beamgen-launcher") && error.contains("install it"),
        "{error}"
    );
}
