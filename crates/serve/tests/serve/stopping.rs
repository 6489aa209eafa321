//! A server that is told to stop.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use beamgen_serve::{Limits, ServeOptions};
use serde_json::{Value, json};

use crate::client::{Reply, Running, ask, problem, request};

fn start(drain: Duration) -> Running {
    let limits = Limits {
        drain_time: drain,
        ..Limits::default()
    };
    Running::start(ServeOptions {
        limits,
        ..ServeOptions::default()
    })
}

fn begin(server: &Running, own: Value) -> BufReader<TcpStream> {
    let mut stream = server.connect();
    let body = ask(&problem(0), own).to_string();
    let bytes = request("/v1/chat/completions", &body, "");
    stream.write_all(&bytes).unwrap();
    let started = Instant::now();
    while server.metric("beamgen_in_flight ") < 1.0 {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    BufReader::new(stream)
}

#[test]
fn what_is_at_work_is_finished_and_nothing_new_is_taken() {
    let mut server = start(Duration::from_secs(60));
    let mut busy = begin(&server, json!({"strategy": "best-of-n", "n": 200, "m": 1}));
    server.stop.begin();
    let answer = Reply::read(&mut busy).unwrap().ok();
    assert_eq!(answer["beamgen"]["stopped"], Value::Null);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let summary = server.join();
    assert_eq!((summary.problems, summary.stopped), (1, 0));
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn after_the_drain_time_a_search_ends_with_what_it_has() {
    let mut server = start(Duration::from_millis(300));
    let mut busy = begin(&server, json!({"strategy": "best-of-n", "n": 500, "m": 1}));
    let started = Instant::now();
    server.stop.begin();
    let reply = Reply::read(&mut busy).unwrap();
    match reply.status {
        200 => assert_eq!(reply.json()["beamgen"]["stopped"], "cancelled"),
        _ => assert_eq!(reply.refusal().1, "stopping"),
    }
    let summary = server.join();
    assert_eq!((summary.problems, summary.stopped), (1, 1));
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_server_without_work_stops_at_once() {
    let mut server = start(Duration::from_secs(60));
    assert_eq!(server.get("/health").status, 200);
    let idle = server.connect();
    let started = Instant::now();
    server.stop.begin();
    server.join();
    assert!(started.elapsed() < Duration::from_secs(30));
    drop(idle);
}
