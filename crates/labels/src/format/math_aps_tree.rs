//! MATH-APS of the project openr as a tree: the root is the question, every other node is a step.

use serde_json::Value;

use crate::field::{self, Record};
use crate::format::math_aps::share;
use crate::format::tree::{Node, chains};
use crate::{Format, LabelledChain, Reason};

pub(super) static FORMAT: Format = Format {
    name: "math-aps-tree",
    about: "MATH-APS as a tree of text, mc_value, children",
    fits: |record| record.get("reasoning_steps").is_some_and(Value::is_object),
    import,
    export: None,
};

fn import(record: &Record) -> Result<Vec<LabelledChain>, Reason> {
    let question = field::text(record, &["question"])?;
    let (field, root) = field::needed(record, &["reasoning_steps"])?;
    let root = field::object(root, field, "an object")?;
    if field::text(root, &["text"])?.trim() != question.trim() {
        return Err(Reason::new(
            "field \"text\": the tree's root is not the question",
        ));
    }
    let mut nodes = Vec::new();
    grow(root, None, &mut nodes)?;
    chains(&field::chain(record, question, Vec::new()), &nodes)
}

/// Appends all nodes below `node`; `at` is its index, `None` for the root. The JSON reader limits
/// the nesting, so the recursion is bounded.
fn grow(node: &Record, at: Option<usize>, nodes: &mut Vec<Node>) -> Result<(), Reason> {
    if field::any(node, &["children"]).is_none() {
        return Ok(());
    }
    for child in field::list(node, &["children"])? {
        let child = field::object(child, "children", "objects")?;
        let here = nodes.len();
        nodes.push(Node {
            text: field::text(child, &["text"])?.trim().to_owned(),
            soft: share(child)?,
            parent: at,
        });
        grow(child, Some(here), nodes)?;
    }
    Ok(())
}
