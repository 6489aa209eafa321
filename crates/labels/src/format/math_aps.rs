//! MATH-APS of the project openr: prefixes of solutions, each with the share of completions from it
//! that reached the right answer.

use serde_json::Value;

use crate::field::{self, Record};
use crate::format::tree::{Node, chains};
use crate::{Format, LabelledChain, Reason};

pub(super) static FORMAT: Format = Format {
    name: "math-aps",
    about: "MATH-APS: solution_prefix and mc_value, one prefix an item",
    fits: |record| record.get("reasoning_steps").is_some_and(Value::is_array),
    import,
    export: None,
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    let question = field::text(record, &["question"])?;
    let mut prefixes = Vec::new();
    for item in field::list(record, &["reasoning_steps"])? {
        let item = field::object(item, "reasoning_steps", "objects")?;
        let (field, prefix) = field::needed(item, &["solution_prefix"])?;
        let prefix = prefix
            .as_str()
            .and_then(|prefix| prefix.strip_prefix(question.as_str()))
            .ok_or_else(|| {
                Reason::new(format!("field \"{field}\": must begin with the question"))
            })?;
        prefixes.push((prefix.trim_end(), share(item)?));
    }
    // After sorting, a prefix comes directly before the texts that continue it. Of equal prefixes
    // the first is kept.
    prefixes.sort_by(|a, b| a.0.cmp(b.0));
    prefixes.dedup_by(|later, first| later.0 == first.0);
    let mut nodes: Vec<Node> = Vec::new();
    let mut path: Vec<(&str, usize)> = Vec::new();
    for (prefix, soft) in prefixes {
        if prefix.is_empty() {
            continue; // the question without any step: its share labels no step
        }
        // Leaves the branches that this prefix does not continue.
        while path
            .last()
            .is_some_and(|&(outer, _)| !prefix.starts_with(outer))
        {
            path.pop();
        }
        let parent = path.last().copied();
        let text = prefix[parent.map_or(0, |(outer, _)| outer.len())..].trim();
        path.push((prefix, nodes.len()));
        nodes.push(Node {
            text: text.to_owned(),
            soft,
            parent: parent.map(|(_, at)| at),
        });
    }
    chains(&field::chain(record, question, Vec::new()), &nodes)
}

/// Reads `mc_value`, a share from 0 to 1; `None` if the field is missing.
pub(super) fn share(record: &Record) -> Result<Option<f64>, Reason> {
    match field::any(record, &["mc_value"]) {
        None => Ok(None),
        Some((field, value)) => value
            .as_f64()
            .filter(|share| (0.0..=1.0).contains(share))
            .map(Some)
            .ok_or_else(|| Reason::new(format!("field \"{field}\": write a number from 0 to 1"))),
    }
}
