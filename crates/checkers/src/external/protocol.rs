//! The protocol of programs that judge steps or outcomes: JSON lines, described in
//! docs/rewards/checkers.md and docs/rewards/verifiers.md.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Verdict;

/// The maximum length in bytes of the texts in one request.
const MAX_REQUEST: usize = 4 << 20;

/// The number of characters after which a reason is cut.
const MAX_REASON: usize = 500;

#[derive(Serialize)]
struct Request<'a> {
    problem: &'a str,
    steps: Vec<&'a str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcomes<'a>>,
}

/// The fields of a request for an outcome, besides problem and steps.
#[derive(Serialize)]
#[serde(tag = "kind", rename = "outcome")]
pub(crate) struct Outcomes<'a> {
    /// The answer that was found in the chain.
    pub answer: Option<&'a str>,
    /// The problem's reference answer; only for closed verifiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<&'a str>,
    /// The problem's tests; only for closed verifiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<&'a Value>,
}

/// Returns the line of the request `id`. `content` is the result of [`content`].
pub(crate) fn line(id: u64, content: &str) -> String {
    format!("{{\"id\":{id},{content}\n")
}

/// Returns a request for a verdict on the last step or, with `outcome`, on the whole chain: its line
/// without the id. Returns `None` if the texts are too long.
pub(crate) fn content(
    problem: &str,
    steps: Vec<&str>,
    outcome: Option<Outcomes<'_>>,
) -> Option<String> {
    let length = problem.len() + steps.iter().map(|step| step.len()).sum::<usize>();
    if length > MAX_REQUEST {
        return None;
    }
    let request = Request {
        problem,
        steps,
        outcome,
    };
    let object = serde_json::to_string(&request).ok()?;
    object.strip_prefix('{').map(str::to_owned)
}

#[derive(Deserialize)]
struct Line {
    id: u64,
    verdict: Word,
    reason: Option<String>,
    passed: Option<u32>,
    total: Option<u32>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub word: Word,
    /// The reason in one line, if the program gives one.
    pub reason: Option<String>,
    /// The parts of the task that are solved, and all parts.
    pub parts: Option<(u32, u32)>,
}

/// The verdict of a program. The first word is for steps, the second for outcomes; each is accepted
/// for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Word {
    #[serde(alias = "right")]
    Pass,
    #[serde(alias = "wrong")]
    Fail,
    #[serde(alias = "unknown")]
    Abstain,
}

/// Parses a line as the id of a request and the answer to it; `None` if the line is not an answer.
pub(super) fn answer(line: &[u8]) -> Option<(u64, Answer)> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let answer = Answer {
        word: line.verdict,
        reason: line.reason.as_deref().map(one_line),
        parts: line.passed.zip(line.total),
    };
    Some((line.id, answer))
}

impl From<Answer> for Verdict {
    fn from(answer: Answer) -> Self {
        match answer.word {
            Word::Pass => Self::Pass,
            Word::Fail => {
                let reason = answer.reason.unwrap_or_default();
                let given = (!reason.is_empty()).then_some(reason);
                Self::fail(given.unwrap_or_else(|| "the checker gives no reason".to_owned()))
            }
            Word::Abstain => Self::Abstain,
        }
    }
}

/// Replaces line breaks by spaces, since a reason is shown in tables and messages of one line.
fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(MAX_REASON).collect()
}
