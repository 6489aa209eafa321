//! Why the problems of a run failed, and the next step for each cause.

use std::borrow::Borrow;

use beamgen_eval::Record;
use beamgen_eval::answer::Verdict;
use beamgen_search::{AnswerVotes, State};
use serde::Serialize;

use crate::search::Search;

/// A cause of wrong answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The search failed or was refused.
    Failed,
    /// An answer was withheld.
    Withheld,
    /// The answer could not be compared with the reference.
    Grader,
    /// No chain ended by itself.
    Limit,
    /// A finished chain has the right answer, and another was chosen.
    Choice,
    /// A chain was pruned that had no wrong step, by an exact check.
    Pruned,
    /// No chain, finished or pruned, was right, by an exact check.
    Sampled,
    /// No finished chain has the right answer. Whether a right one was pruned is unknown.
    Missing,
}

/// The causes in the order of a summary: the name of each, with what to do.
const CAUSES: [(Cause, &str, &str); 8] = [
    (
        Cause::Choice,
        "a right answer was found and another was chosen",
        "try --choose and --aggregation (`beamgen bench` compares them at no cost), or a better reward model",
    ),
    (
        Cause::Pruned,
        "a chain without a wrong step was pruned",
        "keep more chains: a larger -n, a smaller -m, or search.beam.copies = \"distinct\"",
    ),
    (
        Cause::Sampled,
        "no right chain was sampled",
        "sample more: a larger -n or -m, a higher --temperature, or a better generator",
    ),
    (
        Cause::Missing,
        "no finished chain has the right answer",
        "sample more with a larger -n, or take a better generator; with --tree, `beamgen show --id` has what was pruned",
    ),
    (
        Cause::Limit,
        "no chain ended by itself",
        "raise --max-steps, --max-chain-tokens, --budget-tokens or the context",
    ),
    (
        Cause::Withheld,
        "the answer was withheld",
        "allow more errors (--max-error, search.threshold) if withheld answers are often right",
    ),
    (
        Cause::Grader,
        "the answer could not be compared with the reference",
        "read these answers: the reference may need another form",
    ),
    (
        Cause::Failed,
        "the search failed",
        "read the errors; --resume tries them again",
    ),
];

/// The failures of a run with one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// The cause.
    pub cause: Cause,
    /// The cause in words.
    pub words: &'static str,
    /// The advice for this cause, in one sentence.
    pub advice: &'static str,
    /// The ids of the problems, in the order of the run.
    pub ids: Vec<String>,
}

/// Returns the causes of the wrong answers among `searched`, the most frequent first. Problems without a reference
/// answer are left out.
#[must_use]
pub fn failures<'r, S: Borrow<Search>>(
    searched: impl IntoIterator<Item = (&'r Record, S)>,
) -> Vec<Failures> {
    let mut found: Vec<Failures> = CAUSES
        .into_iter()
        .map(|(cause, words, advice)| Failures {
            cause,
            words,
            advice,
            ids: Vec::new(),
        })
        .collect();
    for (record, search) in searched {
        let cause = cause(record, search.borrow());
        for failures in found.iter_mut().filter(|of| Some(of.cause) == cause) {
            failures.ids.push(record.id.clone());
        }
    }
    found.retain(|failures| !failures.ids.is_empty());
    found.sort_by_key(|failures| std::cmp::Reverse(failures.ids.len()));
    found
}

/// Returns the cause of a wrong answer; `None` if the answer is right or has no reference.
fn cause(record: &Record, search: &Search) -> Option<Cause> {
    if record.correct != Some(false) {
        return None;
    }
    let is_right = |answer: &AnswerVotes| record.verdict_on(answer) == Some(Verdict::Same);
    Some(if record.error.is_some() {
        Cause::Failed
    } else if record.withheld.is_some() {
        Cause::Withheld
    } else if record.cannot_tell {
        Cause::Grader
    } else if record.answers.iter().any(is_right) {
        Cause::Choice
    } else if record.answers.is_empty() {
        Cause::Limit
    } else {
        unfound(search)
    })
}

/// Returns the cause if no finished chain is right.
fn unfound(search: &Search) -> Cause {
    let label = |id: u32| search.steps[id as usize].label;
    let ids = || 1..search.steps.len() as u32;
    if !search.has_tree || !ids().any(|id| label(id).is_some()) {
        return Cause::Missing;
    }
    let is_right = |id: u32| {
        search
            .chain(id)
            .into_iter()
            .all(|id| label(id) == Some(true))
    };
    let pruned = ids().filter(|&id| search.steps[id as usize].state == State::Pruned);
    if pruned.into_iter().any(is_right) {
        Cause::Pruned
    } else {
        Cause::Sampled
    }
}

#[cfg(test)]
mod tests {
    use beamgen_search::Aggregation;
    use serde_json::{Value, json};

    use super::*;

    fn record(change: Value) -> Record {
        let answer = |text: &str, node: u32| json!({"answer": text, "votes": 1, "weight": 0.5, "score": 0.5, "node": node});
        let node = |parent: Value, text: &str, state: &str| {
            json!({"parent": parent, "children": [], "depth": 0, "stream": 0, "tokens": [1], "text": text,
                "logprob": -1.0, "score": 0.5, "state": state})
        };
        let mut chosen = node(json!(0), "wrong\n", "finished");
        chosen["finish"] = json!("answer");
        let mut line = json!({
            "id": "p", "reference": "42", "answer": "43", "correct": false, "score": 0.5, "finish": "answer",
            "steps": [{"text": "wrong", "score": 0.5}], "answers": [answer("43", 1)],
            "ledger": {"prompt_tokens": 0, "generated_tokens": 1, "scored_tokens": 1, "reused_tokens": 0,
                "forward_passes": 1, "peak_kv_bytes": 0, "seconds": 0.0},
            "tree": [node(Value::Null, "", "expanded"), chosen, node(json!(0), "right\n", "pruned")],
        });
        line["tree"][0]["children"] = json!([1, 2]);
        for (key, value) in change.as_object().unwrap() {
            line[key] = value.clone();
        }
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn each_cause_is_told_from_the_others() {
        let by_text = |_: &str, steps: &[&str]| Some(steps.last()?.trim() == "right");
        let no_check = |_: &str, _: &[&str]| None;
        let votes = |text: &str| json!([{"answer": text, "votes": 1, "weight": 0.5, "score": 0.5, "node": 1}]);
        let mut both = votes("43");
        both.as_array_mut().unwrap().push(votes("42.0")[0].clone());
        for (change, checked, wanted) in [
            (json!({"correct": true}), true, None),
            (json!({"reference": null, "correct": null}), true, None),
            (json!({"error": "lost"}), true, Some(Cause::Failed)),
            (
                json!({"answer": null, "withheld": "43"}),
                true,
                Some(Cause::Withheld),
            ),
            (json!({"cannot_tell": true}), true, Some(Cause::Grader)),
            (json!({"answers": both}), true, Some(Cause::Choice)),
            (
                json!({"answer": null, "answers": []}),
                true,
                Some(Cause::Limit),
            ),
            (json!({}), true, Some(Cause::Pruned)),
            (json!({}), false, Some(Cause::Missing)),
            (json!({"tree": null}), true, Some(Cause::Missing)),
        ] {
            let record = record(change.clone());
            let check: crate::Check<'_> = if checked { &by_text } else { &no_check };
            let search = Search::of(&record, Aggregation::Min, check);
            assert_eq!(cause(&record, &search), wanted, "{change}");
        }
        // The pruned chain is wrong, too.
        let mut wrong = record(json!({}));
        let text = serde_json::to_string(&wrong)
            .unwrap()
            .replace("right\\n", "also wrong\\n");
        wrong = serde_json::from_str(&text).unwrap();
        let search = Search::of(&wrong, Aggregation::Min, &by_text);
        assert_eq!(cause(&wrong, &search), Some(Cause::Sampled));
        let summary = failures([(&wrong, search)]);
        assert_eq!(
            (summary.len(), summary[0].ids.as_slice()),
            (1, ["p".to_owned()].as_slice())
        );
    }
}
