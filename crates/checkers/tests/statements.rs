//! Random true statements get no fail, and statements that one number makes false do.
//!
//! By default a few thousand of each. A whole run, and a file of the false ones for another binary:
//!
//! ```sh
//! STATEMENTS=100000 cargo test --release -p beamgen-checkers --test statements -- --nocapture
//! STATEMENTS_OUT=false.jsonl STATEMENTS=100000 cargo test --release -p beamgen-checkers --test statements
//! beamgen check false.jsonl --checker arithmetic
//! ```

mod generate;

use std::io::Write;

use beamgen_checkers::{CHECKERS, CheckItem, Panel};
use generate::{Random, Statement, statement};

/// The seed of all statements.
const SEED: u64 = 20_261_126;

/// Returns the number of true statements, 5000 by default. The full run has one false statement per
/// ten true ones.
fn count() -> u64 {
    let set = std::env::var("STATEMENTS").ok();
    set.map_or(5000, |count| {
        count.parse().expect("STATEMENTS is a whole number")
    })
}

/// The reasons of all fails of a chain.
fn fails(panel: &mut Panel, statement: &Statement) -> Vec<String> {
    let id = panel.open(&statement.problem);
    let steps = statement.steps.iter().map(String::as_str).collect();
    let opinions = panel.check(&[CheckItem { id, steps }]);
    panel.release(id);
    let verdicts = opinions.into_iter().flatten().flatten();
    verdicts
        .filter_map(|opinion| opinion.verdict.reason().map(str::to_owned))
        .collect()
}

fn all_checkers() -> Panel {
    let mut panel = Panel::default();
    for row in CHECKERS {
        panel.add(row.name, row.open());
    }
    panel
}

#[test]
fn no_true_statement_fails() {
    let mut panel = all_checkers();
    let failed = (0..count()).filter_map(|number| {
        let statement = statement(&mut Random::new(SEED, number), false);
        let reasons = fails(&mut panel, &statement);
        (!reasons.is_empty()).then_some((number, statement, reasons))
    });
    let failed: Vec<_> = failed.take(5).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The share of statements made false by one number that failed at d2ef021
/// (benches/results/2026-11-26-checkers).
const SHARE_BEFORE: f64 = 0.8875;

#[test]
fn false_statements_fail_as_often_as_ever() {
    let mut panel = all_checkers();
    let mut out = std::env::var("STATEMENTS_OUT")
        .ok()
        .map(|path| std::fs::File::create(path).expect("STATEMENTS_OUT can be written"));
    let count = count() / if count() > 5000 { 10 } else { 5 };
    let mut failed = 0;
    for number in 0..count {
        let statement = statement(&mut Random::new(SEED + 1, number), true);
        failed += u64::from(!fails(&mut panel, &statement).is_empty());
        if let Some(out) = &mut out {
            let record = serde_json::json!({
                "id": number.to_string(), "problem": statement.problem, "steps": statement.steps,
                "label": statement.steps.len() - 1, "final_answer_correct": false, "generator": "made",
            });
            writeln!(out, "{record}").expect("STATEMENTS_OUT can be written");
        }
    }
    println!("{failed} of {count} false statements fail");
    #[allow(clippy::cast_precision_loss)]
    let share = failed as f64 / count as f64;
    assert!(share >= SHARE_BEFORE, "only {failed} of {count}");
}
