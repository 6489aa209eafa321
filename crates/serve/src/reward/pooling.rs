//! vLLM's `/pooling` for a process reward model: one row of class probabilities (wrong, right) for
//! each step.

use serde_json::json;

use super::vllm::{Encoding, classes, take_activation, take_chains, take_common};
use super::{Asked, Format};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

pub(super) const FORMAT: Format = Format {
    routes: &["/pooling"],
    marks: &["messages", "input"],
    tells_errors: false,
    read,
};

fn read(app: &App, fields: &mut Fields) -> Result<Asked, Refusal> {
    take_common(fields)?;
    let (is_activated, encoding) = (take_activation(fields)?, Encoding::take(fields)?);
    let chains = take_chains(app, fields)?;
    Ok(Asked::new(chains, move |answered| {
        answered.list("pooling", |scored| {
            let steps = scored.steps.iter();
            let rows: Vec<Vec<f32>> = steps.map(|&step| classes(step, is_activated)).collect();
            json!({"data": encoding.rows(&rows), "offsets": scored.offsets})
        })
    }))
}
