//! A custom scorer, which may be any function of the problem and the steps so far.
//!
//! `cargo run --release -p beamgen --example own_scorer`

use beamgen::{Problem, Solver};

/// The probability that the last step is right. This one believes a step whose sum is right.
fn sums_are_right(_: &Problem, steps: &[&str]) -> f32 {
    let last = steps[steps.len() - 1];
    let Some((sum, result)) = last.rsplit_once(" = ") else {
        return 0.5;
    };
    let numbers = |text: &str| -> Vec<i64> {
        let words = text.split(|c: char| !c.is_ascii_digit());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let (parts, result) = (numbers(sum), numbers(result));
    let (Some(&[a, b]), Some(&result)) = (parts.last_chunk(), result.first()) else {
        return 0.5;
    };
    let possible = [a + b, a - b, a * b, a / b.max(1)];
    if possible.contains(&result) { 0.9 } else { 0.1 }
}

fn main() -> Result<(), beamgen::Error> {
    let mut solver = Solver::builder()
        .step_scorer("sums are right", sums_are_right)
        .build()?;
    let (mut right, mut all) = (0, 0);
    for problem in beamgen::bundled::sample()?.problems.iter().take(10) {
        let result = solver.solve(problem)?;
        right += usize::from(result.answer == problem.answer);
        all += 1;
    }
    println!("{right} of {all} right");
    Ok(())
}
