//! The rerank format of Cohere, Jina and vLLM: ranks responses to one problem, best first.

use serde_json::{Value, json};

use super::vllm::take_common;
use super::{Asked, Cutter, Format, parse};
use crate::app::App;
use crate::fields::Fields;
use crate::refusal::Refusal;

pub(super) const FORMAT: Format = Format {
    routes: &["/rerank", "/v1/rerank", "/v2/rerank"],
    marks: &["documents"],
    tells_errors: false,
    read,
};

fn read(app: &App, fields: &mut Fields) -> Result<Asked, Refusal> {
    take_common(fields)?;
    let cutter = Cutter::new(app, parse::step_separator(fields)?);
    let problem = fields.text("query")?;
    let problem = problem.ok_or_else(|| fields.wrong("query", "missing: send the problem"))?;
    let documents = documents(fields)?;
    // vLLM's default 0 stands for all documents.
    let most = fields
        .count("top_n")?
        .filter(|&most| most > 0)
        .unwrap_or(documents.len());
    let is_default = !fields.has("return_documents");
    let returns = fields.flag("return_documents")? || is_default;
    let chains = documents
        .iter()
        .map(|text| cutter.chain(problem.clone(), text))
        .collect();
    Ok(Asked::new(chains, move |answered| {
        let usage = answered.usage();
        let (mut ranked, mut errors) = (Vec::new(), Vec::new());
        for (index, chain) in answered.chains.into_iter().enumerate() {
            match chain {
                Ok(scored) => ranked.push((index, scored.score)),
                Err(fault) => errors.push(json!({"index": index, "error": fault.reason()})),
            }
        }
        // The sort is stable, so documents with equal scores keep their order.
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked.truncate(most);
        let results = ranked.into_iter().map(|(index, score)| {
            let mut result = json!({"index": index, "relevance_score": score});
            if returns {
                result["document"] = json!({"text": documents[index]});
            }
            result
        });
        json!({
            "id": answered.id,
            "model": answered.model,
            "results": results.collect::<Vec<Value>>(),
            "errors": errors,
            "usage": usage,
        })
    }))
}

/// Takes the documents: texts, or objects with a field `text`.
fn documents(fields: &mut Fields) -> Result<Vec<String>, Refusal> {
    let advice = "send a list of texts, or of objects with a text";
    let Some(Value::Array(list)) = fields.take("documents") else {
        return Err(fields.wrong("documents", &format!("not a list: {advice}")));
    };
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Object(mut object) => match object.shift_remove("text") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    };
    let texts: Option<Vec<String>> = list.into_iter().map(text).collect();
    texts.ok_or_else(|| fields.wrong("documents", &format!("not texts: {advice}")))
}
