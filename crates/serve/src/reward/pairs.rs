//! vLLM's `/score`: pairs of a problem and a response, as two lists under any of the names that
//! vLLM's versions use.

use serde_json::json;

use super::vllm::take_common;
use super::{Asked, Cutter, Format, parse};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

pub(super) const FORMAT: Format = Format {
    routes: &["/score", "/v1/score"],
    marks: &[
        "text_1",
        "text_2",
        "queries",
        "documents",
        "items",
        "data_1",
        "data_2",
    ],
    tells_errors: false,
    read,
};

/// The names of the list of problems and of the list of responses.
pub(super) const NAMES: [(&str, &str); 4] = [
    ("text_1", "text_2"),
    ("queries", "documents"),
    ("queries", "items"),
    ("data_1", "data_2"),
];

fn read(app: &App, fields: &mut Fields) -> Result<Asked, Refusal> {
    take_common(fields)?;
    let cutter = Cutter::new(app, parse::step_separator(fields)?);
    let named = NAMES
        .iter()
        .find(|(one, other)| fields.has(one) && fields.has(other));
    let &(one, other) = named.unwrap_or(&NAMES[0]);
    let (problems, responses) = (parse::texts(fields, one)?, parse::texts(fields, other)?);
    let count = responses.len();
    if problems.len() != 1 && problems.len() != count {
        let reason = format!(
            "{} texts for {count} of {other}: send one, or one for each",
            problems.len()
        );
        return Err(fields.wrong(one, &reason));
    }
    let problems = problems.iter().cycle();
    let pairs = problems.zip(&responses);
    let chains = pairs
        .map(|(problem, response)| cutter.chain(problem.clone(), response))
        .collect();
    Ok(Asked::new(chains, |answered| {
        answered.list("score", |scored| json!({"score": scored.score}))
    }))
}
