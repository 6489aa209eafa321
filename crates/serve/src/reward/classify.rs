//! vLLM's `/classify`: the probabilities of the classes wrong and right, for a whole chain.

use serde_json::json;

use super::vllm::{classes, take_activation, take_chains, take_common};
use super::{Asked, Format};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

pub(super) const FORMAT: Format = Format {
    routes: &["/classify"],
    marks: &["messages", "input"],
    tells_errors: false,
    read,
};

fn read(app: &App, fields: &mut Fields) -> Result<Asked, Refusal> {
    take_common(fields)?;
    let is_activated = take_activation(fields)?;
    let chains = take_chains(app, fields)?;
    Ok(Asked::new(chains, move |answered| {
        answered.list("classification", |scored| {
            let class = usize::from(scored.score >= 0.5);
            json!({
                "label": format!("LABEL_{class}"),
                "probs": classes(scored.score, is_activated),
                "num_classes": 2,
            })
        })
    }))
}
