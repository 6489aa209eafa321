//! Sends thousands of invalid requests. None of them may end a thread, get an answer that blames
//! the server, or disturb valid requests that run at the same time. The seed is fixed.
//!
//! This is a separate program, because it counts the panics of the whole process.

#[path = "../client.rs"]
#[allow(dead_code, reason = "shared with the tests of the server")]
mod client;
mod mutate;

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use beamgen_serve::{Limits, ServeOptions};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use client::{Reply, Running, ask, essence, problem};
use mutate::{Delivery, Mutation};

const REQUESTS: usize = 5000;
const THREADS: usize = 8;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Returns the status of the answer, or `None` if the connection ended without one.
fn outcome(server: &Running, mutation: &Mutation) -> Option<u16> {
    let mut stream = server.connect();
    let most = Some(Duration::from_secs(20));
    stream.set_read_timeout(most).expect("a timeout");
    let bytes = &mutation.bytes;
    // The server may refuse before it has read everything: writing then fails, and that is fine.
    match mutation.delivery {
        Delivery::Whole => drop(stream.write_all(bytes)),
        Delivery::InPieces => {
            for piece in bytes.chunks(bytes.len().div_ceil(4).max(1)) {
                let _ = stream.write_all(piece);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Delivery::HalfClosed => {
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(Shutdown::Write);
        }
        Delivery::CutOff(at) => {
            let _ = stream.write_all(&bytes[..at.min(bytes.len())]);
            return None;
        }
        Delivery::Stalled(at) => drop(stream.write_all(&bytes[..at.min(bytes.len())])),
    }
    match Reply::read(&mut BufReader::new(stream)) {
        Ok(reply) => Some(reply.status),
        Err(error) => {
            let kind = error.kind();
            let waits = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
            assert!(!waits.contains(&kind), "no end: {}", mutation.name);
            None
        }
    }
}

#[test]
fn five_thousand_wrong_requests_harm_nobody() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        hook(info);
    }));
    let limits = Limits {
        tokens: 4 * 2048,
        head_time: Duration::from_millis(250),
        body_time: Duration::from_millis(250),
        search_time: Duration::from_secs(5),
        body_bytes: 64 << 10,
        ..Limits::default()
    };
    let server = Running::start(ServeOptions {
        limits,
        ..ServeOptions::default()
    });
    let valid = ask(&problem(0), json!({"n": 4, "m": 2}));
    let wanted = essence(&server.chat(&valid).ok());

    let (over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let counts = std::thread::scope(|scope| {
        // Somebody who does everything right gets the same answer all the time.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(essence(&server.chat(&valid).ok()), wanted);
                served.fetch_add(1, Ordering::Relaxed);
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let server = &server;
                scope.spawn(move || {
                    let mut counts: BTreeMap<(&str, Option<u16>), usize> = BTreeMap::new();
                    let mut rng = ChaCha8Rng::seed_from_u64(thread as u64);
                    for _ in 0..REQUESTS / THREADS {
                        let mutation = Mutation::sample(&mut rng);
                        let status = outcome(server, &mutation);
                        let fine = status.is_none_or(|s| (200..500).contains(&s) || s == 505);
                        let shown = String::from_utf8_lossy(&mutation.bytes);
                        let shown: String = shown.chars().take(600).collect();
                        assert!(fine, "{status:?} to {}: {shown}", mutation.name);
                        *counts.entry((mutation.name, status)).or_default() += 1;
                    }
                    counts
                })
            })
            .collect();
        let ended: Vec<_> = threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        over.store(true, Ordering::Relaxed);
        let mut counts: BTreeMap<(&str, Option<u16>), usize> = BTreeMap::new();
        for counted in ended {
            for (key, count) in counted.expect("no request was answered wrongly") {
                *counts.entry(key).or_default() += count;
            }
        }
        counts
    });

    for ((name, status), count) in &counts {
        println!("{name:28} {status:?} {count}");
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    assert!(served.load(Ordering::Relaxed) > 20, "{served:?}");
    let refused = |(key, count): (&(&str, Option<u16>), &usize)| match key.1 {
        Some(200) => 0,
        _ => *count,
    };
    let refused: usize = counts.iter().map(refused).sum();
    assert!(refused > REQUESTS / 2, "most are wrong: {refused}");
    server.wait_until_idle();
    assert_eq!(essence(&server.chat(&valid).ok()), wanted);
}
