//! Explanations of a wrong answer: which step is wrong, whether the scorer noticed, and whether a
//! better branch was pruned.

use beamgen_eval::Record;
use beamgen_eval::answer::Verdict;
use beamgen_search::{AnswerVotes, Evidence, State};
use serde::Serialize;

use crate::search::Search;

/// The lowest score of a step about which the scorer is sure.
pub const SURE: f32 = 0.9;
/// A step below this score counts as wrong for the scorer.
pub const DOUBTFUL: f32 = 0.5;

/// One question about a problem's search, with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The text of the question on the page.
    pub question: &'static str,
    /// The answer in one or two sentences.
    pub answer: String,
    /// The id of the step that the answer names; `None` if it names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Whether `node` is the end of another chain, which the page shows next to the chosen one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rival: bool,
}

/// Explains the outcome of a problem. A wrong answer has three findings; any other answer has one
/// if its chain is unsound. Without a chosen chain there are none.
#[must_use]
pub fn findings(record: &Record, search: &Search) -> Vec<Finding> {
    let Some(chain) = search.chosen.map(|chosen| search.chain(chosen)) else {
        return Vec::new();
    };
    if record.correct != Some(false) || record.withheld.is_some() {
        return unsound(record, &chain).into_iter().collect();
    }
    let right = right_chain(record, search);
    let suspect = suspect(record, search, &chain, right);
    let seen = Finding {
        question: "Did the scorer see it?",
        answer: seen(search, suspect.as_ref().map(|(node, _)| *node)),
        node: None,
        rival: false,
    };
    let (node, answer) = suspect.unzip();
    let which = Finding {
        question: "Which step went wrong?",
        answer: answer.unwrap_or_else(|| "Unknown: no step was scored.".to_owned()),
        node,
        rival: false,
    };
    vec![which, seen, better(record, search, right)]
}

/// Returns the finding that the chosen chain is unsound, if the record says so.
fn unsound(record: &Record, chain: &[u32]) -> Option<Finding> {
    let unsound = record.unsound.as_ref()?;
    Some(Finding {
        question: "Is the work sound?",
        answer: format!("No: {unsound}."),
        node: chain.get(unsound.step).copied(),
        rival: false,
    })
}

/// Returns the step that is probably the first wrong one, with a sentence about the evidence.
fn suspect(
    record: &Record,
    search: &Search,
    chain: &[u32],
    right: Option<u32>,
) -> Option<(u32, String)> {
    let step = |id: u32| &search.steps[id as usize];
    let number = |id: u32| {
        chain
            .iter()
            .position(|&step| step == id)
            .map_or(0, |at| at + 1)
    };
    // The strongest evidence is used: an exact check, then a checker's proof, then the step at
    // which a right chain branches off, and last the scores.
    if let Some(&wrong) = chain.iter().find(|&&id| step(id).label == Some(false)) {
        return Some((wrong, format!("Step {}, by an exact check.", number(wrong))));
    }
    let proved = record.unsound.as_ref();
    if let Some(unsound) = proved.filter(|unsound| unsound.by != Evidence::Scorer)
        && let Some(&node) = chain.get(unsound.step)
    {
        return Some((node, format!("By a checker, {unsound}.")));
    }
    if let Some(right) = right {
        let shared = search.chain(right);
        let leaves = chain.iter().find(|id| !shared.contains(id));
        if let Some(&left) = leaves {
            let text = format!(
                "Step {} or later: up to there the chain is that of #{right}, which ends in the right answer.",
                number(left)
            );
            return Some((left, text));
        }
    }
    let scored = || chain.iter().filter_map(|&id| Some((id, step(id).score?)));
    if let Some((id, score)) = scored().find(|(_, score)| *score < DOUBTFUL) {
        let text = format!(
            "Probably step {}, the first with a score below {DOUBTFUL}: {score:.3}.",
            number(id)
        );
        return Some((id, text));
    }
    let (id, score) = scored().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let text = format!(
        "Uncertain. Step {} has the lowest score, {score:.3}.",
        number(id)
    );
    Some((id, text))
}

/// Describes whether the score of the suspected step was low.
fn seen(search: &Search, suspect: Option<u32>) -> String {
    match suspect.and_then(|node| search.steps[node as usize].score) {
        None => "It has no score.".to_owned(),
        Some(score) if score < DOUBTFUL => {
            format!("Yes, it scored {score:.3}, and the chain was chosen all the same.")
        }
        Some(score) if score < SURE => {
            format!("In part: it scored {score:.3}; a sure step has {SURE} or more.")
        }
        Some(score) => format!("No, it scored {score:.3}."),
    }
}

/// Returns the last step of the best complete chain with the right answer.
fn right_chain(record: &Record, search: &Search) -> Option<u32> {
    // Without a tree the page does not have the steps that the answers refer to.
    let rivals = record.answers.iter().filter(|_| search.has_tree);
    rivals
        .filter(|rival| (rival.node.0 as usize) < search.steps.len())
        .find(|rival| record.verdict_on(rival) == Some(Verdict::Same))
        .map(|rival| rival.node.0)
}

/// Describes whether a better branch than the chosen chain was pruned.
fn better(record: &Record, search: &Search, right: Option<u32>) -> Finding {
    let finding = |answer: String, node: Option<u32>| Finding {
        question: "Was a better branch pruned?",
        answer,
        node,
        rival: node.is_some(),
    };
    if !search.has_tree {
        return finding("Unknown: the run has no tree.".to_owned(), None);
    }
    if let Some(right) = right {
        let rival = record.answers.iter().find(|rival| rival.node.0 == right);
        let (votes, score) = standing(rival);
        let (over, best) = standing(record.answers.first());
        let text = format!(
            "No: the right answer was found and not chosen. It has {votes} and the score {score}; the chosen one {over} and {best}."
        );
        return finding(text, Some(right));
    }
    let pruned: Vec<u32> = (1..search.steps.len() as u32)
        .filter(|&id| search.steps[id as usize].state == State::Pruned)
        .collect();
    let all = pruned.len();
    if all == 0 {
        return finding("No: nothing was pruned.".to_owned(), None);
    }
    let score = |id: u32| search.steps[id as usize].chain_score;
    let best = |ids: &[u32]| {
        let scored = ids.iter().copied().filter_map(|id| Some((id, score(id)?)));
        // On equal scores the first chain is kept, since `reduce` replaces only for a higher score.
        scored
            .reduce(|best, next| if next.1 > best.1 { next } else { best })
            .map(|(id, _)| id)
    };
    // If one step has a label, the problem's steps can be checked: labels are better evidence than
    // scores.
    let label = |id: u32| search.steps[id as usize].label;
    if pruned.iter().any(|&id| label(id).is_some()) {
        // A pruned chain without a wrong step could still have led to the right answer.
        let right: Vec<u32> = pruned
            .iter()
            .copied()
            .filter(|&id| {
                search
                    .chain(id)
                    .into_iter()
                    .all(|id| label(id) == Some(true))
            })
            .collect();
        return if let Some(&first) = right.first() {
            let shown = best(&right).unwrap_or(first);
            let (right, why) = (right.len(), why(search, shown));
            let text = format!(
                "Yes: {right} of {all} pruned chains were right so far, by an exact check. The best one is #{shown}{why}."
            );
            finding(text, Some(shown))
        } else {
            let missing = missing(search);
            let text = format!(
                "No: none of the {all} pruned chains was right, by an exact check{missing}."
            );
            finding(text, None)
        };
    }
    let at_end = record.score.unwrap_or(f32::INFINITY);
    let higher: Vec<u32> = pruned
        .iter()
        .copied()
        .filter(|&id| score(id).is_some_and(|score| score > at_end))
        .collect();
    if let Some(shown) = best(&higher) {
        let (higher, why) = (higher.len(), why(search, shown));
        let text = format!(
            "Perhaps: {higher} of {all} pruned chains had a higher score when they were dropped than the chosen one at its end. The best one is #{shown}{why}."
        );
        finding(text, Some(shown))
    } else {
        let text = format!(
            "Nothing points to one: none of the {all} pruned chains had a higher score than the chosen one."
        );
        finding(text, None)
    }
}

/// Returns a clause if no right step was sampled at the depth of the chosen chain's first wrong
/// step; otherwise an empty text.
fn missing(search: &Search) -> String {
    let label = |id: u32| search.steps[id as usize].label;
    let chain = search.chosen.map_or_else(Vec::new, |end| search.chain(end));
    let Some(at) = chain.iter().position(|&id| label(id) == Some(false)) else {
        return String::new();
    };
    let mut ids = 1..search.steps.len() as u32;
    if ids.any(|id| label(id) == Some(true) && search.chain(id).len() == at + 1) {
        String::new()
    } else {
        format!("; no right step {} was sampled", at + 1)
    }
}

/// Returns the votes and the score of an answer, formatted for a sentence.
fn standing(answer: Option<&AnswerVotes>) -> (String, String) {
    let votes = match answer.map_or(0, |answer| answer.votes) {
        1 => "1 vote".to_owned(),
        votes => format!("{votes} votes"),
    };
    let score = answer.and_then(|answer| answer.score);
    (
        votes,
        score.map_or("-".to_owned(), |score| format!("{score:.3}")),
    )
}

/// Returns the facts about the pruning of a chain in parentheses; empty if the run records none.
fn why(search: &Search, id: u32) -> String {
    let step = &search.steps[id as usize];
    let mut parts = Vec::new();
    parts.extend(step.chain_score.map(|score| format!("score {score:.3}")));
    if let Some(pruned) = step.pruned {
        if let (Some(rank), Some(all)) = (pruned.rank, pruned.candidates) {
            parts.push(format!("rank {rank} of {all}"));
        }
        parts.extend(pruned.cutoff.map(|cutoff| format!("cut-off {cutoff:.3}")));
        parts.extend(pruned.round.map(|round| format!("round {round}")));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ({})", parts.join(", "))
    }
}
