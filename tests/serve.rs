//! `beamgen serve`: the program around the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::programs::{HANGS, assert_gone, begun};
use crate::run::Place;

/// A server that was started by its command line.
struct Serving {
    child: Child,
    address: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Serving {
    fn start(place: &Place, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let args = [&["serve", "--port", "0"], args].concat();
        let mut command = place.listening(&args);
        command.envs(variables.iter().copied());
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        let child = command.stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut serving = Self {
            child,
            address: String::new(),
            stderr,
        };
        while serving.address.is_empty() {
            let mut line = String::new();
            let read = serving
                .stderr
                .read_line(&mut line)
                .expect("UTF-8 on stderr");
            assert!(read > 0, "it ended");
            if let Some((_, address)) = line.trim().split_once("http://") {
                // In a JSON log the address ends with a quotation mark.
                let address = address.split('"').next().unwrap_or(address);
                serving.address = address.to_owned();
            }
        }
        serving
    }

    fn get(&self, path: &str, headers: &str) -> String {
        self.send("GET", path, headers, "")
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("it answers");
        reply
    }

    /// Reads the next line of stderr.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("UTF-8 on stderr");
        line.trim_end().to_owned()
    }

    /// Sends a request that takes some seconds; returns after its search has started.
    fn begin_slow_request(&self) -> TcpStream {
        let problem = "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?";
        let body = json!({
            "messages": [{"role": "user", "content": problem}],
            "beamgen": {"strategy": "best-of-n", "n": 200, "m": 1},
        });
        let body = body.to_string();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let started = Instant::now();
        while !self.get("/metrics", "").contains("\nbeamgen_in_flight 1\n") {
            assert!(started.elapsed() < Duration::from_secs(60), "no search");
            std::thread::sleep(Duration::from_millis(1));
        }
        stream
    }

    fn kill(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let kill = Command::new("kill").args([name, &pid]).status();
        assert!(kill.expect("kill starts").success());
    }

    /// Waits for its end: the exit code, and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).expect("UTF-8");
        let status = self.child.wait().expect("it ends");
        (status.code(), said)
    }
}

impl Drop for Serving {
    /// Ends a server whose test failed: it would keep the output of all tests open.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let place = Place::new();
    for signal in ["-TERM", "-INT", "-HUP"] {
        let server = Serving::start(&place, &["--verbose"], &[]);
        let models = server.get("/v1/models", "");
        assert!(
            models.contains("200 OK") && models.contains("\"careful\""),
            "{models}"
        );
        server.signal(signal);
        if signal == "-HUP" {
            server.signal(signal);
        }
        let (code, said) = server.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("models 200 ") && said.contains(" s req-") && said.contains("stopped: "),
            "{said}"
        );
    }
}

#[test]
fn a_hangup_lets_a_running_request_finish() {
    let place = Place::new();
    let server = Serving::start(&place, &[], &[]);
    let mut stream = server.begin_slow_request();
    server.signal("-HUP");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers");
    assert!(
        reply.contains("200 OK") && !reply.contains("\"stopped\""),
        "{reply}"
    );
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stopped: 1 problem solved"), "{said}");
}

#[test]
fn presets_and_keys_are_read_again_after_a_signal_or_a_request() {
    let place = Place::new();
    let preset = |name: &str| format!("[{name}]\nsummary = \"s\"\nsearch.n = 2\nsearch.m = 1\n");
    place.write("presets.toml", preset("first"));
    place.write("keys", "first-key-of-the-file\n");
    let args = ["--presets", "presets.toml", "--api-key-file", "keys"];
    let mut server = Serving::start(&place, &args, &[]);
    let key = |number: &str| format!("Authorization: Bearer {number}-key-of-the-file\r\n");
    assert!(
        server
            .get("/v1/models", &key("first"))
            .contains("\"first\"")
    );

    place.write("presets.toml", preset("second"));
    place.write("keys", "second-key-of-the-file\n");
    server.signal("-USR1");
    assert_eq!(server.line(), "reloaded: 2 presets, 1 key");
    assert!(server.get("/v1/models", &key("first")).contains("401"));
    let models = server.get("/v1/models", &key("second"));
    assert!(
        models.contains("\"second\"") && !models.contains("\"first\""),
        "{models}"
    );

    place.write("presets.toml", format!("{}[third\n", preset("third")));
    server.signal("-USR1");
    let line = server.line();
    let words = "nothing was reloaded: presets.toml: line 5: ";
    assert!(line.starts_with(words), "{line}");
    let headers = format!("{}Content-Length: 0\r\n", key("second"));
    let reply = server.send("POST", "/v1/reload", &headers, "");
    assert!(
        reply.contains("400 Bad Request") && reply.contains("presets.toml: line 5: "),
        "{reply}"
    );
    assert!(server.line().starts_with(words));
    place.write("presets.toml", preset("third"));
    place.write("keys", "short\n");
    let reply = server.send("POST", "/v1/reload", &headers, "");
    assert!(reply.contains("keys: line 1: "), "{reply}");
    assert!(
        server
            .line()
            .starts_with("nothing was reloaded: keys: line 1: ")
    );
    let models = server.get("/v1/models", &key("second"));
    assert!(models.contains("\"second\""), "{models}");

    place.write("keys", "second-key-of-the-file\n");
    let reply = server.send("POST", "/v1/reload", &headers, "");
    assert!(
        reply.contains("200 OK") && reply.contains("\"third\""),
        "{reply}"
    );
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_log_of_json_has_an_object_a_line_and_no_text_of_a_request() {
    let place = Place::new();
    let server = Serving::start(&place, &["--log-format", "json"], &[]);
    let text = "How many pens does Zebulon have?";
    let body = json!({
        "model": "single",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 4,
    });
    for (id, body) in [
        ("one", body.to_string()),
        ("two", format!("{body} Zebulon")),
    ] {
        let headers = format!(
            "Content-Type: application/json\r\nX-Request-ID: {id}\r\nContent-Length: {}\r\n",
            body.len()
        );
        let reply = server.send("POST", "/v1/chat/completions", &headers, &body);
        assert!(
            reply.contains(&format!("x-request-id: {id}\r\n")),
            "{reply}"
        );
    }
    assert!(server.get("/health", "").contains("200 OK"));
    assert!(server.get("/Zebulon", "").contains("404"));
    server.signal("-TERM");
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("Zebulon"), "{said}");
    let lines: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    for line in &lines {
        let time = line["time"].as_str().expect("a time");
        assert!(time.len() == 24 && time.ends_with('Z'), "{line}");
        assert!(line["event"].is_string(), "{line}");
    }
    let requests: Vec<_> = lines
        .iter()
        .filter(|line| line["event"] == "request")
        .collect();
    let facts = |line: &serde_json::Value| {
        json!([
            line["level"],
            line["route"],
            line["status"],
            line["generated_tokens"].as_u64() > Some(0)
        ])
    };
    let [first, second, third] = &requests[..] else {
        panic!("{said}");
    };
    assert_eq!(
        (&first["request_id"], facts(first)),
        (&json!("one"), json!(["info", "chat", 200, true]))
    );
    assert_eq!(
        (&second["request_id"], facts(second)),
        (&json!("two"), json!(["warn", "chat", 400, false]))
    );
    assert_eq!(facts(third), json!(["warn", "other", 404, false]));
    assert!(first["seconds"].as_f64() > Some(0.0));
    let events: Vec<_> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(events.last(), Some(&&json!("stopped")), "{said}");
    assert!(events.contains(&&json!("stopping")), "{said}");
}

#[test]
fn an_error_is_a_line_of_json_too() {
    let place = Place::new();
    let args = ["serve", "--log-format", "json", "--queue", "0"];
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(2));
    let line: serde_json::Value = serde_json::from_str(&ran.stderr).expect("a line of JSON");
    assert_eq!(
        (&line["level"], &line["event"]),
        (&json!("error"), &json!("failed"))
    );
    assert_eq!(line["message"], "--queue 0: use at least 1");
}

#[test]
fn under_nohup_a_hangup_is_not_heeded() {
    let place = Place::new();
    let command = place.command(&["serve", "--port", "0"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    let server = Serving::run(shell);
    server.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(server.get("/ready", "").contains("200 OK"));
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn presets_and_keys_come_from_files_or_the_environment() {
    let place = Place::new();
    place.write(
        "presets.toml",
        "[mine]\nsummary = \"s\"\nsearch.n = 2\nsearch.m = 1\n",
    );
    place.write("keys", "first-key-of-the-file\n\nsecond-key-of-the-file\n");
    let args = ["--presets", "presets.toml", "--api-key-file", "keys"];
    let server = Serving::start(&place, &args, &[]);
    assert!(server.get("/v1/models", "").contains("401"));
    let key = "Authorization: Bearer second-key-of-the-file\r\n";
    let models = server.get("/v1/models", key);
    assert!(
        models.contains("\"mine\"") && !models.contains("\"careful\""),
        "{models}"
    );
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));

    let variable = [("BEAMGEN_API_KEY", "the-key-of-the-environment")];
    let server = Serving::start(&place, &["--host", "0.0.0.0"], &variable);
    assert!(server.get("/health", "").contains("200 OK"));
    assert!(server.get("/v1/models", "").contains("401"));
    let key = "Authorization: Bearer the-key-of-the-environment\r\n";
    assert!(server.get("/v1/models", key).contains("200 OK"));
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn checkers_end_with_the_server_whatever_ends_it() {
    for signal in [Signal::HUP, Signal::QUIT, Signal::KILL, Signal::TERM] {
        let place = Place::new();
        let server = Serving::start(&place, &["--checker-command", HANGS], &[]);
        let pids = begun(&place, 1);
        server.kill(signal);
        server.end();
        assert_gone(&pids);
    }
}

#[test]
fn a_checker_that_was_given_up_is_told_at_the_end() {
    let place = Place::new();
    let server = Serving::start(&place, &["--checker-command", "exit 3"], &[]);
    let problem = "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?";
    let body = json!({
        "model": "beamgen",
        "messages": [{"role": "user", "content": problem}],
    });
    let body = body.to_string();
    let headers = format!(
        "Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let reply = server.send("POST", "/v1/chat/completions", &headers, &body);
    assert!(
        reply.contains("200 OK") && reply.contains("\"lost_verdicts\""),
        "{reply}"
    );
    server.signal("-TERM");
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains(r#""exit 3" failed"#) && said.contains("exit status: 3"),
        "{said}"
    );
}

#[test]
fn an_unsound_answer_is_refused_with_its_step_and_counted() {
    let place = Place::new();
    let args = [
        "--require-sound",
        "--scorer",
        "none",
        "--strategy",
        "single",
    ];
    let server = Serving::start(&place, &args, &[]);
    // Long chains of this generator nearly always have a wrong step.
    let problem = place.run(&["problems", "--count", "1", "--min-people", "7"]);
    let problem = problem.ok().json().remove(0);
    let body = json!({
        "model": "beamgen",
        "messages": [{"role": "user", "content": problem["problem"]}],
        "seed": 0,
    });
    let body = body.to_string();
    let headers = format!(
        "Content-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    let reply = server.send("POST", "/v1/chat/completions", &headers, &body);
    for words in [
        "200 OK",
        "\"content\":null",
        "the work of the best answer is unsound: step ",
        "\"by\":\"checker\"",
        "\"withheld\":\"",
    ] {
        assert!(reply.contains(words), "{words}: {reply}");
    }
    let metrics = server.get("/metrics", "");
    assert!(metrics.contains("\nbeamgen_unsound_total 1\n"), "{metrics}");
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn what_is_wrong_is_said_before_it_listens() {
    let place = Place::new();
    place.write("wrong.toml", "[x]\nsummary = \"s\"\nsearch.width = 2\n");
    place.write("short", "1234\n");
    place.write("empty", "\n");
    for (args, words) in [
        (
            &["--host", "0.0.0.0"][..],
            &["0.0.0.0:8080", "--allow-anyone"][..],
        ),
        (&["--host", "example.com"], &["example.com"]),
        (&["--presets", "wrong.toml"], &["wrong.toml: [x]", "width"]),
        (&["--presets", "missing.toml"], &["missing.toml"]),
        (
            &["--api-key-file", "short"],
            &["short: line 1", "16 characters"],
        ),
        (&["--api-key-file", "empty"], &["empty: has no key"]),
        (&["--queue", "0"], &["--queue 0: use at least 1"]),
        (
            &["--allow-origin", "https://app.example/"],
            &["--allow-origin https://app.example/", "scheme://host"],
        ),
        (
            &["--allow-origin", "*", "--allow-anyone"],
            &["--allow-origin *", "--api-key-file"],
        ),
        (&["--log-format", "xml"], &["xml", "json"]),
        (
            &["--connections", "18446744073709551615"],
            &["18446744073709551615 connections", "at most"],
        ),
        (
            &["--host", "192.0.2.1", "--allow-anyone"],
            &["cannot listen on 192.0.2.1:8080"],
        ),
    ] {
        let args = [&["serve"], args].concat();
        place.run(&args).assert_refused(&args.join(" "), words);
    }
}
