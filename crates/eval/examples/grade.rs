//! Grades pairs of answers: reads lines `{"answer": A, "expected": E}` from standard input and
//! writes a line `{"verdict": V, "answer": C, "expected": D}` for each, where C and D are the
//! canonical forms. With `"solution": S` instead of an answer, the answer is taken out of the
//! solution first.
//!
//!     cargo run --release -p beamgen-eval --example grade < pairs.jsonl

use std::io::{BufWriter, Write, stdin, stdout};

use beamgen_eval::answer::{Verdict, class, compare, extract};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    answer: Option<String>,
    solution: Option<String>,
    expected: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut output = BufWriter::new(stdout().lock());
    for (number, line) in stdin().lines().enumerate() {
        let pair: Pair = serde_json::from_str(&line?)
            .map_err(|fault| format!("line {}: {fault}", number + 1))?;
        let found = pair.solution.as_deref().and_then(extract);
        let answer = pair.answer.or(found.map(|found| found.text));
        let verdict = match &answer {
            Some(answer) => compare(answer, &pair.expected),
            None => Verdict::Different,
        };
        let line = json!({
            "verdict": verdict, "answer": answer.as_deref().map(class), "expected": class(&pair.expected),
        });
        writeln!(output, "{line}")?;
    }
    output.flush()?;
    Ok(())
}
