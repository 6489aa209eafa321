//! A custom generator, which may be any function of the problem, the steps so far and a seed. This
//! function guesses digits, so the search has to find the right ones.
//!
//! `cargo run --release -p beamgen --example own_generator`

use beamgen::{Problem, Solver};

const SECRET: &str = "417";

/// Returns the last step with one more digit, or the answer when all digits are there.
fn guess(_: &Problem, steps: &[&str], seed: u64) -> String {
    let digits = steps.last().map_or("", |step| step.trim_end());
    if digits.len() == SECRET.len() {
        format!("The answer is {digits}.")
    } else {
        format!("{digits}{}", seed % 10)
    }
}

/// The share of the digits that are right.
fn share_right(_: &Problem, steps: &[&str]) -> f32 {
    let written = steps[steps.len() - 1].trim_start_matches("The answer is ");
    let right = written.chars().zip(SECRET.chars()).filter(|(a, b)| a == b);
    (right.count() as f32 + 0.5) / (SECRET.len() as f32 + 1.0)
}

fn main() -> Result<(), beamgen::Error> {
    let mut solver = Solver::builder()
        .step_generator("guesser", guess)
        .step_scorer("share right", share_right)
        .build()?;
    let request = solver.request("Which number am I thinking of?").n(64).m(16);
    let result = solver.solve(request)?;
    println!("found {}", result.answer.as_deref().unwrap_or("nothing"));
    Ok(())
}
