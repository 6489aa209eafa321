//! Programs of ours end with us, whatever ends us.

use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::run::Place;

/// A checker that answers nothing, and heeds neither the end of its input nor signals that ask. It
/// writes the numbers of its guard, of itself and of a child.
pub(crate) const HANGS: &str =
    "trap '' TERM HUP INT QUIT; sleep 1000 & echo $PPID $$ $! >> pids; sleep 1001; sleep 1002";

/// Long for a busy machine, and still far from the time that the programs would run by themselves.
const SOON: Duration = Duration::from_secs(20);

/// The processes that [`HANGS`] names, once so many of them have begun.
pub(crate) fn begun(place: &Place, processes: usize) -> Vec<i32> {
    let started = Instant::now();
    loop {
        let text = std::fs::read_to_string(place.path("pids")).unwrap_or_default();
        if text.ends_with('\n') && text.lines().count() >= processes {
            let pids = text.split_whitespace().map(str::parse);
            return pids.collect::<Result<_, _>>().expect("numbers");
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no checker");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asserts that all these processes end soon.
pub(crate) fn assert_gone(pids: &[i32]) {
    let started = Instant::now();
    for pid in pids {
        while runs(*pid) {
            assert!(started.elapsed() < SOON, "{pid} still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether a process runs; one that ended and is not waited for does not.
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/stat")));
    stat.is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

/// A search that waits for a checker that answers nothing.
fn hanging(place: &Place, command: &str, more: &[&str]) -> (Child, Vec<i32>) {
    let args = [
        command,
        "--limit",
        "3",
        "--checker-command",
        HANGS,
        "--json",
    ];
    let mut command = place.listening(&[&args[..], more].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("the binary starts");
    // The second process is started when the search asks for more than one verdict.
    let pids = begun(place, 2);
    assert!(pids.len() == 6 && pids.iter().all(|pid| runs(*pid)));
    (child, pids)
}

/// Sends signals: how the process ended, which has to be soon.
fn ended_by(child: &mut Child, signals: &[Signal]) -> ExitStatus {
    let started = Instant::now();
    for signal in signals {
        // The first one may have been enough.
        let _ = kill_process(Pid::from_child(child), *signal);
    }
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        if started.elapsed() > SOON {
            child.kill().expect("a child");
            panic!("it runs on after {signals:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_checker_that_hangs_ends_with_the_search_whatever_ends_it() {
    for (signals, code) in [
        (&[Signal::INT][..], Some(130)),
        (&[Signal::TERM], Some(143)),
        (&[Signal::HUP], Some(129)),
        (&[Signal::QUIT], Some(131)),
        (&[Signal::INT, Signal::INT], Some(130)),
        (&[Signal::KILL], None),
    ] {
        let place = Place::new();
        let (mut child, pids) = hanging(&place, "solve", &["--out", "run.jsonl"]);
        let status = ended_by(&mut child, signals);
        assert_eq!(status.code(), code, "{signals:?}");
        assert_gone(&pids);
        assert_eq!(
            place.read("run.jsonl").lines().count(),
            1,
            "nothing is done"
        );
    }
}

#[test]
fn a_bench_does_not_wait_for_a_checker_that_hangs() {
    let place = Place::new();
    let (mut child, pids) = hanging(&place, "bench", &["--strategies", "beam", "--n", "8"]);
    let status = ended_by(&mut child, &[Signal::INT]);
    assert_eq!(status.code(), Some(130));
    assert_gone(&pids);
}

#[test]
fn the_checkers_of_labelled_chains_end_with_the_command() {
    let place = Place::new();
    let chain = r#"{"problem":"p","steps":[{"text":"1 + 1 = 2"},{"text":"2 + 2 = 4"}]}"#;
    place.write("chains.jsonl", format!("{chain}\n"));
    let mut command = place.listening(&["check", "chains.jsonl", "--checker-command", HANGS]);
    let mut child = command.spawn().expect("the binary starts");
    let pids = begun(&place, 2);
    assert_eq!(ended_by(&mut child, &[Signal::INT]).code(), None);
    assert_gone(&pids);
}

#[test]
fn a_checker_writes_no_core_file_and_its_launcher_is_no_command() {
    let place = Place::new();
    // The words of a launcher do not reach the command line's parser, nor are they in its help.
    let by_hand = place.run(&["beamgen-become-2", "1", "{}", "true"]);
    assert_eq!(by_hand.code, Some(2));
    assert_eq!(by_hand.stderr.lines().count(), 1, "{}", by_hand.stderr);
    assert!(!place.run(&["--help"]).ok().stdout.contains("beamgen-"));
    let checker = "ulimit -c > limit; exec sed -u 's/^{\"id\":\\([0-9]*\\).*/{\"id\":\\1,\"verdict\":\"pass\"}/'";
    let args = [
        "solve",
        "--limit",
        "1",
        "--checker-command",
        checker,
        "--json",
    ];
    place.run(&args).ok();
    assert_eq!(place.read("limit"), "0\n");
}

#[test]
fn the_sandbox_is_a_command_with_the_exit_code_of_its_program() {
    let place = Place::new();
    let run = |args: &[&str]| place.run(&[&["sandbox"], args].concat());
    let none = ["--sandbox", "none"];
    let exits = run(&[&none[..], &["--", "sh", "-c", "echo hello; exit 7"]].concat());
    assert_eq!((exits.code, exits.stdout.as_str()), (Some(7), "hello\n"));
    let late = run(&[&none[..], &["--wall", "1", "--", "sleep", "60"]].concat());
    assert_eq!(late.code, Some(124), "{}", late.stderr);
    assert!(
        late.stderr.contains("ended by the limit on"),
        "{}",
        late.stderr
    );
    run(&["--cpu", "0", "--", "true"]).assert_refused("no time", &["--cpu"]);
    run(&["--wall", "3"]).assert_refused("no program", &["PROGRAM"]);
    // Only Linux has what a sandbox needs.
    if cfg!(target_os = "linux") {
        let reads = ["--show-layers", "--", "cat", "/etc/passwd"];
        let full = run(&reads);
        assert_eq!(
            (full.code, full.stdout.as_str()),
            (Some(1), ""),
            "{}",
            full.stderr
        );
        assert!(full.stderr.contains("layers: "), "{}", full.stderr);
    }
}
