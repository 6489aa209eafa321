//! The verifier `lean` against a fake of a Kimina server: right, wrong, sorry, an error, a time-out, a
//! server that fails, and one that is not there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use beamgen_checkers::{LeanConfig, LeanVerifier};
use beamgen_search::{BatchId, Outcome, Problem, Verifier, WholeChain};
use serde_json::{Value, json};

/// The requests that a fake server got.
#[derive(Default)]
struct Seen {
    bodies: Mutex<Vec<Value>>,
    keys: Mutex<Vec<String>>,
    requests: AtomicUsize,
}

/// Answers like Lean: by words in the code.
fn result(snippet: &Value) -> Option<Value> {
    let code = snippet["code"].as_str()?;
    let message = |severity: &str, data: &str| {
        json!({"messages": [
            {"severity": "info", "pos": {"line": 1, "column": 0}, "data": "hello"},
            {"severity": severity, "pos": {"line": 7, "column": 2}, "data": data},
        ], "env": 0})
    };
    let (response, error) = if code.contains("simp_all") {
        (json!({"env": 0}), Value::Null)
    } else if code.contains("ring") {
        (message("error", "unsolved goals\nx : Nat"), Value::Null)
    } else if code.contains("nlinarith") {
        (
            json!({"sorries": [{"pos": {"line": 3, "column": 1}}], "env": 0}),
            Value::Null,
        )
    } else if code.contains("apply?") {
        (message("warning", "declaration uses 'sorry'"), Value::Null)
    } else if code.contains("decide") {
        (
            Value::Null,
            json!("Lean REPL command timed out in 30 seconds"),
        )
    } else if code.contains("omega") {
        (Value::Null, json!("the REPL ended"))
    } else if code.contains("exact?") {
        (json!({"message": "Unknown environment."}), Value::Null)
    } else if code.contains("norm_num") {
        return None;
    } else {
        (
            message("warning", "declaration uses a long name"),
            Value::Null,
        )
    };
    Some(json!({"id": snippet["id"], "time": 0.1, "error": error, "response": response}))
}

fn serve(mut stream: TcpStream, seen: &Seen, fails: usize) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).ok()? > 2 {
        let header = line.trim().to_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if let Some(key) = header.strip_prefix("authorization:") {
            seen.keys.lock().unwrap().push(key.trim().to_owned());
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).ok()?;
    let status = if seen.requests.fetch_add(1, Ordering::SeqCst) < fails {
        "503 Service Unavailable"
    } else {
        "200 OK"
    };
    let mut results: Vec<Value> = body["snippets"]
        .as_array()?
        .iter()
        .filter_map(result)
        .collect();
    results.reverse();
    // A result of another request is nobody's.
    results.push(json!({"id": "99", "response": {"env": 0}}));
    let text = json!({"results": results}).to_string();
    seen.bodies.lock().unwrap().push(body);
    let size = text.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n{text}"
    )
    .ok()
}

/// Starts a fake server whose first `fails` answers have the status 503. Returns its address.
fn fake(seen: &Arc<Seen>, fails: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::clone(seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream, &seen, fails);
        }
    });
    format!("http://{address}")
}

fn lean(url: String) -> LeanVerifier {
    let config = LeanConfig {
        url,
        key: Some("secret".to_owned()),
        timeout: Duration::from_secs(30),
        workers: 2,
        in_flight: 4,
    };
    LeanVerifier::start(config).unwrap()
}

fn problem() -> Problem {
    Problem::from(
        "Prove it.\n```lean4\nimport Mathlib\n\ntheorem two (x : Nat) :\n  x + 0 = x := by sorry\n```\n",
    )
}

fn outcomes(
    verifier: &mut LeanVerifier,
    batch: u64,
    problem: &Problem,
    texts: &[&str],
) -> Vec<String> {
    let chains = texts.iter().map(|text| WholeChain {
        steps: vec![text],
        answer: None,
    });
    let chains: Vec<WholeChain<'_>> = chains.collect();
    verifier.submit(BatchId(batch), problem, &chains);
    let begun = Instant::now();
    loop {
        if let Some((id, outcomes)) = verifier.collect(true).pop() {
            assert_eq!(id, BatchId(batch));
            return outcomes.iter().map(Outcome::to_string).collect();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no outcome");
    }
}

fn proof(tactic: &str) -> String {
    format!("So:\n```lean4\ntheorem two (x : Nat) : x + 0 = x := by\n  {tactic}\n```\nDone.")
}

#[test]
fn every_answer_of_the_server_has_its_outcome() {
    let seen = Arc::new(Seen::default());
    let mut verifier = lean(fake(&seen, 0));
    assert!(verifier.is_open(&problem()));
    let tactics = [
        "simp_all",
        "rfl",
        "ring",
        "nlinarith",
        "apply?",
        "decide",
        "omega",
        "exact?",
        "norm_num",
    ];
    let texts: Vec<String> = tactics.iter().map(|tactic| proof(tactic)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let expected = [
        "right",
        "right",
        "wrong: line 7: unsolved goals",
        "wrong: the proof has a sorry",
        "wrong: the proof has a sorry",
        "cannot tell: Lean: Lean REPL command timed out in 30 seconds",
        "lost: Lean: the REPL ended",
        "lost: Lean: Unknown environment.",
        "lost: the verifier gave no outcome",
    ];
    assert_eq!(outcomes(&mut verifier, 1, &problem(), &texts), expected);
    assert_eq!(verifier.lost().get().verdicts, 3);
    let asked = |seen: &Seen| -> usize {
        let bodies = seen.bodies.lock().unwrap();
        bodies
            .iter()
            .map(|body| body["snippets"].as_array().unwrap().len())
            .sum()
    };
    assert_eq!(asked(&seen), 9);
    // The imports are those of the problem, and the chain's text around the code is left out.
    let first = seen.bodies.lock().unwrap()[0].clone();
    let code = first["snippets"][0]["code"].as_str().unwrap().to_owned();
    assert!(
        code.starts_with("import Mathlib\n\ntheorem two") && !code.contains("Done"),
        "{code}"
    );
    assert_eq!(
        (&first["timeout"], &first["reuse"]),
        (&json!(30), &json!(true))
    );
    assert!(
        seen.keys
            .lock()
            .unwrap()
            .iter()
            .all(|key| key == "bearer secret")
    );
    // Only chains without an outcome are sent again.
    assert_eq!(outcomes(&mut verifier, 2, &problem(), &texts), expected);
    assert_eq!(asked(&seen), 12);
}

#[test]
fn chains_that_cannot_prove_the_theorem_are_not_sent() {
    let seen = Arc::new(Seen::default());
    let mut verifier = lean(fake(&seen, 0));
    let other = "```lean4\ntheorem two (x : Nat) : x = x := by rfl\n```";
    let (sorry, axiom) = (proof("sorry"), proof("rfl\naxiom two' : False"));
    let found = outcomes(
        &mut verifier,
        1,
        &problem(),
        &[other, &sorry, &axiom, "No code."],
    );
    let states = "wrong: the code does not state the problem's theorem";
    assert_eq!(
        found,
        [
            states,
            "wrong: the code has \"sorry\"",
            "wrong: the code has \"axiom\"",
            states
        ]
    );
    let fooled = [
        "```lean4\ntheorem two (x : Nat) : x + 0 = x ∨ True := Or.inr trivial\n```",
        "```lean4\n/- theorem two (x : Nat) : x + 0 = x := -/ example : True := trivial\n```",
        "```lean4\n-- theorem two (x : Nat) : x + 0 = x :=\nexample : True := trivial\n```",
    ];
    assert_eq!(outcomes(&mut verifier, 3, &problem(), &fooled), [states; 3]);
    let text =
        "```lean\nlemma one : 1 = 1 := rfl\ntheorem t : (let x := 5; x) = 6 := by sorry\n```";
    let restated = [
        "```lean\nlemma one : 1 = 1 := rfl\n```",
        "```lean\ntheorem t : (let x := 5; x) = 5 := rfl\n```",
    ];
    assert_eq!(
        outcomes(&mut verifier, 4, &Problem::from(text), &restated),
        [states; 2]
    );
    let plain = Problem::from("What is 2 + 2?");
    let unknown = "cannot tell: the problem has no block of Lean code with a theorem";
    assert_eq!(outcomes(&mut verifier, 2, &plain, &["4"]), [unknown]);
    assert_eq!(seen.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn a_server_that_fails_is_asked_again_and_then_given_up() {
    let seen = Arc::new(Seen::default());
    let mut verifier = lean(fake(&seen, 2));
    let text = proof("simp_all");
    assert_eq!(outcomes(&mut verifier, 1, &problem(), &[&text]), ["right"]);
    assert_eq!(seen.requests.load(Ordering::SeqCst), 3);
    assert_eq!(verifier.lost().get().verdicts, 0);

    // Nothing listens at the address of a listener that is gone.
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut verifier = lean(format!("http://{gone}"));
    for batch in 0..4 {
        let found = outcomes(&mut verifier, batch, &problem(), &[&text]);
        assert!(found[0].starts_with("lost: "), "{found:?}");
    }
    let lost = verifier.lost().get();
    assert_eq!((lost.verdicts, lost.crashes), (4, 3));
    assert!(lost.given_up.unwrap().contains("/api/check"));
}

#[test]
fn an_address_that_is_none_is_refused() {
    for url in ["", "localhost", "ftp://h", "http://"] {
        let config = LeanConfig {
            url: url.to_owned(),
            key: None,
            timeout: Duration::from_secs(1),
            workers: 1,
            in_flight: 1,
        };
        let error = LeanVerifier::start(config).unwrap_err().to_string();
        assert!(error.contains("address"), "{error}");
    }
}
