//! OpenRLHF's `/get_reward`: queries, each of which is a prompt with its response, and the prompts.

use serde_json::json;

use super::chain::problem_of_prompt;
use super::{Asked, Chain, Cutter, Format, markup, parse};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

pub(super) const FORMAT: Format = Format {
    routes: &["/get_reward"],
    marks: &["query", "prompts"],
    tells_errors: false,
    read,
};

/// The maximum number of bytes that may be before the prompt in its query, such as a token that
/// begins a text.
const MOST_BEFORE: usize = 64;

fn read(app: &App, fields: &mut Fields) -> Result<Asked, Refusal> {
    fields.take("model");
    // The reference answers, which a reward model does not read.
    fields.take("labels");
    let cutter = Cutter::new(app, parse::step_separator(fields)?);
    let queries = parse::texts(fields, "query")?;
    let prompts = parse::some_texts(fields, "prompts")?;
    let problems = parse::some_texts(fields, "problems")?;
    for (key, list) in [("prompts", &prompts), ("problems", &problems)] {
        if let Some(list) = list
            && list.len() != queries.len()
        {
            let reason = format!(
                "{} texts for {} of query: send one for each",
                list.len(),
                queries.len()
            );
            return Err(fields.wrong(key, &reason));
        }
    }
    let chain = |(at, query): (usize, &String)| {
        let prompt = prompts.as_ref().map(|prompts| prompts[at].as_str());
        let problem = problems.as_ref().map(|problems| problems[at].as_str());
        chain(&cutter, query, prompt, problem)
    };
    let chains = queries.iter().enumerate().map(chain).collect();
    let asked = Asked::new(chains, |answered| {
        let chains = &answered.chains;
        let rewards: Vec<Option<f32>> = chains.iter().map(|chain| answered.reward(chain)).collect();
        let (mut steps, mut offsets, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for chain in &answered.chains {
            let scored = chain.as_ref().ok();
            steps.push(scored.map(|scored| &scored.steps));
            offsets.push(scored.and_then(|scored| scored.offsets.as_ref()));
            errors.push(chain.as_ref().err().map(super::scores::Fault::reason));
        }
        json!({
            "rewards": rewards,
            "scores": rewards,
            "extra_logs": {},
            "step_rewards": steps,
            "offsets": offsets,
            "errors": errors,
        })
    });
    Ok(Asked {
        unscored: parse::unscored(fields)?,
        ..asked
    })
}

/// Makes the chain of a query. The response is the text after the prompt.
fn chain(
    cutter: &Cutter,
    query: &str,
    prompt: Option<&str>,
    problem: Option<&str>,
) -> Result<Chain, String> {
    let Some(prompt) = prompt else {
        return match problem {
            Some(_) => Err("problems without prompts: send the prompts, too".to_owned()),
            None => cutter.text(query),
        };
    };
    let before = query.len().min(prompt.len() + MOST_BEFORE);
    // The search must end at a character border, because slicing a string within a character
    // panics.
    let before = (before..=query.len())
        .find(|&at| query.is_char_boundary(at))
        .unwrap_or(query.len());
    let Some(at) = query[..before].find(prompt) else {
        return Err(
            "the query does not begin with its prompt: send both as the generator had them"
                .to_owned(),
        );
    };
    let response = markup::without_ends(&query[at + prompt.len()..]);
    let problem = match problem {
        Some(problem) => problem.to_owned(),
        None => problem_of_prompt(prompt)?,
    };
    cutter.chain(problem, response)
}
