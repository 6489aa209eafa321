//! Servers that fail. No result may be lost, and each error must be a single line.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use beamgen_remote::{ApiKey, Error, Remote, Servers};
use beamgen_search::{ProblemResult, RunSummary, SearchError};
use serde_json::json;

use crate::brain::{Brain, Plays};
use crate::fake::{Fake, Reply, Seen};
use crate::runs::*;

/// Starts a server with faults: `fault` gets the number of steps that were requested before, and
/// returns the reaction to this request; `None` for a correct answer.
fn faulty(fault: impl Fn(usize, &Seen) -> Option<Reply> + Send + Sync + 'static) -> Fake {
    let brain = Brain::new(Plays::Vllm);
    let count = AtomicUsize::new(0);
    Fake::start(move |seen| {
        let reply = if seen.is_step() {
            fault(count.fetch_add(1, Ordering::SeqCst), seen)
        } else {
            None
        };
        reply.unwrap_or_else(|| brain.reply(seen))
    })
}

fn solve(servers: &Servers) -> (Vec<ProblemResult>, Result<RunSummary, SearchError>, u64) {
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, servers).unwrap();
    let (results, outcome) = run(&mut generator, &settings("beam", 4, 1.0), &problems(6));
    let retries = generator.connection().traffic().retries;
    if let Ok(summary) = &outcome {
        let counted: u64 = results.iter().map(|result| result.ledger.retries).sum();
        assert_eq!(summary.ledger.retries, counted);
        // Retries of requests that fail in the end are not charged to a problem.
        assert!(counted <= retries && (counted > 0 || retries == 0 || summary.failed > 0));
    }
    (results, outcome, retries)
}

fn untroubled() -> Vec<ProblemResult> {
    let server = brain(Plays::Vllm);
    let (results, outcome, retries) = solve(&servers([server.url()]));
    outcome.unwrap();
    assert_eq!(retries, 0);
    results
}

fn assert_same(expected: &[ProblemResult], found: &[ProblemResult], what: &str) {
    assert_eq!(expected.len(), found.len(), "{what}");
    for (expected, found) in expected.iter().zip(found) {
        assert_eq!(found.error, None, "{what}");
        assert_eq!(chains(expected), chains(found), "{what}");
    }
}

#[test]
fn what_passes_is_retried_and_changes_nothing() {
    type Fault = Box<dyn Fn() -> Reply + Send + Sync>;
    let expected = untroubled();
    let error = |status| Reply::Json(status, json!({"error": {"message": "too much"}}));
    let faults: Vec<(&str, Fault)> = vec![
        ("429", Box::new(move || error(429))),
        ("503", Box::new(move || error(503))),
        ("502", Box::new(move || error(502))),
        ("500", Box::new(move || error(500))),
        (
            "503 with Retry-After",
            Box::new(|| Reply::With(503, vec![("retry-after", "1".into())], "busy".into())),
        ),
        ("closed", Box::new(|| Reply::Close)),
        (
            "cut",
            Box::new(|| Reply::Cut(json!({"choices": [{"token_ids": [1, 2, 3]}]}))),
        ),
        (
            "not JSON",
            Box::new(|| Reply::With(200, vec![], "<html>gateway</html>".into())),
        ),
        ("nothing in it", Box::new(|| Reply::Json(200, json!({})))),
    ];
    for (name, fault) in faults {
        // Every fifth step fails, but only at its first attempt.
        let failed: Mutex<BTreeSet<String>> = Mutex::default();
        let server = faulty(move |before, seen| {
            let request = format!("{} {}", seen.header("x-session-id").unwrap(), seen.body);
            let first = before % 5 == 2 && failed.lock().unwrap().insert(request);
            first.then(&fault)
        });
        let (results, outcome, retries) = solve(&servers([server.url()]));
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_same(&expected, &results, name);
        assert!(retries > 0 || name == "closed", "{name}");
        println!(
            "{name}: {retries} requests made again, {} results the same",
            results.len()
        );
    }
}

/// A server asks for a wait that is longer than the patience.
#[test]
fn patience_wins_over_what_a_server_asks_for() {
    let later = || vec![("retry-after", "99999999999".to_owned())];
    let server = faulty(move |before, _| {
        (before >= 9).then(|| Reply::With(429, later(), "busy".to_owned()))
    });
    let mut servers = servers([server.url()]);
    servers.patience = Duration::from_secs(1);
    let begun = Instant::now();
    let (results, outcome, retries) = solve(&servers);
    assert!(outcome.unwrap().failed > 0 && retries > 0);
    assert!(results.iter().any(|result| {
        let error = result.error.as_deref().unwrap_or_default();
        error.contains("answered 429: busy") && error.contains(&server.url())
    }));
    // Each request waits for one second, but on a busy machine they may wait one after the other.
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn slow_answers_and_silence_end_at_their_time() {
    let expected = untroubled();
    let answer = json!({"choices": [{"token_ids": [1, 2, 3]}]});
    for (name, reply) in [
        ("hang before the first byte", Reply::Hang),
        ("hang in the answer", Reply::HangInBody(answer.clone())),
        ("slow drip", Reply::Drip(answer, Duration::from_millis(200))),
    ] {
        let server = faulty(move |before, _| (before == 4).then(|| reply.clone()));
        let mut servers = servers([server.url()]);
        servers.first_byte = Duration::from_secs(2);
        servers.rest = Duration::from_secs(1);
        let (results, outcome, retries) = solve(&servers);
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_same(&expected, &results, name);
        assert!(retries > 0, "{name}");
        println!(
            "{name}: {retries} requests made again, {} results the same",
            results.len()
        );
    }
}

#[test]
fn what_would_fail_again_is_said_at_once() {
    for (status, lost) in [
        (401, true),
        (403, true),
        (404, true),
        (307, true),
        (400, false),
        (422, false),
    ] {
        let body = json!({"error": {"message": "no\nway", "code": status}});
        let server =
            faulty(move |before, _| (before == 9).then(|| Reply::Json(status, body.clone())));
        let (results, outcome, retries) = solve(&servers([server.url()]));
        assert_eq!(retries, 0, "{status}");
        match (outcome, lost) {
            (Err(error), true) => {
                let error = error.to_string();
                assert!(
                    error.contains(&format!("answered {status}: no way")),
                    "{error}"
                );
            }
            (Ok(summary), false) => {
                assert_eq!((summary.failed, results.len()), (1, 6), "{status}");
                let failed = results
                    .iter()
                    .find_map(|result| result.error.as_ref())
                    .unwrap();
                assert!(
                    failed.contains(&format!("answered {status}: no way")),
                    "{failed}"
                );
            }
            (outcome, _) => panic!("{status}: {outcome:?}"),
        }
    }
    // The status 500 counts as an accident: the first is retried, after the second the problem
    // fails.
    let server = faulty(|before, _| {
        (before >= 9).then(|| Reply::Json(500, json!({"error": "engine died"})))
    });
    let (results, outcome, _) = solve(&servers([server.url()]));
    let summary = outcome.unwrap();
    assert!(summary.failed > 0);
    assert_eq!(results.len(), 6);
}

#[test]
fn a_server_that_is_killed_and_comes_back_costs_time_only() {
    let expected = untroubled();
    let brain = Arc::new(Brain::new(Plays::Vllm));
    let answered = Arc::new(AtomicUsize::new(0));
    let handler = |brain: &Arc<Brain>, answered: &Arc<AtomicUsize>| {
        let (brain, answered) = (Arc::clone(brain), Arc::clone(answered));
        move |seen: &Seen| {
            answered.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            brain.reply(seen)
        }
    };
    let server = Fake::start(handler(&brain, &answered));
    let servers = servers([server.url()]);
    std::thread::scope(|scope| {
        let solving = scope.spawn(|| solve(&servers));
        while answered.load(Ordering::SeqCst) < 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let address = server.kill();
        std::thread::sleep(Duration::from_millis(700));
        let _back = Fake::at(address, handler(&brain, &answered));
        let (results, outcome, retries) = solving.join().unwrap();
        outcome.unwrap();
        assert_same(&expected, &results, "killed");
        assert!(retries > 0);
    });
}

#[test]
fn one_of_three_dead_is_left_out() {
    let expected = untroubled();
    let fakes = [
        brain(Plays::Vllm),
        brain(Plays::Vllm),
        faulty(|_, _| Some(Reply::Close)),
    ];
    let urls: Vec<String> = fakes.iter().map(Fake::url).collect();
    let (results, outcome, _) = solve(&servers(urls));
    outcome.unwrap();
    assert_same(&expected, &results, "one dead");
}

/// The test of a failed server uses a route that not every server has. The answer "not found" shows
/// that the server runs.
#[test]
fn a_server_without_a_health_route_comes_back() {
    let expected = untroubled();
    let brain = Brain::new(Plays::Vllm);
    let cut = AtomicUsize::new(0);
    let server = Fake::start(move |seen| match seen.path.as_str() {
        "/health" => Reply::Json(404, json!({"detail": "Not Found"})),
        _ if seen.is_step() && cut.fetch_add(1, Ordering::SeqCst) == 4 => {
            Reply::Cut(json!({"choices": [{"token_ids": [1, 2, 3]}]}))
        }
        _ => brain.reply(seen),
    });
    let (results, outcome, retries) = solve(&servers([server.url()]));
    outcome.unwrap();
    assert_same(&expected, &results, "no health route");
    assert!(retries > 0);
}

#[test]
fn nobody_there_is_one_line() {
    let remote = Remote::new().unwrap();
    let error = connect(&remote, &servers(["http://127.0.0.1:1"]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("http://127.0.0.1:1: cannot be reached"),
        "{error}"
    );
    let error = connect(&remote, &servers(["not an address"])).unwrap_err();
    assert!(matches!(error, Error::Address { .. }), "{error}");
    let none: [&str; 0] = [];
    let error = connect(&remote, &servers(none)).unwrap_err();
    assert!(matches!(error, Error::NoServer { .. }), "{error}");
}

/// If the servers stay away, the run ends with the results that it has.
#[test]
fn servers_that_stay_away_end_the_run() {
    let server = faulty(|before, _| (before >= 12).then_some(Reply::Close));
    let mut servers = servers([server.url()]);
    servers.patience = Duration::from_millis(600);
    let (_, outcome, _) = solve(&servers);
    let error = outcome.unwrap_err().to_string();
    assert!(
        error.contains(&server.url()) && !error.contains('\n'),
        "{error}"
    );
}

#[test]
fn a_key_is_sent_to_its_server_and_nowhere_else() {
    let elsewhere = brain(Plays::Vllm);
    let target = elsewhere.url();
    let server = {
        let brain = Brain::new(Plays::Vllm);
        Fake::start(move |seen| match seen.header("authorization") {
            Some("Bearer sk-1") if seen.path == "/v1/models" => Reply::With(
                302,
                vec![("location", format!("{target}/v1/models"))],
                String::new(),
            ),
            Some("Bearer sk-2") => brain.reply(seen),
            _ => Reply::Json(401, json!({"error": "Unauthorized"})),
        })
    };
    let remote = Remote::new().unwrap();
    let with = |key: Option<&str>| {
        let mut servers = servers([server.url()]);
        servers.key = key.map(|key| ApiKey::new(key).unwrap());
        connect(&remote, &servers)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(with(Some("sk-2")), Ok(()));
    let error = with(None).unwrap_err();
    assert!(error.contains("401: Unauthorized"), "{error}");
    let error = with(Some("sk-1")).unwrap_err();
    assert!(!error.contains("sk-1"), "{error}");
    assert_eq!(elsewhere.seen().len(), 0);
    let mut open = servers(["http://192.0.2.1:8000"]);
    open.key = Some(ApiKey::new("sk-3").unwrap());
    let error = connect(&remote, &open).unwrap_err();
    assert!(matches!(error, Error::OpenKey { .. }), "{error}");
}
