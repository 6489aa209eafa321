//! Hostile programs in a sandbox: started by root and by an ordinary user, with every layer and
//! without some. The tests look from outside at whether anything was reached.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use beamgen_launcher::{Captured, Ended, LaunchError, Launcher, Protection, Sandbox};
use beamgen_test_support::{Missing, python, skip};
use rustix::process::geteuid;

const LAUNCHER: &str = env!("CARGO_BIN_EXE_beamgen-launcher");

/// The content of the file that no program may read.
const SECRET: &str = "the-reference-answer-is-41";

/// The value of a variable in the environment of the process that starts the sandbox.
const KEY: &str = "the-key-of-the-owner";

const NOBODY: u32 = 65534;

/// Users without a name. Their processes are not counted together with those of nobody.
const SOMEBODY: u32 = 65533;
const ANOTHER: u32 = 65532;

/// A system and a user.
struct Setting {
    /// The user who starts the sandbox: root or not.
    root: bool,
    /// The user of the program if this test may change users.
    user: u32,
    /// Things that the system lacks, as `without.py` knows them.
    lacking: &'static [&'static str],
    /// The layers that the sandbox then has, without the version of Landlock.
    layers: &'static [&'static str],
}

/// A world around a sandbox: a secret, a folder, a process and a server.
struct World {
    python: String,
    root: tempfile::TempDir,
    starter: String,
    lacking: &'static [&'static str],
    victim: Child,
    server: TcpListener,
    before: (u32, i64, u64),
}

/// Returns a Python that every user can start; `None` after a skip.
fn everybodys_python() -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let system = ["/usr/bin/python3", "/usr/local/bin/python3"];
            let found = system.into_iter().find(|path| Path::new(path).is_file());
            // That of a user may lie in a folder which others may not enter.
            found.map(str::to_owned).or_else(|| python(""))
        })
        .clone()
}

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o777)).expect("rights");
}

impl World {
    /// Returns `None` after a skip.
    fn new(setting: &Setting) -> Option<Self> {
        let python = everybodys_python()?;
        let changes_user = geteuid().is_root();
        if setting.root && !changes_user {
            skip(Missing::Right, "only root starts programs as root");
            return None;
        }
        let root = tempfile::tempdir().expect("a folder");
        open_to_all(root.path());
        let place = |name: &str| root.path().join(name);
        for name in ["outside", "temporary", "hostile"] {
            fs::create_dir(place(name)).expect("a folder");
            open_to_all(&place(name));
        }
        for entry in fs::read_dir(path_of("hostile")).expect("programs") {
            let path = entry.expect("a file").path();
            let name = path.file_name().expect("a name");
            fs::copy(&path, place("hostile").join(name)).expect("a copy");
        }
        fs::copy(path_of("without.py"), place("without.py")).expect("a copy");
        fs::copy(LAUNCHER, place("launcher")).expect("a copy");
        fs::write(place("secret"), SECRET).expect("a file");
        let user = changes_user.then_some(setting.user);
        if let Some(user) = user {
            // The rights of files alone would let the program read and write it.
            chown(place("secret"), Some(user), Some(user)).expect("a file");
            chown(place("outside"), Some(user), Some(user)).expect("a folder");
        }
        let starter = user.filter(|_| !setting.root);
        let starter = starter.map_or("-".to_owned(), |user| user.to_string());
        let own = user.map_or("-".to_owned(), |user| user.to_string());
        let victim = Command::new(&python)
            .arg(place("without.py"))
            .args([&own, "--", "/bin/sleep", "1000"])
            .stdin(Stdio::null())
            // A signal to its group must not reach those of other tests.
            .process_group(0)
            .spawn()
            .expect("a process");
        // Before it has changed its user, no program could reach it.
        let name = format!("/proc/{}/comm", victim.id());
        let started = Instant::now();
        while fs::read_to_string(&name).is_ok_and(|name| name != "sleep\n") {
            assert!(started.elapsed() < Duration::from_secs(30), "it hangs");
            std::thread::sleep(Duration::from_millis(5));
        }
        let server = TcpListener::bind("127.0.0.1:0").expect("a server");
        server.set_nonblocking(true).expect("a server");
        let before = state(&place("secret"));
        Some(Self {
            python,
            root,
            starter,
            lacking: setting.lacking,
            victim,
            server,
            before,
        })
    }

    fn place(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Runs a hostile program with these options of the command `sandbox`.
    fn run(&self, name: &str, options: &[&str]) -> Output {
        let program = self.place("hostile").join(format!("{name}.py"));
        let port = self.server.local_addr().expect("an address").port();
        let mut command = self.sandbox(options);
        command
            .arg("--read")
            .arg(&program)
            .args(["--", &self.python])
            .arg(&program)
            .args([self.place("secret"), self.place("outside")])
            .args([self.victim.id().to_string(), port.to_string()]);
        command.output().expect("it starts")
    }

    /// Returns the command up to the options of `sandbox`.
    fn sandbox(&self, options: &[&str]) -> Command {
        let mut command = Command::new(&self.python);
        command
            .arg(self.place("without.py"))
            .arg(&self.starter)
            .args(self.lacking)
            .arg("--")
            .arg(self.place("launcher"))
            .args(["sandbox", "--show-layers", "--wall", "20"])
            .args(options)
            .env("TMPDIR", self.place("temporary"))
            .env("BEAMGEN_TEST_KEY", KEY)
            .current_dir("/")
            .stdin(Stdio::null());
        command
    }

    /// Returns the layers that a sandbox of this setting must have. Those that this machine lacks are
    /// reported as skipped; `None` if it can make no sandbox without them.
    fn layers(&self, setting: &Setting) -> Option<Vec<&'static str>> {
        let mut command = self.sandbox(&[]);
        let output = command.args(["--", "true"]).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let (had, lacking): (Vec<&str>, Vec<&str>) = setting
            .layers
            .iter()
            .partition(|layer| errors.contains(**layer));
        if !lacking.is_empty() {
            skip(
                Missing::Right,
                format_args!("no {lacking:?} here: {}", errors.trim()),
            );
        }
        output.status.success().then_some(had)
    }

    /// Returns everything that a program reached: an empty list is the aim.
    fn harm(&mut self, output: &Output) -> Vec<String> {
        let mut harm = Vec::new();
        let text = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        for (word, what) in [(SECRET, "read the secret"), (KEY, "read the key")] {
            harm.extend(text.contains(word).then(|| what.to_owned()));
        }
        let secret = fs::read_to_string(self.place("secret")).unwrap_or_default();
        if secret != SECRET || state(&self.place("secret")) != self.before {
            harm.push("changed the secret".to_owned());
        }
        for folder in ["outside", "temporary"] {
            for entry in fs::read_dir(self.place(folder)).expect("a folder") {
                harm.push(format!("left {:?}", entry.expect("an entry").file_name()));
            }
        }
        let mode = fs::metadata(self.place("outside"))
            .expect("a folder")
            .mode();
        if mode & 0o777 != 0o777 {
            harm.push("changed the folder".to_owned());
        }
        match self.server.accept().map_err(|error| error.kind()) {
            Err(ErrorKind::WouldBlock) => {}
            _ => harm.push("called the server".to_owned()),
        }
        if self.victim.try_wait().expect("a child").is_some() {
            harm.push("ended the other process".to_owned());
        }
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.victim.id()));
        let limits = limits.unwrap_or_default();
        let lowered = limits
            .lines()
            .any(|line| line.starts_with("Max open files") && line.contains(" 5 "));
        harm.extend(lowered.then(|| "lowered a limit".to_owned()));
        harm.extend(self.left().iter().map(|pid| format!("left process {pid}")));
        harm
    }

    /// Returns the processes of hostile programs that run on.
    fn left(&self) -> BTreeSet<u32> {
        let mark = self.place("hostile").display().to_string();
        // A killed process takes a moment to go.
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            let processes = fs::read_dir("/proc").expect("Linux").flatten();
            let left: BTreeSet<u32> = processes
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .filter(|pid| {
                    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                    String::from_utf8_lossy(&line).contains(&mark)
                })
                .collect();
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        for pid in self.left() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

/// Returns the rights, the time and the length of a file.
fn state(path: &Path) -> (u32, i64, u64) {
    fs::metadata(path).map_or((0, 0, 0), |file| (file.mode(), file.mtime(), file.len()))
}

/// A hostile program: its name, options for its sandbox, the exit code and words that must or must
/// not (after a `-`) be in its output.
type Case = (
    &'static str,
    &'static [&'static str],
    &'static [i32],
    &'static [&'static str],
);

const CASES: &[Case] = &[
    (
        "read_reference",
        &[],
        &[0],
        &["No such file|Permission denied"],
    ),
    ("write_outside", &[], &[0], &["-wrote"]),
    (
        "symlink_out",
        &[],
        &[0],
        &["Permission denied|No such file|cross-device"],
    ),
    ("change_modes", &[], &[0], &["-changed"]),
    ("signal_others", &[], &[0], &["-sent"]),
    ("signal_by_file", &[], &[0], &[]),
    ("sockets", &[], &[0], &["has a pair", "-connected"]),
    // Where processes of the same user elsewhere count, the first fork may fail.
    ("fork_bomb", &["--wall", "2"], &[124], &[]),
    ("daemon", &[], &[0, 1], &[]),
    ("memory", &[], &[0], &["refused after", "-took"]),
    (
        "hidden_memory",
        &[],
        &[0],
        &["refused a file", "refused a segment", "-took"],
    ),
    ("many_files", &[], &[0], &[]),
    ("large_file", &[], &[121], &["limit on file size", "-wrote"]),
    (
        "output",
        &["--output", "100000"],
        &[123],
        &["limit on output"],
    ),
    ("sleep", &["--wall", "1"], &[124], &["limit on wall clock"]),
    ("spin", &["--cpu", "1"], &[122], &["limit on CPU time"]),
    ("spin_on", &["--cpu", "1"], &[128 + 9], &[]),
    ("proc_parent", &[], &[0], &["-environ b"]),
    ("trace", &[], &[0], &["-attached", "-read"]),
    ("namespaces", &[], &[0], &["failed", "-succeeded"]),
    ("inherited", &[], &[0], &[]),
    ("limits_of_others", &[], &[0], &["-lowered"]),
    ("deep_folders", &[], &[0], &["made"]),
    ("many_threads", &[], &[0], &["-200"]),
];

/// Runs every hostile program in a setting.
fn contain(setting: &Setting) {
    let Some(mut world) = World::new(setting) else {
        return;
    };
    let Some(layers) = world.layers(setting) else {
        return;
    };
    let has_mounts = layers.contains(&"mounts");
    for (name, options, codes, words) in CASES {
        let output = world.run(name, options);
        let harm = world.harm(&output);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let end = format!("{text:.2000}\n{errors:.2000}");
        assert!(harm.is_empty(), "{name}: {harm:?}: {end}");
        let code = output.status.code().unwrap_or(-1);
        assert!(codes.contains(&code), "{name}: {code}: {end}");
        for word in *words {
            let (wanted, word) = match word.strip_prefix('-') {
                Some(word) => (false, word),
                None => (true, *word),
            };
            let mut others = word.split('|');
            let found = others.any(|word| text.contains(word) || errors.contains(word));
            assert_eq!(found, wanted, "{name}: {word}: {end}");
        }
        if *name == "output" {
            // Standard error ends with the sandbox's own line.
            let own = errors.rfind("beamgen-launcher:").expect("a line");
            assert_eq!(output.stdout.len() + own, 100_000);
        }
        if *name == "many_files" && has_mounts {
            let written: u64 = text
                .lines()
                .next_back()
                .and_then(|line| line.parse().ok())
                .expect("a number");
            assert!(written <= 64, "{text}");
        }
        // A program that is killed at the start writes no report.
        if let Some((_, shown)) = errors.rsplit_once("layers: ") {
            let shown: Vec<&str> = shown.split([',', ';', '\n']).map(str::trim).collect();
            for layer in &layers {
                let found = shown.iter().any(|name| name.starts_with(layer));
                assert!(found, "{name}: no {layer} in {shown:?}");
            }
            for layer in setting.lacking {
                let found = shown.iter().any(|name| name.starts_with(layer));
                assert!(!found, "{name}: {layer} in {shown:?}");
            }
        } else {
            panic!("{name}: no layers in {errors}");
        }
    }
}

#[test]
fn hostile_programs_of_root_are_contained() {
    contain(&Setting {
        root: true,
        user: NOBODY,
        lacking: &[],
        layers: &["namespaces", "mounts", "nobody", "landlock", "seccomp"],
    });
}

#[test]
fn hostile_programs_of_nobody_are_contained() {
    contain(&Setting {
        root: false,
        user: NOBODY,
        lacking: &[],
        layers: &["namespaces", "mounts", "landlock", "seccomp"],
    });
}

#[test]
fn hostile_programs_are_contained_without_namespaces() {
    contain(&Setting {
        root: false,
        user: SOMEBODY,
        lacking: &["namespaces"],
        layers: &["landlock", "seccomp"],
    });
}

#[test]
fn hostile_programs_of_root_are_contained_without_namespaces() {
    contain(&Setting {
        root: true,
        user: NOBODY,
        lacking: &["namespaces"],
        layers: &["nobody", "landlock", "seccomp"],
    });
}

#[test]
fn hostile_programs_are_contained_without_landlock() {
    contain(&Setting {
        root: false,
        user: NOBODY,
        lacking: &["landlock"],
        layers: &["namespaces", "mounts", "seccomp"],
    });
}

#[test]
fn hostile_programs_are_contained_without_mounts() {
    contain(&Setting {
        root: false,
        user: NOBODY,
        lacking: &["mounts"],
        layers: &["namespaces", "landlock", "seccomp"],
    });
}

#[test]
fn a_system_without_the_layers_is_refused() {
    for (lacking, word) in [
        (&["namespaces", "landlock"][..], "files are open"),
        (&["seccomp"], "other processes are open"),
        (&["mounts", "landlock"], "files are open"),
    ] {
        let setting = Setting {
            root: false,
            user: NOBODY,
            lacking,
            layers: &[],
        };
        let Some(mut world) = World::new(&setting) else {
            return;
        };
        let output = world.run("daemon", &[]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{errors}");
        assert!(
            errors.contains(word) && errors.contains("--sandbox none"),
            "{errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(output.stdout.is_empty() && world.harm(&output).is_empty());
        let open = world.run("read_reference", &["--sandbox", "none"]);
        assert_eq!(open.status.code(), Some(0));
    }
}

#[test]
fn the_harm_is_seen_where_there_is_no_sandbox() {
    let setting = Setting {
        root: false,
        user: ANOTHER,
        lacking: &[],
        layers: &[],
    };
    for (name, expected) in [
        ("read_reference", "read the secret"),
        ("proc_parent", "read the key"),
        ("write_outside", "changed the secret"),
        ("symlink_out", "left \"new\""),
        ("change_modes", "changed the secret"),
        ("sockets", "called the server"),
        ("signal_others", "ended the other process"),
        ("signal_by_file", "ended the other process"),
        ("limits_of_others", "lowered a limit"),
        ("daemon", "left process"),
    ] {
        let Some(mut world) = World::new(&setting) else {
            return;
        };
        // Processes of the same user count there.
        let output = world.run(name, &["--sandbox", "none", "--processes", "100000"]);
        // A signal takes a moment to end a process.
        let started = Instant::now();
        let mut harm = Vec::new();
        let mut found = false;
        while !found && started.elapsed() < Duration::from_secs(5) {
            harm = world.harm(&output);
            found = harm.iter().any(|harm| harm.starts_with(expected));
        }
        assert!(
            found,
            "{name}: {harm:?}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
fn files_that_were_left_open_are_closed() {
    let setting = Setting {
        root: false,
        user: NOBODY,
        lacking: &[],
        layers: &[],
    };
    let Some(mut world) = World::new(&setting) else {
        return;
    };
    for protection in ["full", "none"] {
        // The shell hands its descriptor 9 over.
        let program = world.place("hostile").join("inherited.py");
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$@\" 9<\"$0\""])
            .arg(world.place("secret"));
        command.arg(world.place("launcher"));
        command
            .args(["sandbox", "--sandbox", protection, "--read"])
            .arg(&program);
        command.args(["--", &world.python]).arg(&program);
        let output = command.env("TMPDIR", world.place("temporary")).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(0));
        let harm = world.harm(&output);
        assert!(harm.is_empty(), "{harm:?}");
    }
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$@\" 9<\"$0\""])
        .arg(world.place("secret"));
    command
        .args([&world.python])
        .arg(world.place("hostile").join("inherited.py"));
    let output = command.output().expect("it starts");
    assert_eq!(world.harm(&output), ["read the secret"]);
}

fn capture(sandbox: &Sandbox, words: &[&str], input: &str) -> Result<Captured, LaunchError> {
    let arguments: Vec<_> = words[1..].iter().map(|word| (*word).into()).collect();
    sandbox.capture(Path::new(words[0]), &arguments, input.as_bytes().to_vec())
}

fn sandbox() -> Sandbox {
    Sandbox {
        launcher: Launcher::new(LAUNCHER),
        ..Sandbox::default()
    }
}

#[test]
fn a_program_has_its_streams_its_folder_and_its_code() {
    let script =
        "cat; echo well >&2; touch file && ls; pwd; echo $HOME $TMPDIR; env | wc -l; exit 7";
    let ran = capture(&sandbox(), &["sh", "-c", script], "to and fro\n").expect("it runs");
    let output = String::from_utf8(ran.output).expect("UTF-8");
    let lines: Vec<&str> = output.lines().collect();
    let ["to and fro", "file", scratch, both, variables] = lines[..] else {
        panic!("{output}");
    };
    assert_eq!(both, format!("{scratch} {scratch}"));
    // PATH, LANG, HOME, TMPDIR and what the shell adds
    assert!(variables.parse::<u32>().expect("a number") <= 8, "{output}");
    assert_eq!(ran.errors, b"well\n");
    assert_eq!(ran.ended, Ended::Exited(7));
    assert!(!Path::new(scratch).exists() && !ran.layers.is_empty());
}

#[test]
fn ends_are_told_apart() {
    let ended = |sandbox: &Sandbox, script: &str| {
        let ran = capture(sandbox, &["sh", "-c", script], "");
        ran.expect("it runs").ended
    };
    let usual = sandbox();
    assert_eq!(ended(&usual, "exit 0"), Ended::Exited(0));
    assert_eq!(ended(&usual, "exit 124"), Ended::Exited(124));
    assert_eq!(ended(&usual, "kill -9 $$"), Ended::Signal(9));
    let mut short = sandbox();
    short.wall = Duration::from_millis(300);
    let started = Instant::now();
    assert_eq!(ended(&short, "sleep 100 & sleep 100"), Ended::WallClock);
    assert_eq!(ended(&short, "exec >&- 2>&-; sleep 100"), Ended::WallClock);
    assert!(started.elapsed() < Duration::from_secs(10));
    let mut quiet = sandbox();
    quiet.output = 3;
    assert_eq!(ended(&quiet, "echo ab"), Ended::Exited(0));
    assert_eq!(ended(&quiet, "echo abc"), Ended::Output);
    // Processes that hold the streams end with the program.
    assert_eq!(ended(&usual, "sleep 100 & exit 3"), Ended::Exited(3));
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    for (program, word, code) in [
        ("/no/such/program", "cannot start /no/such/program", 127),
        ("no-such-program", "cannot start no-such-program", 127),
        ("/etc/passwd", "cannot start /etc/passwd", 126),
    ] {
        let error = capture(&sandbox(), &[program], "").expect_err(program);
        let text = error.to_string();
        assert!(text.contains(word) && text.lines().count() == 1, "{text}");
        assert_eq!(error.exit_code(), code, "{text}");
    }
    // The limit on files does not hide the reason.
    let mut small = sandbox();
    small.limits.file_size = Some(1);
    let error = capture(&small, &["/etc/passwd"], "").expect_err("no program");
    assert_eq!(error.exit_code(), 126, "{error}");
    let mut missing = sandbox();
    missing.readable.push("/no/such/folder".into());
    let error = capture(&missing, &["sh"], "").expect_err("there is none");
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    let mut nowhere = sandbox();
    nowhere.launcher = Launcher::new("/no/such/launcher");
    let error = capture(&nowhere, &["sh"], "").expect_err("there is none");
    assert!(matches!(error, LaunchError::Missing { .. }), "{error}");
}

#[test]
fn folders_are_readable_if_they_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    open_to_all(folder.path());
    let file = folder.path().join("given file");
    fs::write(&file, "given").expect("a file");
    let name = file.display().to_string();
    let closed = capture(&sandbox(), &["cat", &name], "").expect("it runs");
    assert!(closed.output.is_empty() && closed.ended != Ended::Exited(0));
    for readable in [folder.path(), &file] {
        let mut open = sandbox();
        open.readable.push(readable.to_owned());
        let ran = capture(&open, &["cat", &name], "").expect("it runs");
        assert_eq!(ran.output, b"given", "{ran:?}");
        let write = format!("echo x > '{name}'");
        let ran = capture(&open, &["sh", "-c", &write], "").expect("it runs");
        assert_ne!(ran.ended, Ended::Exited(0));
    }
    assert_eq!(fs::read_to_string(&file).expect("a file"), "given");
}

#[test]
fn a_program_ends_with_the_process_that_wants_it() {
    let mark = format!("1000.{}", std::process::id());
    // The folder of a run stays if its owner is killed.
    let folder = tempfile::tempdir().expect("a folder");
    let mut owner = Command::new(LAUNCHER)
        .args([
            "sandbox",
            "--",
            "sh",
            "-c",
            "echo started; sleep $0 & setsid sleep $0",
            &mark,
        ])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = [0; 8];
    let mut pipe = owner.stdout.take().expect("a pipe");
    pipe.read_exact(&mut line).expect("it starts");
    owner.kill().expect("it runs");
    owner.wait().expect("a child");
    let running = || {
        let processes = fs::read_dir("/proc").expect("Linux").flatten();
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let mut lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        lines.any(|line| line.contains(&mark))
    };
    let started = Instant::now();
    while running() {
        assert!(started.elapsed() < Duration::from_secs(20), "it runs on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn many_sandboxes_run_at_once() {
    let ran: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn(move || {
                    let script = format!("(echo {number}); (echo {number})");
                    capture(&sandbox(), &["sh", "-c", &script], "").expect("it runs")
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    for (number, ran) in ran.into_iter().enumerate() {
        assert_eq!(ran.output, format!("{number}\n{number}\n").into_bytes());
        assert_eq!(ran.ended, Ended::Exited(0));
    }
}

#[test]
fn without_protection_only_limits_hold() {
    let mut open = sandbox();
    open.protection = Protection::None;
    let ran = capture(&open, &["cat", "/etc/passwd"], "").expect("it runs");
    assert!(!ran.output.is_empty() && ran.layers.is_empty());
    open.wall = Duration::from_millis(200);
    let ran = capture(&open, &["sleep", "100"], "").expect("it runs");
    assert_eq!(ran.ended, Ended::WallClock);
}
