//! slime's remote reward model: a single sample, whose reward is the whole answer.

use serde_json::{Value, json};

use super::chain::{problem, problem_of_prompt, turns_of};
use super::{Asked, Chain, Cutter, Format, markup, parse};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

pub(super) const FORMAT: Format = Format {
    routes: &["/get_reward"],
    marks: &["response", "prompt"],
    tells_errors: false,
    read,
};

fn read(app: &App, fields: &mut Fields) -> Result<Asked, Refusal> {
    // The reference answer, which a reward model does not read.
    fields.take("label");
    let cutter = Cutter::new(app, parse::step_separator(fields)?);
    let response = fields.text("response")?;
    let response = response.ok_or_else(|| fields.wrong("response", "missing: send a text"))?;
    let prompt = fields.take("prompt").unwrap_or_default();
    let chains = vec![chain(&cutter, &prompt, &response)];
    let asked = Asked::new(chains, |answered| {
        json!(
            answered
                .chains
                .first()
                .and_then(|only| answered.reward(only))
        )
    });
    Ok(Asked {
        unscored: parse::unscored(fields)?,
        ..asked
    })
}

/// Makes the chain of a sample. The prompt is a text, or a chat as messages.
fn chain(cutter: &Cutter, prompt: &Value, response: &str) -> Result<Chain, String> {
    let problem = match prompt {
        Value::String(text) => problem_of_prompt(text),
        Value::Array(_) => turns_of(prompt).and_then(problem),
        _ => Err("prompt: not a text: send the prompt, or its messages".to_owned()),
    };
    cutter.chain(problem?, markup::without_ends(response))
}
