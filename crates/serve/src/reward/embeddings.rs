//! SGLang's `/v1/embeddings`, which trainers use to get rewards: an embedding of one number, the
//! score of the chain.

use serde_json::json;

use super::vllm::{Encoding, take_chains, take_common};
use super::{Asked, Format};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

pub(super) const FORMAT: Format = Format {
    routes: &["/v1/embeddings"],
    marks: &["input", "messages"],
    tells_errors: false,
    read,
};

fn read(app: &App, fields: &mut Fields) -> Result<Asked, Refusal> {
    take_common(fields)?;
    let encoding = Encoding::take(fields)?;
    let chains = take_chains(app, fields)?;
    Ok(Asked::new(chains, move |answered| {
        answered.list(
            "embedding",
            |scored| json!({"embedding": encoding.numbers(&[scored.score])}),
        )
    }))
}
