//! The files that commands are told to write: every command over every kind of
//! target.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use beamgen_test_support::{Missing, skip};

use crate::run::{Place, Ran};

/// How a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All at the end, over a file that is there.
    Whole,
    /// Line by line, into a new file or a stream.
    Grows,
    /// Line by line, with a file next to it from which it is resumed.
    Kept,
}

/// Arguments with `OUT` for the output, the input that it must not be, and how it is written.
const COMMANDS: [(&str, &str, Way); 14] = [
    ("show run.jsonl --html OUT", "run.jsonl", Way::Whole),
    (
        "check steps.jsonl --checker arithmetic --out OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "check steps.jsonl --limit 1 --rejected OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "labels stat steps.jsonl --rejected OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "labels convert steps.jsonl --to trl --out OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "labels split steps.jsonl --train-out OUT --test-out test",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "labels split steps.jsonl --train-out train --test-out OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "labels judge steps.jsonl --checker arithmetic --out OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "labels chains steps.jsonl --out OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "refine steps.jsonl --limit 1 --rounds 0 --out OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "guard steps.jsonl --limit 1 --rounds 0 --samples 0 --out OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "calibrate --data steps.jsonl --out OUT",
        "steps.jsonl",
        Way::Whole,
    ),
    (
        "solve p.jsonl --config own.toml --out OUT",
        "own.toml",
        Way::Grows,
    ),
    (
        "label p.jsonl --config own.toml --chains 2 --rollouts 2 --out OUT",
        "p.jsonl",
        Way::Kept,
    ),
];

fn args(command: &str, out: &str) -> Vec<String> {
    let word = |word: &str| if word == "OUT" { out } else { word }.to_owned();
    command.split(' ').map(word).collect()
}

fn run(place: &Place, command: &str, out: &str) -> Ran {
    let args = args(command, out);
    place.run_within_a_minute(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A place with the inputs, and a run file.
fn place() -> Place {
    let place = Place::new();
    let made = |args: &[&str]| place.run(args).ok().stdout;
    place.write("p.jsonl", made(&["problems", "--count", "1"]));
    let count = ["problems", "--count", "24", "--seed", "11", "--steps"];
    place.write("steps.jsonl", made(&count));
    place.write("own.toml", "[search]\nn = 1\nm = 1\n");
    made(&[
        "solve",
        "p.jsonl",
        "-n",
        "2",
        "-m",
        "2",
        "--out",
        "run.jsonl",
    ]);
    fs::create_dir(place.path("folder")).expect("a folder");
    fs::create_dir(place.path("real")).expect("a folder");
    place
}

/// No output was left half written next to its place.
fn assert_no_litter(place: &Place, what: &str) {
    for folder in [".", "real", "folder"] {
        for entry in fs::read_dir(place.path(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            let name = name.to_string_lossy();
            assert!(!name.ends_with(".part"), "{what}: {name}");
        }
    }
}

fn fifo(place: &Place, name: &str) {
    let made = Command::new("mkfifo").arg(place.path(name)).status();
    assert!(made.expect("mkfifo runs").success());
}

#[test]
fn files_are_replaced_and_links_stay() {
    let place = place();
    symlink("real/file", place.path("link")).expect("a link");
    symlink("real/fresh", place.path("dangling")).expect("a link");
    for (command, _, way) in COMMANDS {
        let forget = |name: &str| {
            let _ = fs::remove_file(place.path(name));
        };
        let is_new = |name: &str| !["", "old"].contains(&place.read(name).as_str());
        let is_empty_by_nature = command.contains("--rejected");
        for name in [
            "fresh",
            "fresh.run",
            "dangling.run",
            "real/fresh",
            "link.run",
        ] {
            forget(name);
        }
        run(&place, command, "fresh").ok();
        assert!(is_new("fresh") || is_empty_by_nature, "{command}");
        let written = place.read("fresh");

        run(&place, command, "dangling").ok();
        assert!(place.path("dangling").is_symlink(), "{command}");
        assert!(place.path("real/fresh").is_file(), "{command}");

        place.write("real/file", "old");
        place.write("file", "old");
        for name in ["file", "link"] {
            let ran = run(&place, command, name);
            if way == Way::Whole {
                ran.ok();
                assert!(is_new(name) || is_empty_by_nature, "{command}");
                assert_eq!(place.read(name).len(), written.len(), "{command}");
            } else {
                ran.assert_refused(command, &[name, "exists already", "--out"]);
                assert_eq!(place.read(name), "old", "{command}");
            }
        }
        assert!(place.path("link").is_symlink(), "{command}");
        assert_no_litter(&place, command);
    }
}

#[test]
fn inputs_are_never_written_over() {
    let place = place();
    for (command, input, _) in COMMANDS {
        let before = place.read(input);
        let _ = fs::remove_file(place.path("hard"));
        let _ = fs::remove_file(place.path("soft"));
        fs::hard_link(place.path(input), place.path("hard")).expect("a link");
        symlink("hard", place.path("soft")).expect("a link");
        for name in [input, "hard", "soft"] {
            let ran = run(&place, command, name);
            ran.assert_refused(command, &[name, "is an input, too"]);
            assert_eq!(place.read(input), before, "{command}");
        }
        assert!(place.path("soft").is_symlink());
    }
    // What settings, checkers, formats and folders of models name.
    place.write("named.toml", "[models]\nprm_format = \"format.toml\"\n");
    place.write("format.toml", "");
    place.write("checker.py", "");
    place.copy(&crate::run::root().join("models/abacus/prm"), "model");
    let cases: &[(&[&str], &str)] = &[
        (&["--config", "named.toml"], "format.toml"),
        (&["--set", "models.prm_format=format.toml"], "format.toml"),
        (&["--prm-format", "format.toml"], "format.toml"),
        (&["--prm", "model"], "model/config.json"),
    ];
    for (more, out) in cases {
        let before = place.read(out);
        let all = ["calibrate", "--data", "steps.jsonl", "--out", out];
        place
            .run(&[&all[..], more].concat())
            .assert_refused(out, &[out, "is an input, too"]);
        assert_eq!(place.read(out), before);
    }
    let own = [
        "check",
        "steps.jsonl",
        "--checker-command",
        "python3 checker.py",
    ];
    place
        .run(&[&own[..], &["--out", "checker.py"]].concat())
        .assert_refused("a checker", &["checker.py", "is an input, too"]);
    // A model's calibration is written again.
    let own = ["calibrate", "--data", "steps.jsonl", "--prm", "model"];
    for out in [&[][..], &["--out", "model/calibration.json"]] {
        place.run(&[&own[..], out].concat()).ok();
    }
    // Two outputs, one file.
    symlink("twice", place.path("also-twice")).expect("a link");
    let twice = ["check", "steps.jsonl", "--out", "twice", "--rejected"];
    for other in ["twice", "./twice", "also-twice"] {
        place
            .run(&[&twice[..], &[other]].concat())
            .assert_refused(other, &[other, "same file"]);
    }
    assert!(!place.path("twice").exists());
}

#[test]
fn stdout_is_not_appended_to_an_input() {
    let place = place();
    let before = place.read("run.jsonl");
    let appending = fs::OpenOptions::new()
        .append(true)
        .open(place.path("run.jsonl"));
    let ran = place
        .command(&["show", "run.jsonl"])
        .stdout(appending.expect("a file"))
        .output();
    let ran = ran.expect("the binary starts");
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("an input, too"));
    assert_eq!(place.read("run.jsonl"), before);
}

#[test]
fn pipes_are_written_through_and_never_waited_for() {
    let place = place();
    fifo(&place, "fifo");
    for (command, _, way) in COMMANDS {
        let word = match way {
            Way::Kept => "exists already",
            _ => "nobody reads",
        };
        run(&place, command, "fifo").assert_refused(command, &["fifo", word]);
        if way != Way::Kept {
            let path = place.path("fifo");
            let reader = std::thread::spawn(move || fs::read(path).expect("read"));
            let ran = loop {
                let ran = run(&place, command, "fifo");
                // The reader may not have come yet.
                if !ran.stderr.contains("nobody reads") {
                    break ran;
                }
            };
            ran.ok();
            let read = reader.join().expect("no panic");
            assert!(
                !read.is_empty() || command.contains("--rejected"),
                "{command}"
            );
            // The pipe of stdout itself.
            let args = args(command, "/dev/stdout");
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let ran = place.run(&args).ok();
            assert!(ran.stdout.len() >= read.len(), "{command}");
        }
        let kind = fs::symlink_metadata(place.path("fifo")).expect("it stays");
        assert!(kind.file_type().is_fifo(), "{command}");
        assert_no_litter(&place, command);
    }
    // Stdout that is a file is written on, not replaced.
    let log = fs::File::create(place.path("log")).expect("a file");
    let mut command = place.command(&["check", "steps.jsonl", "--json", "--out", "/dev/stdout"]);
    let status = command.stdout(log).status().expect("the binary starts");
    assert!(status.success());
    let text = place.read("log");
    assert!(
        text.starts_with("{\"file\":\"steps.jsonl\",\"id\":"),
        "{text}"
    );
    assert!(text.ends_with("\"false_fails\":[]}\n"), "{text}");
}

#[test]
fn sockets_folders_and_missing_folders_are_refused() {
    let place = place();
    let _socket = UnixListener::bind(place.path("socket")).expect("a socket");
    place.write("file", "");
    for (command, _, way) in COMMANDS {
        let cases = [
            ("socket", "is a socket", way != Way::Kept),
            ("folder", "is a folder", way != Way::Kept),
            ("none/x", "No such file", true),
            ("file/x", "Not a directory", true),
        ];
        for (out, words, is_told) in cases {
            let words = if is_told { words } else { "exists already" };
            run(&place, command, out).assert_refused(command, &[out, words]);
        }
        let kind = fs::symlink_metadata(place.path("socket")).expect("it stays");
        assert!(kind.file_type().is_socket(), "{command}");
    }
}

/// Makes a device node; `false` where that needs a right that this user lacks.
fn node(place: &Place, name: &str, numbers: [&str; 3]) -> bool {
    let path = place.path(name);
    let made = Command::new("mknod").arg(&path).args(numbers).output();
    made.is_ok_and(|made| made.status.success())
        && (numbers[0] == "b" || fs::OpenOptions::new().write(true).open(&path).is_ok())
}

#[test]
fn devices_are_written_through_or_refused_and_stay() {
    let place = place();
    let nodes = [
        ("null", ["c", "1", "3"]),
        ("full", ["c", "1", "7"]),
        ("block", ["b", "7", "250"]),
    ];
    if !nodes
        .iter()
        .all(|&(name, numbers)| node(&place, name, numbers))
    {
        skip(Missing::Right, "this user may not make device nodes");
        return;
    }
    for (command, _, way) in COMMANDS {
        if way == Way::Kept {
            for (name, _) in nodes {
                run(&place, command, name).assert_refused(command, &[name, "exists already"]);
            }
        } else {
            run(&place, command, "null").ok();
            run(&place, command, "block").assert_refused(command, &["block", "block device"]);
            if !command.contains("--rejected") {
                assert_failed(&run(&place, command, "full"), command, "full", "No space");
            }
        }
        for (name, _) in nodes {
            let kind = fs::symlink_metadata(place.path(name)).expect("it stays");
            let kind = kind.file_type();
            assert!(kind.is_char_device() || kind.is_block_device(), "{command}");
        }
    }
}

/// One line that names the file, and the exit code of a run that failed.
#[track_caller]
fn assert_failed(ran: &Ran, command: &str, name: &str, reason: &str) {
    assert_eq!(ran.code, Some(1), "{command}: {}", ran.stderr);
    let last = ran.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("beamgen: "), "{command}: {last}");
    assert!(last.contains(name), "{command}: {last}");
    assert!(last.contains(reason), "{command}: {last}");
    assert!(
        !ran.stderr.contains("panicked"),
        "{command}: {}",
        ran.stderr
    );
}

/// Runs the binary with a limit on the size of files, in blocks of 512 or 1,024 bytes.
fn limited(place: &Place, blocks: u32, args: &[String]) -> Ran {
    let given = place.command(&[]);
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("ulimit -f {blocks}; exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_beamgen"))
        .args(args)
        .current_dir(place.path("."))
        .stdin(Stdio::null());
    for (name, value) in given.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().expect("a shell starts");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_told_in_one_line_and_spares_the_old_file() {
    let place = place();
    for (command, _, way) in COMMANDS {
        // Nothing is rejected; and of two outputs the first one fails.
        if command.contains("--rejected") || command.contains("--train-out train") {
            continue;
        }
        let old = (way == Way::Whole).then_some("old");
        match old {
            Some(old) => drop(place.write("out", old)),
            None => drop(fs::remove_file(place.path("out"))),
        }
        let ran = limited(&place, 0, &args(command, "out"));
        assert_failed(&ran, command, "out", "File too large");
        let there = fs::read_to_string(place.path("out")).ok();
        assert_eq!(there.as_deref(), old, "{command}");
        assert!(!place.path("out.run").exists(), "{command}");
        assert_no_litter(&place, command);
    }
}

#[test]
fn full_and_read_only_disks_are_told_in_one_line() {
    struct Unmounted<'a>(&'a Path);
    impl Drop for Unmounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.0).status();
        }
    }
    let place = place();
    let disk = place.path("folder");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
        .arg(&disk)
        .output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        skip(Missing::Right, "this user may not mount a disk");
        return;
    }
    let _unmounted = Unmounted(&disk);
    place.write("folder/ballast", vec![b'x'; 12 << 10]);
    let whole = COMMANDS.iter().filter(|(command, _, way)| {
        *way == Way::Whole && (command.contains("--html") || command.contains("judge"))
    });
    for (command, ..) in whole.clone() {
        place.write("folder/out", "old");
        let ran = run(&place, command, "folder/out");
        assert_failed(&ran, command, "folder/out", "No space left");
        assert_eq!(place.read("folder/out"), "old");
        assert_no_litter(&place, command);
    }
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&disk)
        .status();
    assert!(remounted.expect("mount runs").success());
    for (command, ..) in COMMANDS {
        for name in ["folder/out", "folder/new"] {
            if name == "folder/out" && !command.contains("--html") {
                continue;
            }
            assert_failed(&run(&place, command, name), command, name, "Read-only");
        }
    }
    assert_eq!(place.read("folder/out"), "old");
}

/// Commands that fill a folder.
const FOLDERS: [(&str, &str); 3] = [
    (
        "bench p.jsonl --strategies single --n 1 --out OUT",
        "rows.jsonl",
    ),
    ("eval-prm --data steps.jsonl --report OUT", "rows.jsonl"),
    (
        "bench --pool steps.jsonl --scorers none --out OUT",
        "rows.jsonl",
    ),
];

#[test]
fn only_folders_of_ones_own_are_filled() {
    let place = place();
    place.write("foreign/letter.txt", "dear");
    place.write("file", "");
    fifo(&place, "fifo");
    for (at, (command, mark)) in FOLDERS.into_iter().enumerate() {
        let words = &["foreign", mark, "empty or a new folder"];
        run(&place, command, "foreign").assert_refused(command, words);
        for name in ["file", "fifo"] {
            run(&place, command, name).assert_refused(command, &[name, "Not a directory"]);
        }
        let (empty, link) = (format!("empty{at}"), format!("link{at}"));
        fs::create_dir(place.path(&empty)).expect("a folder");
        symlink(format!("real/deep{at}"), place.path(&link)).expect("a link");
        for name in [&empty, &link] {
            run(&place, command, name).ok();
            assert!(place.path(name).join(mark).is_file(), "{command}");
            assert_eq!(place.path(name).is_symlink(), name == &link);
            run(&place, command, name).assert_refused(command, &[mark, "already"]);
        }
    }
    let names: Vec<_> = fs::read_dir(place.path("foreign"))
        .expect("a folder")
        .collect();
    assert_eq!(names.len(), 1);
    assert_no_litter(&place, "folders");
}

#[test]
fn an_argument_that_is_no_text_loses_no_report() {
    let place = place();
    let name = OsStr::from_bytes(b"\xff\xfe.jsonl");
    fs::copy(place.path("p.jsonl"), place.path(".").join(name)).expect("a copy");
    let mut command = place.command(&["bench", "--strategies", "single", "--n", "1"]);
    let output = command.arg(name).args(["--out", "b"]).output();
    let output = output.expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(place.read("b/README.md").contains(".jsonl"), "a report");
    // A model's name stands in the results; what they could not say is refused before the work.
    let mut command = place.command(&["bench", "p.jsonl", "--strategies", "single", "--generator"]);
    let output = command.arg(name).args(["--out", "c"]).output();
    let output = output.expect("the binary starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not UTF-8"));
    assert!(!place.path("c").exists());
}

#[test]
fn a_check_that_is_interrupted_leaves_nothing() {
    let place = place();
    place.write("slow.sh", "sleep 5\n");
    let check = ["check", "steps.jsonl", "--checker-command", "sh slow.sh"];
    let mut child = place
        .command(&[&check[..], &["--out", "verdicts.jsonl"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    std::thread::sleep(Duration::from_secs(1));
    let killed = Instant::now();
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    assert!(killed.elapsed() < Duration::from_secs(5));
    assert!(!place.path("verdicts.jsonl").exists());
    assert_no_litter(&place, "check");
}

#[cfg(feature = "train")]
#[test]
fn a_training_that_cannot_write_its_settings_can_be_begun_again() {
    const GENERATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/abacus/generator");
    let place = place();
    let line = "{\"problem\": \"1 + 1?\", \"solution\": \"2\"}\n";
    place.write("data.jsonl", line.repeat(4));
    place.write("foreign/letter.txt", "dear");
    let train = format!(
        "train sft --from {GENERATOR} --data data.jsonl --held-out 0 --train top=1 --stop-after 1 --out OUT"
    );
    let ran = limited(&place, 0, &args(&train, "o"));
    assert_failed(&ran, "train", "o/work/run.json", "File too large");
    assert!(!place.path("o/work/run.json").exists());
    run(&place, &train, "o").ok();
    run(&place, &train, "foreign").assert_refused("train", &["foreign", "work", "new folder"]);
    let own = train.replace(GENERATOR, "model");
    place.copy(Path::new(GENERATOR), "model");
    run(&place, &own, "model").assert_refused("train", &["model", "is an input, too"]);
}
