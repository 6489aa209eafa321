//! The lines that an external checker reads and writes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Verdict;

/// Longer requests than this are not made, in bytes.
const MAX_REQUEST: usize = 4 << 20;

/// The longest reason that is kept, in characters.
const MAX_REASON: usize = 500;

#[derive(Serialize)]
struct Request<'a> {
    id: u64,
    problem: &'a str,
    steps: Vec<&'a str>,
}

/// A line that asks about the last of the steps; `None` if it would be too long.
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

/// Reads the id and the verdict of a line; `None` if it is no answer.
pub(super) fn answer(line: &[u8]) -> Option<(u64, Verdict)> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let reason = || {
        let text = line
            .reason
            .as_deref()
            .unwrap_or("the checker gives no reason");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        text.chars().take(MAX_REASON).collect::<String>()
    };
    let verdict = match line.verdict {
        Word::Pass => Verdict::Pass,
        Word::Fail => Verdict::fail(reason()),
        Word::Abstain => Verdict::Abstain,
    };
    Some((line.id, verdict))
}
