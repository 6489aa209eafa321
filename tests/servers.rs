//! The real binary over a real server of another engine: llama.cpp's, which the wheel xllamacpp
//! has, on the tiny GGUF files of tests/fixtures. `BEAMGEN_TEST_XLLAMACPP` names the Python that
//! has it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use beamgen_test_support::named_by;
use serde_json::Value;

use crate::real_checkpoints::{BABBLE, fixture};
use crate::run::{Place, root};

/// A running server; it ends with this.
struct LlamaServer {
    child: Child,
    url: String,
}

impl LlamaServer {
    /// `None` after a skip, where there is no llama.cpp.
    fn start(gguf: &str, port: Option<u16>) -> Option<Self> {
        let python = named_by(
            "BEAMGEN_TEST_XLLAMACPP",
            "Python with the package xllamacpp",
        )?;
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").port()
        };
        let port = port.unwrap_or_else(free);
        let mut child = Command::new(python)
            .arg(root().join("tests/llama_server.py"))
            .args([gguf, &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Python runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert!(line.starts_with("http://"), "no server: {line:?}");
        let url = format!("http://127.0.0.1:{port}");
        Some(Self { child, url })
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PROBLEMS: &str = r#"{"id": "a", "problem": "Mia has 34 pens. How many pens does Mia have?", "answer": 34}
{"id": "b", "problem": "3 + 4", "answer": 7}
{"id": "c", "problem": "12 * 3 = ?", "answer": 36}
"#;

/// The label tokens of a reward model that is read by its logits.
const LABELS: &str = r#"
normaliser = { softmax = 0 }
[prompt]
text = "{{ problem }}\n"
[step]
text = "{{ step }} ="
[head]
tokens = ["+", "-"]
"#;

/// Runs a search greedily and gives its trees.
fn trees(place: &Place, name: &str, args: &[&str]) -> Vec<Value> {
    let mut all = vec![
        "solve",
        "p.jsonl",
        "--out",
        name,
        "--tree",
        "--temperature",
        "0",
        "--set",
        "generator.max_step_tokens=12",
    ];
    all.extend(BABBLE);
    all.extend(args);
    let ran = place.run(&all);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let text = place.read(name);
    let record = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
    let mut records: Vec<Value> = text.lines().skip(1).map(record).collect();
    let header = record(text.lines().next().expect("a header"));
    let models = &header["settings"]["models"];
    for role in ["generator", "prm"] {
        if args.contains(&format!("--{role}-url").as_str()) && models.get(role).is_some() {
            let by_text = args.contains(&"models.generator_server.engine=openai");
            let engine = if by_text { "openai" } else { "llama.cpp" };
            assert_eq!(models[role]["engine"], engine, "{models}");
            assert!(models[role]["tokenizer"].is_string(), "{models}");
        }
    }
    // They are written as they are done.
    records.sort_by_key(|record| record["id"].to_string());
    records
        .iter()
        .map(|record| record["tree"].clone())
        .collect()
}

fn nodes(tree: &Value) -> &Vec<Value> {
    tree.as_array().unwrap_or_else(|| panic!("{tree}"))
}

#[test]
fn chains_and_scores_over_llama_cpp_are_those_of_the_local_engine() {
    for name in ["llama", "qwen2"] {
        let gguf = fixture(&format!("formats/{name}.gguf"));
        let Some(server) = LlamaServer::start(&gguf, None) else {
            return;
        };
        let place = Place::new();
        place.write("p.jsonl", PROBLEMS);
        place.write("labels.toml", LABELS);
        for strategy in ["greedy", "beam", "dvts", "best-of-n", "mcts"] {
            let prm = [
                "--prm",
                &gguf,
                "--prm-format",
                "labels.toml",
                "-n",
                "4",
                "--strategy",
                strategy,
            ];
            let url = server.url.as_str();
            let local = trees(
                &place,
                &format!("local-{strategy}-{name}.jsonl"),
                &[&prm[..], &["--generator", &gguf]].concat(),
            );
            // All over the server, and once the reward model alone.
            let served: &[&str] = &[
                "--generator",
                &gguf,
                "--generator-url",
                url,
                "--prm-url",
                url,
            ];
            let mixed: &[&str] = &["--generator", &gguf, "--prm-url", url];
            for (kind, args) in [("served", served), ("mixed", mixed)] {
                let name = format!("{kind}-{strategy}.jsonl");
                let remote = trees(&place, &name, &[&prm[..], args].concat());
                assert_eq!(local.len(), remote.len());
                for (local, remote) in local.iter().zip(&remote) {
                    assert_eq!(nodes(local).len(), nodes(remote).len(), "{strategy} {kind}");
                    for (local, remote) in nodes(local).iter().zip(nodes(remote)) {
                        for key in ["text", "parent", "state"] {
                            assert_eq!(local[key], remote[key], "{strategy} {kind}");
                        }
                        match (local["score"].as_f64(), remote["score"].as_f64()) {
                            (Some(a), Some(b)) => {
                                assert!((a - b).abs() < 1e-4, "{strategy}: {a} and {b}");
                            }
                            (a, b) => assert_eq!(a, b, "{strategy} {kind}"),
                        }
                    }
                }
            }
        }
    }
}

/// llama.cpp by `OpenAI`'s routes alone: text goes both ways, and where a chain's text is cut into the
/// tokens that were sampled, which is not always, the chain is the same.
#[test]
fn chains_over_text_are_near_those_of_the_local_engine() {
    let gguf = fixture("formats/qwen2.gguf");
    let Some(server) = LlamaServer::start(&gguf, None) else {
        return;
    };
    let place = Place::new();
    place.write("p.jsonl", PROBLEMS);
    let shared = [
        "--scorer",
        "none",
        "--strategy",
        "greedy",
        "--generator",
        &gguf,
    ];
    let local = trees(&place, "local.jsonl", &shared);
    let engine = "models.generator_server.engine=openai";
    let context = "models.generator_server.context=96";
    let url = ["--generator-url", &server.url];
    let by_text = [&shared[..], &url, &["--set", engine, "--set", context]].concat();
    let remote = trees(&place, "text.jsonl", &by_text);
    assert_eq!(local.len(), remote.len());
    let first = |tree: &Value| {
        nodes(tree)[1]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let same = local.iter().zip(&remote);
    let same = same.filter(|(a, b)| !first(a).is_empty() && first(a) == first(b));
    assert!(same.count() > 0, "{local:?} {remote:?}");
}

/// Forty problems, two at a time, so that a run can be stopped in its middle.
fn forty(place: &Place) {
    let problems: String = (0..40)
        .map(|i| format!("{{\"problem\": \"{i} + 4\", \"answer\": {}}}\n", i + 4))
        .collect();
    place.write("p.jsonl", &problems);
}

fn forty_args<'a>(url: &'a str, out: &'a str) -> Vec<&'a str> {
    let mut args = vec![
        "solve",
        "p.jsonl",
        "--out",
        out,
        "--strategy",
        "majority",
        "-n",
        "4",
    ];
    args.extend([
        "--scorer",
        "none",
        "--in-flight",
        "2",
        "--generator-url",
        url,
    ]);
    args.extend(["--set", "models.generator_server.patience_seconds=1"]);
    args.extend(BABBLE);
    args
}

fn records(place: &Place, out: &str) -> usize {
    let text = std::fs::read_to_string(place.path(out)).unwrap_or_default();
    text.lines().count().saturating_sub(1)
}

/// Starts the run and waits until some problems are done.
fn begun(place: &Place, url: &str) -> Child {
    let mut command = place.command(&forty_args(url, "run.jsonl"));
    let running = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let until = Instant::now() + Duration::from_secs(60);
    while records(place, "run.jsonl") < 5 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    running.expect("it runs")
}

fn resumed(place: &Place, url: &str) {
    let mut args = forty_args(url, "run.jsonl");
    args.push("--resume");
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(records(place, "run.jsonl"), 40);
}

/// The server dies for good: what is done is in the run file, and `--resume` goes on at another
/// one.
#[test]
fn a_run_whose_server_died_is_resumed_at_another() {
    let gguf = fixture("formats/llama.gguf");
    let Some(server) = LlamaServer::start(&gguf, None) else {
        return;
    };
    let place = Place::new();
    forty(&place);
    let running = begun(&place, &server.url);
    drop(server);
    let output = running.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot be reached"), "{stderr}");
    let done = records(&place, "run.jsonl");
    assert!((5..40).contains(&done), "{done} done");
    let other = LlamaServer::start(&gguf, None).expect("there was one before");
    resumed(&place, &other.url);
}

#[test]
fn a_run_that_was_killed_is_resumed() {
    let gguf = fixture("formats/llama.gguf");
    let Some(server) = LlamaServer::start(&gguf, None) else {
        return;
    };
    let place = Place::new();
    forty(&place);
    let mut running = begun(&place, &server.url);
    running.kill().expect("it is ours");
    running.wait().expect("it ends");
    let done = records(&place, "run.jsonl");
    assert!((5..40).contains(&done), "{done} done");
    resumed(&place, &server.url);
}

#[test]
fn servers_that_cannot_be_used_are_one_line_and_exit_code_2() {
    let place = Place::new();
    place.write("key", "\n");
    for (args, words) in [
        (
            vec!["--generator-url", "http://127.0.0.1:1"],
            "cannot be reached",
        ),
        (vec!["--generator-url", "ftp://x"], "invalid server address"),
        (
            vec!["--generator-url", "http://user:secret@x"],
            "an address cannot contain a key",
        ),
        (
            vec![
                "--generator-url",
                "http://127.0.0.1:1",
                "--set",
                "models.generator_server.engine=tgi",
            ],
            "use vllm, sglang, llama.cpp",
        ),
        (
            vec![
                "--generator-url",
                "http://127.0.0.1:1",
                "--set",
                "models.generator_server.key_file=key",
            ],
            "invalid server key: it is empty",
        ),
        (
            vec![
                "--generator-url",
                "http://127.0.0.1:1",
                "--set",
                "models.generator_server.key_file=none",
            ],
            "none",
        ),
        (
            vec!["--set", "models.generator_server.engine=vllm"],
            "missing address of a generator server",
        ),
    ] {
        let mut all = vec!["solve", "--scorer", "none", "--strategy", "majority"];
        all.extend(args);
        let ran = place.run(&all);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
        assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{}", ran.stderr);
    }
}
