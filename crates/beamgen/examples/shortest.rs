//! The example in the README: solves one problem with the bundled models, in a single call.
//!
//! `cargo run --release -p beamgen --example shortest`

fn main() -> Result<(), beamgen::Error> {
    let result = beamgen::solve(
        "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?",
    )?;
    for step in result.steps() {
        let score = step.score.unwrap_or_default();
        println!("{score:.3}  {}", step.text.trim_end());
    }
    Ok(())
}
