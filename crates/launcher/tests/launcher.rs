//! Tests of programs that a launcher starts: their ends, limits and pipes.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use beamgen_launcher::{LaunchError, Launcher, Limits, Program, Running};
use rustix::process::{Pid, Signal, getsid, kill_process};

const LAUNCHER: &str = env!("CARGO_BIN_EXE_beamgen-launcher");

fn start(command: &str) -> Running {
    limited(command, Limits::default())
}

fn limited(command: &str, limits: Limits) -> Running {
    let program = Program {
        limits,
        ..Program::shell(command)
    };
    let running = Launcher::new(LAUNCHER).start(&program);
    running.expect("it starts")
}

/// Waits for the end of a program; returns the status, standard output and standard error.
fn ended(mut running: Running) -> (ExitStatus, String, String) {
    drop(running.input.take());
    let [mut output, mut errors] = [String::new(), String::new()];
    let mut pipe = running.output.take().expect("a pipe");
    pipe.read_to_string(&mut output).expect("UTF-8");
    let mut pipe = running.errors.take().expect("a pipe");
    pipe.read_to_string(&mut errors).expect("UTF-8");
    let started = Instant::now();
    loop {
        if let Some(status) = running.try_wait().expect("a child") {
            return (status, output, errors);
        }
        assert!(started.elapsed() < Duration::from_secs(10), "it runs on");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads the process numbers that a program prints on its first line.
fn pids(running: &mut Running) -> Vec<i32> {
    let mut line = String::new();
    let pipe = running.output.as_mut().expect("a pipe");
    BufReader::new(pipe).read_line(&mut line).expect("UTF-8");
    let numbers = line
        .split_whitespace()
        .map(|pid| pid.parse().expect("a number"));
    numbers.collect()
}

/// Asserts that all the processes end long before their sleep would.
fn assert_gone(pids: &[i32]) {
    let started = Instant::now();
    for pid in pids {
        while runs(*pid) {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "{pid} still runs"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether a process is running. A zombie has ended, so it does not count.
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

#[test]
fn a_program_has_its_three_streams() {
    let mut running = start("cat; echo done; echo well >&2");
    let input = running.input.as_mut().expect("a pipe");
    input.write_all(b"to and fro\n").expect("it reads");
    let (status, output, errors) = ended(running);
    assert_eq!(output, "to and fro\ndone\n");
    assert_eq!(errors, "well\n");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn exit_codes_and_signals_pass() {
    for code in [0, 1, 7, 255] {
        let (status, ..) = ended(start(&format!("exit {code}")));
        assert_eq!(status.code(), Some(code));
    }
    // INT and HUP are left out: tests that run under `nohup` or in the background ignore both
    // signals, and programs inherit that.
    for signal in [Signal::TERM, Signal::KILL, Signal::SEGV, Signal::ABORT] {
        let number = signal.as_raw();
        let (status, ..) = ended(start(&format!("kill -{number} $$")));
        assert_eq!(status.signal(), Some(number), "{status}");
    }
}

#[test]
fn its_group_ends_with_it_and_with_the_wish_for_it() {
    // The program ignores the end of its input and every signal that can be ignored.
    let hang = "trap '' TERM HUP INT; sleep 1000 & echo $PPID $$ $!; sleep 1001";
    let mut running = start(hang);
    let pids = pids(&mut running);
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| runs(*pid)));
    let status = running.end().expect("it ends");
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
    // If the guard had to be killed instead, the program's child would sleep on.
    assert_gone(&pids);

    // Processes that the program leaves in its group end with the program.
    let mut running = start("sleep 1000 & echo $PPID $$ $!; exit 5");
    let left = self::pids(&mut running);
    let (status, ..) = ended(running);
    assert_eq!(status.code(), Some(5));
    assert_gone(&left);
}

#[test]
fn the_program_ends_if_its_guard_is_killed() {
    let mut running = start("echo $PPID $$; exec sleep 1000");
    let pids = pids(&mut running);
    let guard = Pid::from_raw(pids[0]).expect("a process");
    kill_process(guard, Signal::KILL).expect("it runs");
    assert_gone(&pids);
}

#[test]
fn it_is_in_a_session_and_a_group_of_its_own() {
    let mut running = start("echo $PPID $$; cat");
    let pids = pids(&mut running);
    let session = |pid: i32| getsid(Pid::from_raw(pid)).expect("it runs");
    let own = getsid(None).expect("a session");
    assert_eq!(session(pids[0]), session(pids[1]));
    assert_ne!(session(pids[1]), own);
    // The program leads its group, so the group has the program's number.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pids[1])).expect("it runs");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let group = fields.split_whitespace().nth(2);
    assert_eq!(group, Some(pids[1].to_string().as_str()));
}

#[test]
fn that_it_closes_its_output_is_seen_while_it_runs() {
    let mut running = start("echo $$; exec >&-; exec sleep 1000");
    let pids = pids(&mut running);
    let mut rest = String::new();
    let pipe = running.output.as_mut().expect("a pipe");
    pipe.read_to_string(&mut rest).expect("UTF-8");
    assert!(rest.is_empty() && runs(pids[0]));
    drop(running);
    assert_gone(&pids);
}

#[test]
fn limits_hold() {
    let limits = Limits {
        memory: Some(1 << 30),
        cpu_seconds: Some(100),
        file_size: Some(12_345),
        processes: Some(5_000),
        open_files: Some(50),
    };
    let (_, output, _) = ended(limited("cat /proc/self/limits", limits));
    let expect = |output: &str, name: &str, want: &str| {
        let line = output.lines().find_map(|line| line.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("no {name}: {output}"));
        let both: Vec<&str> = line.split_whitespace().take(2).collect();
        assert_eq!(both, [want; 2], "{name}");
    };
    for (name, want) in [
        ("Max core file size", "0"),
        ("Max address space", "1073741824"),
        ("Max cpu time", "100"),
        ("Max file size", "12345"),
        ("Max processes", "5000"),
        ("Max open files", "50"),
    ] {
        expect(&output, name, want);
    }
    // Without limits only core files are disabled; all other limits stay.
    let (_, output, _) = ended(start("cat /proc/self/limits"));
    expect(&output, "Max core file size", "0");
    let own = std::fs::read_to_string("/proc/self/limits").expect("Linux");
    let others = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with("Max core"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(others(&output), others(&own));
}

#[test]
fn a_program_that_uses_more_than_it_may_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let limits = Limits {
        file_size: Some(1_000),
        ..Limits::default()
    };
    let write = format!("head -c 5000 /dev/zero > {}", file.display());
    let (status, ..) = ended(limited(&write, limits));
    assert!(!status.success());
    assert_eq!(std::fs::metadata(&file).expect("a file").len(), 1_000);
    let limits = Limits {
        cpu_seconds: Some(1),
        ..Limits::default()
    };
    let (status, ..) = ended(limited("while :; do :; done", limits));
    assert!(status.signal().is_some(), "{status}");
    let limits = Limits {
        memory: Some(64 << 20),
        ..Limits::default()
    };
    // `tail` has to hold the whole line, because the line has no end.
    let keep = "head -c 100000000 /dev/zero | tail -n 1 | wc -c";
    assert_eq!(ended(start(keep)).1.trim(), "100000000");
    assert_ne!(ended(limited(keep, limits)).1.trim(), "100000000");
}

#[test]
fn what_is_not_there_is_said() {
    let missing = Launcher::new("/no/such/launcher").start(&Program::shell("exit 0"));
    let error = missing.expect_err("there is none");
    assert!(matches!(error, LaunchError::Missing { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("/no/such/launcher") && text.contains("install"),
        "{text}"
    );

    let program = Program {
        path: "/no/such/program".into(),
        arguments: Vec::new(),
        limits: Limits::default(),
    };
    let running = Launcher::new(LAUNCHER).start(&program).expect("a launcher");
    let (status, _, errors) = ended(running);
    assert_eq!(status.code(), Some(127));
    assert!(errors.contains("cannot start /no/such/program"), "{errors}");
}

#[test]
fn by_hand_it_refuses_to_start() {
    for (arguments, word) in [
        (&[][..], "not by hand"),
        (&["sh", "-c", "true"], "not by hand"),
        (
            &["beamgen-become-2", "1", "{}", "true"],
            "the guard is gone",
        ),
        (&["beamgen-become-2", "1"], "missing"),
    ] {
        let ran = Command::new(LAUNCHER)
            .args(arguments)
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(
            errors.contains(word) && errors.lines().count() == 1,
            "{errors}"
        );
    }
    // A guard starts nothing if its standard input is not a control.
    let guard = Command::new(LAUNCHER)
        .args(["beamgen-guard-2", "{}", "sh", "-c", "echo started"])
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(guard.stdout.is_empty() && !guard.status.success());
}
