//! Running the real binary in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A temporary folder in which the binary runs.
pub(crate) struct Place {
    dir: TempDir,
}

/// The exit code and the output of a finished run.
pub(crate) struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            dir: TempDir::new().expect("a temporary folder"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    /// A copy of a folder's files, which a test may damage.
    pub(crate) fn copy(&self, from: &Path, name: &str) -> PathBuf {
        for entry in std::fs::read_dir(from).expect("a folder to copy") {
            let path = entry.expect("an entry").path();
            let file = path.file_name().and_then(|f| f.to_str()).expect("a name");
            self.write(
                &format!("{name}/{file}"),
                std::fs::read(&path).expect("a file to copy"),
            );
        }
        self.path(name)
    }

    /// Changes a JSON file.
    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut value: Value = serde_json::from_str(&self.read(name)).expect("JSON");
        edit(&mut value);
        self.write(name, value.to_string());
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file")
    }

    /// The binary, with nothing of this process's environment that could change what it does: no
    /// hub, and an empty cache.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_beamgen"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command.env_remove("NO_COLOR").env_remove("RUST_BACKTRACE");
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let is_ours = ["HF_", "HUGGING", "SSL_CERT", "REQUESTS_CA"]
                .iter()
                .any(|start| text.starts_with(start));
            let is_proxy = text.to_uppercase().ends_with("_PROXY");
            if is_ours || is_proxy || text.contains("OFFLINE") {
                command.env_remove(name);
            }
        }
        command
            .env("HF_HOME", self.path("hf"))
            .env("HF_HUB_OFFLINE", "1")
            // What is expected is the processor's, also on a machine with a card.
            .env("CUDA_VISIBLE_DEVICES", "");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().expect("the binary starts"))
    }

    /// The binary, killed if it has not ended after a minute.
    pub(crate) fn run_within_a_minute(&self, args: &[&str]) -> Ran {
        let streams = [self.path(".stdout"), self.path(".stderr")];
        let [stdout, stderr] = streams
            .each_ref()
            .map(|path| std::fs::File::create(path).expect("a file"));
        let mut command = self.command(args);
        let mut child = command
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("the binary starts");
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("the binary is ours") {
                break status;
            }
            if started.elapsed() > Duration::from_secs(60) {
                child.kill().expect("the binary is ours");
                child.wait().expect("the binary ends");
                panic!("{args:?} has not ended after a minute");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let [stdout, stderr] = streams.map(|path| std::fs::read(path).expect("a file"));
        Ran::of(Output {
            status,
            stdout,
            stderr,
        })
    }

    /// With environment variables.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Ran {
        let mut command = self.command(args);
        Ran::of(
            command
                .envs(variables.iter().copied())
                .output()
                .expect("the binary starts"),
        )
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        use std::io::Write;
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // A refused call closes its end early; what it says then is in the output.
        let _ = child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(input.as_bytes());
        Ran::of(child.wait_with_output().expect("the binary ends"))
    }

    /// The binary with signals as at a terminal: what `nohup` started ignores some.
    pub(crate) fn listening(&self, args: &[&str]) -> Command {
        let inner = self.command(args);
        let mut command = Command::new("env");
        command
            .arg("--default-signal")
            .arg(inner.get_program())
            .args(inner.get_args())
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Runs the binary and sends it a signal once `file` has so many lines.
    pub(crate) fn interrupted(
        &self,
        signal: Signal,
        args: &[&str],
        file: &str,
        lines: usize,
    ) -> Ran {
        let mut child = self
            .listening(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let path = self.path(file);
        while std::fs::read_to_string(&path).map_or(0, |text| text.lines().count()) < lines {
            let ended = child.try_wait().expect("a child");
            assert!(ended.is_none(), "it ended before it could be interrupted");
            std::thread::sleep(Duration::from_millis(1));
        }
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        Ran::of(child.wait_with_output().expect("it ends"))
    }
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8 on stdout"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8 on stderr"),
        }
    }

    /// The run went well.
    pub(crate) fn ok(self) -> Self {
        assert_eq!(
            self.code,
            Some(0),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// The JSON lines on stdout.
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// One clear line on stderr, exit code 2, no panic.
    pub(crate) fn assert_refused(&self, name: &str, words: &[&str]) {
        let text = &self.stderr;
        assert_eq!(self.code, Some(2), "{name}: exit code; stderr: {text}");
        assert_eq!(text.lines().count(), 1, "{name}: one line: {text}");
        assert!(text.starts_with("beamgen: "), "{name}: {text}");
        assert!(!text.contains("panicked"), "{name}: {text}");
        assert_eq!(self.stdout, "", "{name}: nothing on stdout");
        for word in words {
            assert!(text.contains(word), "{name}: {word:?} is not in: {text}");
        }
    }
}
