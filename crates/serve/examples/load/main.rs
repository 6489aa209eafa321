//! A server under load, as Markdown tables: latencies and tokens a second beside the library alone,
//! memory over many requests, and clients that go away at random moments.
//!
//! `cargo build --release && cargo run --release -p beamgen-serve --example load -- target/release/beamgen`
//!
//! `--quick` does a tenth of the work; `--server-only` leaves out the library and the
//! memory. Every answer is compared with the one that the same request
//! has alone; the first difference or lost request ends the program.

#[path = "../../tests/client.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "shared with the tests of the server"
)]
mod client;
mod process;
mod work;

use std::io::{BufReader, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use beamgen::{Config, Solver};
use client::Reply;
use process::Process;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use work::Work;

// As in the program that is measured beside it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Plan {
    requests: usize,
    requests_for_memory: usize,
    disconnects: usize,
    clients: &'static [usize],
}

const FULL: Plan = Plan {
    requests: 2000,
    requests_for_memory: 10_000,
    disconnects: 500,
    clients: &[1, 16, 64, 256],
};

const QUICK: Plan = Plan {
    requests: 200,
    requests_for_memory: 1000,
    disconnects: 50,
    clients: &[1, 16, 64],
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_quick = arguments.iter().any(|a| a == "--quick");
    let server_only = arguments.iter().any(|a| a == "--server-only");
    let binary = arguments.iter().find(|a| !a.starts_with("--"));
    let binary = binary.ok_or("give the path of the program beamgen")?;
    let plan = if is_quick { &QUICK } else { &FULL };

    let work = Work::mixed()?;
    println!(
        "{} requests for each row, {} different ones: {}.\n",
        plan.requests,
        work.len(),
        work.summary()
    );
    println!(
        "| clients = in flight | p50 ms | p95 ms | p99 ms | tokens/s | library alone, tokens/s | cost of the server |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for &clients in plan.clients {
        let library = if server_only {
            f64::NAN
        } else {
            library_rate(&work, plan.requests, clients)?
        };
        let process = Process::start(binary, &["--in-flight", &clients.to_string()])?;
        let (seconds, mut latencies) = serve_all(&process, &work, plan.requests, clients);
        let rate = work.tokens(plan.requests) as f64 / seconds;
        latencies.sort_by(f64::total_cmp);
        let quantile = |q: f64| latencies[((latencies.len() - 1) as f64 * q) as usize] * 1e3;
        println!(
            "| {clients} | {:.1} | {:.1} | {:.1} | {rate:.0} | {library:.0} | {:.1} % |",
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
            100.0 * (1.0 - rate / library)
        );
        process.wait_until_idle();
        process.stop()?;
    }

    if !server_only {
        memory(binary, &work, plan)?;
    }
    disconnects(binary, &work, plan)
}

/// Tokens a second of the library with so many problems in flight.
fn library_rate(work: &Work, requests: usize, in_flight: usize) -> Result<f64, beamgen::Error> {
    let mut config = Config::default();
    config.search.in_flight = in_flight;
    let mut solver = Solver::builder().config(config).load_scorer().build()?;
    let asked = (0..requests).map(|i| work.request(i));
    let started = Instant::now();
    let mut tokens = 0;
    solver.run_requests(asked, &mut |_| {}, &mut |result| {
        tokens += result.ledger.generated_tokens;
        ControlFlow::Continue(())
    })?;
    assert_eq!(tokens, work.tokens(requests));
    Ok(tokens as f64 / started.elapsed().as_secs_f64())
}

/// Sends the first `requests` requests from so many clients, each on a connection of its own that it
/// keeps. Gives the seconds of all together and of each; every answer is checked.
fn serve_all(process: &Process, work: &Work, requests: usize, clients: usize) -> (f64, Vec<f64>) {
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let answered: Vec<Vec<(usize, f64, Reply)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = BufReader::new(process.connect());
                    let mut answered = Vec::new();
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= requests {
                            return answered;
                        }
                        let started = Instant::now();
                        let sent = connection.get_mut().write_all(work.bytes(index));
                        sent.expect("the server reads");
                        let reply = Reply::read(&mut connection).expect("no request is lost");
                        answered.push((index, started.elapsed().as_secs_f64(), reply));
                    }
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join();
        let joined = threads.into_iter().map(join);
        joined.collect::<Result<_, _>>().expect("no client fails")
    });
    let seconds = started.elapsed().as_secs_f64();
    let answered: Vec<_> = answered.into_iter().flatten().collect();
    assert_eq!(answered.len(), requests);
    for (index, _, reply) in &answered {
        work.check(*index, reply);
    }
    (seconds, answered.into_iter().map(|(_, s, _)| s).collect())
}

/// Resident memory after every tenth of many requests.
fn memory(binary: &str, work: &Work, plan: &Plan) -> Result<(), Box<dyn std::error::Error>> {
    let process = Process::start(binary, &["--in-flight", "16"])?;
    let tenth = plan.requests_for_memory / 10;
    println!(
        "\nMemory of the server over {} requests, 16 clients:\n",
        10 * tenth
    );
    println!("| requests | resident MiB | chains hold, bytes |\n|---:|---:|---:|");
    for part in 1..=10 {
        serve_all(&process, work, tenth, 16);
        process.wait_until_idle();
        let held = process.metric("beamgen_cache_bytes ");
        println!(
            "| {} | {:.1} | {held} |",
            part * tenth,
            process.resident_mib()?
        );
    }
    process.stop()
}

/// Clients that go away at random moments, plain and streamed.
fn disconnects(binary: &str, work: &Work, plan: &Plan) -> Result<(), Box<dyn std::error::Error>> {
    let process = Process::start(binary, &["--in-flight", "16"])?;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (next, process) = (&next, &process);
            scope.spawn(move || {
                let mut rng = ChaCha8Rng::seed_from_u64(thread);
                while next.fetch_add(1, Ordering::Relaxed) < plan.disconnects {
                    let mut stream = process.connect();
                    let bytes = work.long(rng.random_range(0..work.len()), rng.random_bool(0.5));
                    let most = bytes.len();
                    // Some go before the request is whole.
                    let at = if rng.random_bool(0.1) {
                        rng.random_range(0..most)
                    } else {
                        most
                    };
                    stream.write_all(&bytes[..at]).expect("the server reads");
                    std::thread::sleep(Duration::from_micros(rng.random_range(0..300_000)));
                }
            });
        }
    });
    let seconds = process.wait_until_idle();
    let ended = process.metric("beamgen_stopped_total{reason=\"disconnected\"} ");
    println!(
        "\n{} clients went away at random moments; {ended} searches ended with them. Queue, work and cache were at zero {:.3} s after the last.",
        plan.disconnects, seconds
    );
    // And it answers as before.
    serve_all(&process, work, work.len(), 16);
    process.stop()
}
