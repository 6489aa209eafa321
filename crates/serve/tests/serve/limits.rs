//! Limits hold, whoever goes away or is slow harms nobody, and memory comes back.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use beamgen::Config;
use beamgen_serve::{Limits, ServeOptions};
use serde_json::{Value, json};

use crate::client::{Reply, Running, ask, essence, problem, read_chunk, request};

const CHAT: &str = "/v1/chat/completions";

fn with(in_flight: usize, limits: Limits) -> Running {
    let mut config = Config::default();
    config.search.in_flight = in_flight;
    let options = ServeOptions {
        limits,
        ..ServeOptions::default()
    };
    Running::with(config, options)
}

/// A search that takes a while.
fn slow() -> Value {
    ask(
        &problem(0),
        json!({"strategy": "best-of-n", "n": 400, "m": 1}),
    )
}

/// Begins a request and does not wait for its answer.
fn begin(server: &Running, body: &Value) -> TcpStream {
    let mut stream = server.connect();
    let bytes = request(CHAT, &body.to_string(), "");
    stream.write_all(&bytes).unwrap();
    stream
}

fn wait_for(server: &Running, metric: &str, value: f64) {
    let started = Instant::now();
    while server.metric(metric) < value {
        assert!(started.elapsed() < Duration::from_secs(20), "{metric}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let limits = Limits {
        queue: 2,
        ..Limits::default()
    };
    let server = with(1, limits);
    let busy = begin(&server, &slow());
    wait_for(&server, "beamgen_in_flight ", 1.0);
    let waiting = [begin(&server, &slow()), begin(&server, &slow())];
    wait_for(&server, "beamgen_queue_waiting ", 2.0);
    let reply = server.chat(&slow());
    assert_eq!(reply.refusal(), (429, "queue_full".to_owned(), Value::Null));
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));
    assert_eq!(reply.header("x-should-retry"), None);
    assert_eq!(
        server.metric("beamgen_rejected_total{code=\"queue_full\"} "),
        1.0
    );
    drop((busy, waiting));
    server.wait_until_idle();
    server.chat(&ask(&problem(0), json!({"n": 2, "m": 1}))).ok();
}

#[test]
fn whoever_goes_away_takes_the_search_along() {
    let server = with(2, Limits::default());
    let wanted = essence(&server.chat(&ask(&problem(5), json!({"n": 8}))).ok());
    for streamed in [false, true, true] {
        let mut body = slow();
        body["stream"] = json!(streamed);
        let gone: Vec<TcpStream> = (0..6).map(|_| begin(&server, &body)).collect();
        wait_for(&server, "beamgen_in_flight ", 2.0);
        drop(gone);
        let started = Instant::now();
        server.wait_until_idle();
        let waited = started.elapsed();
        assert!(waited < Duration::from_secs(5), "{waited:?}");
    }
    let counted = server.metric("beamgen_stopped_total{reason=\"disconnected\"} ");
    assert_eq!(counted, 18.0);
    assert_eq!(
        essence(&server.chat(&ask(&problem(5), json!({"n": 8}))).ok()),
        wanted
    );
}

#[test]
fn a_deadline_ends_a_search_with_what_it_has_and_a_wait_with_nothing() {
    let server = with(1, Limits::default());
    // So hot, chains end at random: after a while there are some, and it is not over yet.
    let mut body = slow();
    body["temperature"] = json!(2.0);
    let deadlines = (0..25).map(|i| 0.05 * 1.25_f64.powi(i));
    let answers = deadlines.map(|seconds| {
        body["beamgen"]["timeout"] = json!(seconds);
        server.chat(&body)
    });
    let mut answers = answers.skip_while(|reply| reply.status == 504);
    let answer = answers.next().expect("an answer").ok();
    assert_eq!(answer["beamgen"]["stopped"], "deadline");
    drop(answers);

    let mut body = slow();
    body["beamgen"]["timeout"] = json!(0.1);
    let busy = begin(&server, &slow());
    wait_for(&server, "beamgen_in_flight ", 1.0);
    let started = Instant::now();
    let reply = server.chat(&body);
    let wanted = (504, "deadline_exceeded".to_owned(), Value::Null);
    assert_eq!(reply.refusal(), wanted);
    assert_eq!(reply.header("x-should-retry"), Some("false"));
    assert!(started.elapsed() < Duration::from_secs(5));
    drop(busy);
    server.wait_until_idle();
}

#[test]
fn the_server_ends_a_search_that_takes_too_long_whatever_the_request_says() {
    let limits = Limits {
        search_time: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = with(1, limits);
    let mut body = slow();
    body["beamgen"]["timeout"] = json!(1000);
    let reply = server.chat(&body);
    match reply.status {
        200 => assert_eq!(reply.json()["beamgen"]["stopped"], "deadline"),
        _ => assert_eq!(reply.refusal().1, "deadline_exceeded"),
    }
}

#[test]
fn large_and_slow_requests_are_refused() {
    let limits = Limits {
        body_bytes: 10_000,
        head_time: Duration::from_millis(300),
        body_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = with(1, limits);
    let long = "x".repeat(20_000);
    let reply = server.send(&request(CHAT, &long, "")).unwrap();
    assert_eq!(
        reply.refusal(),
        (413, "body_too_large".to_owned(), Value::Null)
    );
    // Without a length the server has to count.
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = format!("{head}4e20\r\n{long}\r\n0\r\n\r\n");
    assert_eq!(server.send(chunked.as_bytes()).unwrap().status, 413);

    let many: String = (0..100).map(|i| format!("X-{i}: y\r\n")).collect();
    assert_eq!(
        server.send(&request(CHAT, "{}", &many)).unwrap().status,
        431
    );
    let large = format!("X-Large: {}\r\n", "y".repeat(40_000));
    assert_eq!(
        server.send(&request(CHAT, "{}", &large)).unwrap().status,
        431
    );

    // The body does not come.
    let mut stream = server.connect();
    let bytes = request(CHAT, &"x".repeat(100), "");
    stream.write_all(&bytes[..bytes.len() - 50]).unwrap();
    let reply = Reply::read(&mut BufReader::new(stream)).unwrap();
    assert_eq!(reply.refusal().1, "request_timeout");

    // The head does not come: the connection ends without a word.
    let mut stream = server.connect();
    stream.write_all(b"POST /v1/chat/completions HTT").unwrap();
    let started = Instant::now();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn connections_beyond_the_limit_wait_for_a_place() {
    let limits = Limits {
        connections: 2,
        head_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = with(1, limits);
    let idle = [server.connect(), server.connect()];
    // Both places are taken until the head's time is over; then there is room.
    assert_eq!(server.get("/health").status, 200);
    drop(idle);
}

#[test]
fn a_slow_reader_misses_events_but_not_the_answer_and_holds_nobody_up() {
    let limits = Limits {
        events: 16,
        ..Limits::default()
    };
    let server = with(4, limits);
    let own = json!({"strategy": "best-of-n", "n": 500, "m": 1, "events": true, "tree": true});
    let mut body = ask(&problem(4), own.clone());
    body["stream"] = json!(true);
    let stream = begin(&server, &body);
    // It reads nothing, and the others are served all the same.
    for _ in 0..3 {
        server.chat(&ask(&problem(5), json!({"n": 4, "m": 2}))).ok();
    }
    server.wait_until_idle();
    let reply = Reply::read(&mut BufReader::new(stream)).unwrap();
    let chunks = reply.chunks();
    let missed = chunks
        .iter()
        .filter_map(|chunk| chunk["beamgen"]["missed"].as_u64());
    assert!(missed.max() > Some(0), "nothing was missed");
    let last = chunks.last().unwrap();
    let mut plain = own;
    plain.as_object_mut().unwrap().remove("events");
    let whole = server.chat(&ask(&problem(4), plain)).ok();
    assert_eq!(last["beamgen"]["tree"], whole["beamgen"]["tree"]);
    assert!(server.metric("beamgen_events_missed_total ") > 0.0);
}

#[test]
fn events_come_while_the_search_goes_on() {
    let server = with(1, Limits::default());
    let mut body = slow();
    (body["stream"], body["beamgen"]["events"]) = (json!(true), json!(true));
    let mut stream = BufReader::new(begin(&server, &body));
    assert_eq!(Reply::read_head(&mut stream).unwrap().status, 200);
    let mut seen = String::new();
    while !seen.contains("\"type\":\"step\"") {
        let chunk = read_chunk(&mut stream).unwrap().expect("more events");
        seen += &String::from_utf8(chunk).unwrap();
    }
    // The search is not over yet.
    assert!(!seen.contains("finish_reason\":\""), "{seen}");
    drop(stream);
    server.wait_until_idle();
}
