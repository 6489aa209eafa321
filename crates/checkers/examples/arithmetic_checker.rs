//! The built-in checkers as an external program, which speaks the protocol of
//! docs/rewards/checkers.md.
//!
//! ```sh
//! beamgen check chains.jsonl --checker-command 'target/release/examples/arithmetic_checker'
//! ```

use std::io::{self, BufRead, Write};

use beamgen_checkers::{CHECKERS, CheckItem, Panel, Verdict};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Request {
    id: u64,
    problem: String,
    steps: Vec<String>,
}

fn main() -> io::Result<()> {
    let only = std::env::args().nth(1);
    let mut panel = Panel::default();
    for row in CHECKERS {
        if only.as_ref().is_none_or(|name| name == row.name) {
            panel.add(row.name, row.open());
        }
    }
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        // A line that is not a request has no id, so it cannot be answered.
        let Ok(request) = serde_json::from_str::<Request>(&line?) else {
            continue;
        };
        let id = panel.open(&request.problem);
        let steps = request.steps.iter().map(String::as_str).collect();
        let opinions = panel.check(&[CheckItem { id, steps }]);
        panel.release(id);
        let last = opinions[0].last().cloned().unwrap_or_default();
        let verdict = last
            .into_iter()
            .fold(Verdict::Abstain, |all, opinion| all.and(opinion.verdict));
        let answer = json!({
            "id": request.id, "verdict": verdict.name(), "reason": verdict.reason(),
        });
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
