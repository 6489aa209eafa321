//! Records in the forms of others: a row of a table, and search-and-learn's completions.

use beamgen_search::ChainTree;
use serde_json::{Map, Value, json};

use crate::Record;

impl Record {
    /// Returns the record as a row of a table: the problem, its answer and its costs.
    pub fn row(&self) -> Map<String, Value> {
        let chosen = self.answers.first();
        let text: Vec<&str> = self.steps.iter().map(|step| step.text.as_str()).collect();
        let columns = [
            ("id", json!(self.id)),
            ("problem", json!(self.problem)),
            ("reference", json!(self.reference)),
            ("answer", json!(self.answer)),
            ("correct", json!(self.correct)),
            ("guess", json!(self.guess)),
            ("withheld", json!(self.withheld)),
            ("unsound", json!(self.unsound.is_some())),
            ("score", json!(self.score)),
            ("votes", json!(chosen.map(|answer| answer.votes))),
            ("step_count", json!(self.steps.len())),
            ("solution", json!(text.join("\n"))),
            ("finish", json!(self.finish)),
            ("error", json!(self.error)),
            ("generated_tokens", json!(self.ledger.generated_tokens)),
            ("scored_tokens", json!(self.ledger.scored_tokens)),
            ("seconds", json!(self.ledger.seconds)),
        ];
        let columns = columns.into_iter();
        columns
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Returns the record in search-and-learn's format: `problem`, `answer` (the reference), `completions` (all
    /// complete chains, copies too), `scores` (of the steps of each), `completion_tokens` and `pred` (the chosen chain).
    /// `None` without a tree.
    pub fn completions(&self) -> Option<Value> {
        let tree = self.tree.as_ref()?;
        let mut completions: Vec<String> = Vec::new();
        let (mut scores, mut tokens) = (Vec::new(), Vec::new());
        for (id, node) in tree.nodes() {
            if id == ChainTree::ROOT || !node.is_complete() || node.duplicate_of.is_some() {
                continue;
            }
            let steps: Vec<Option<f32>> = tree.steps(id).map(|step| step.score).collect();
            let sampled: usize = tree.steps(id).map(|step| step.tokens.len()).sum();
            for _ in 0..node.copies {
                completions.push(tree.text(id));
                scores.push(steps.clone());
                tokens.push(sampled);
            }
        }
        let chosen = self.answers.first();
        let chosen = chosen.filter(|answer| (answer.node.0 as usize) < tree.len());
        Some(json!({
            "unique_id": self.id,
            "problem": self.problem,
            "answer": self.reference,
            "completions": completions,
            "scores": scores,
            "completion_tokens": tokens,
            "pred": chosen.map(|answer| tree.text(answer.node)),
        }))
    }
}
