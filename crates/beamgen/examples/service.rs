//! A service: requests from an async runtime, a timeout, cancellation, a bounded queue. A ticket is
//! a future and needs no particular runtime; this one is tokio.
//!
//! `cargo run --release -p beamgen --example service`

use std::time::Duration;

use beamgen::result::Stopped;
use beamgen::service::{ServiceError, ServiceOptions};
use beamgen::{Progress, Solver};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = ServiceOptions {
        queue: 8,
        ..ServiceOptions::default()
    };
    let service = Solver::builder().build()?.spawn(options);
    let problems = beamgen::bundled::sample()?.problems;

    // One request, watched as it goes.
    let request = service.request(&problems[0]).on_progress(|progress| {
        if let Progress::StepScored { score, .. } = progress
            && *score > 0.95
        {
            println!("  a step scored {score:.3}");
        }
    });
    let result = service.submit(request)?.await?;
    println!("first: {}", result.answer.as_deref().unwrap_or("none"));

    // More than the queue holds: the caller is told, and tries again.
    let mut tickets = Vec::new();
    let mut refused = 0;
    for (i, problem) in problems.iter().take(30).enumerate() {
        loop {
            let request = service.request(problem).n(8).seed(i as u64);
            match service.submit(request.timeout(Duration::from_secs(20))) {
                Ok(ticket) => break tickets.push(ticket),
                Err(ServiceError::Full { .. }) => {
                    refused += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    for ticket in tickets.iter().skip(20) {
        ticket.cancel();
    }
    let (mut answered, mut cancelled) = (0, 0);
    for ticket in tickets {
        let result = ticket.await?;
        answered += usize::from(result.answer.is_some() && result.stopped.is_none());
        cancelled += usize::from(result.stopped == Some(Stopped::Cancelled));
    }
    println!("{answered} answered, {cancelled} cancelled, {refused} times the queue was full");

    let (solver, summary) = service.close()?;
    println!(
        "{} problems, {} tokens, {} bytes still held",
        summary.problems,
        summary.ledger.generated_tokens,
        solver.cache_bytes()
    );
    Ok(())
}
