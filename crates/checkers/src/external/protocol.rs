//! The protocol of external checkers: JSON lines, described in docs/rewards/checkers.md.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Verdict;

/// The maximum length in bytes of a problem and its steps in one request.
const MAX_REQUEST: usize = 4 << 20;

/// The number of characters after which a reason is cut.
const MAX_REASON: usize = 500;

#[derive(Serialize)]
struct Request<'a> {
    id: u64,
    problem: &'a str,
    steps: Vec<&'a str>,
}

/// Returns the line that asks for a verdict on the last step; `None` if the texts are too long.
pub(super) fn request(id: u64, problem: &str, steps: &[Arc<str>]) -> Option<String> {
    let length = problem.len() + steps.iter().map(|step| step.len()).sum::<usize>();
    if length > MAX_REQUEST {
        return None;
    }
    let steps = steps.iter().map(|step| &**step).collect();
    let mut line = serde_json::to_string(&Request { id, problem, steps }).ok()?;
    line.push('\n');
    Some(line)
}

#[derive(Deserialize)]
struct Line {
    id: u64,
    verdict: Word,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Pass,
    Fail,
    Abstain,
}

/// Parses a line as the id of a request and its verdict; `None` if the line is not an answer.
pub(super) fn answer(line: &[u8]) -> Option<(u64, Verdict)> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let verdict = match line.verdict {
        Word::Pass => Verdict::Pass,
        Word::Fail => Verdict::fail(one_line(line.reason.as_deref())),
        Word::Abstain => Verdict::Abstain,
    };
    Some((line.id, verdict))
}

fn one_line(reason: Option<&str>) -> String {
    let text = reason.unwrap_or("the checker gives no reason");
    // A reason is shown in tables and messages of one line, so line breaks become spaces.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(MAX_REASON).collect()
}
