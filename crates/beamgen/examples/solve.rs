//! The shortest way: one problem, the bundled models, the default settings.
//!
//! `cargo run --release -p beamgen --example solve`

use beamgen::Solver;

fn main() -> Result<(), beamgen::Error> {
    let mut solver = Solver::builder().build()?;
    let result = solver.solve(
        "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. \
         How many pens does Kim have?",
    )?;
    for step in result.steps() {
        let score = step.score.unwrap_or_default();
        println!("{score:.3}  {}", step.text.trim_end());
    }
    println!("answer: {}", result.answer.as_deref().unwrap_or("none"));

    // The same loaded models, other settings: nothing is loaded again.
    let request = solver
        .request(result.problem.text.as_str())
        .n(4)
        .m(2)
        .seed(1);
    let narrow = solver.solve(request)?;
    println!(
        "N = 4: {} for {} tokens, N = 16 took {}",
        narrow.answer.as_deref().unwrap_or("none"),
        narrow.ledger.generated_tokens,
        result.ledger.generated_tokens
    );
    Ok(())
}
