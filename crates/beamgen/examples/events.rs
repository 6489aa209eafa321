//! Solves many problems together, and prints events of their searches.
//!
//! `cargo run --release -p beamgen --example events`

use std::ops::ControlFlow;

use beamgen::{ChainEvent, Event, Solver};

fn main() -> Result<(), beamgen::Error> {
    let mut solver = Solver::builder().build()?;
    let problems = beamgen::bundled::sample()?.problems;
    let (mut closed, mut pruned) = (0, 0);
    let summary = solver.run(
        problems.into_iter().take(5),
        &mut |event| {
            let Event::Chain {
                tree, node, what, ..
            } = event
            else {
                return;
            };
            match what {
                ChainEvent::Closed => closed += 1,
                ChainEvent::Pruned => pruned += 1,
                ChainEvent::Scored(score) if score > 0.9 => {
                    println!("  {score:.3}  {}", tree.node(node).text.trim_end());
                }
                _ => {}
            }
        },
        &mut |result| {
            let answer = result.answer.as_deref().unwrap_or("none");
            println!("problem {}: {answer}", result.problem.id);
            ControlFlow::Continue(())
        },
    )?;
    println!(
        "{} problems, {} tokens; {closed} steps closed, {pruned} chains pruned",
        summary.problems, summary.ledger.generated_tokens
    );
    Ok(())
}
