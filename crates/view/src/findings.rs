//! Explains a wrong answer: which step went wrong, whether the scorer noticed, and whether a better
//! branch was pruned.

use beamgen_eval::Record;
use beamgen_eval::answer::{self, Verdict};
use beamgen_search::{AnswerVotes, Evidence, State};
use serde::Serialize;

use crate::search::Search;

/// The score from which a step counts as sure.
pub const SURE: f32 = 0.9;
/// The score below which the scorer takes a step for wrong.
pub const DOUBTFUL: f32 = 0.5;

/// The answer to one question about a problem's search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The question, as the page shows it.
    pub question: &'static str,
    /// The answer in a sentence or two.
    pub answer: String,
    /// The id of the step that the answer is about; `None` if there is no such step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Whether `node` ends a chain that the page shows next to the chosen chain.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rival: bool,
}

/// Returns three findings for a wrong answer, and one finding for another answer whose chain is
/// unsound. Empty if no chain was chosen.
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

/// The finding about the step that makes the chosen chain unsound.
fn unsound(record: &Record, chain: &[u32]) -> Option<Finding> {
    let unsound = record.unsound.as_ref()?;
    Some(Finding {
        question: "Is the work sound?",
        answer: format!("No: {unsound}."),
        node: chain.get(unsound.step).copied(),
        rival: false,
    })
}

/// Returns the step that is probably the first wrong one, and the evidence as a sentence.
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
    // The evidence is tried from the strongest to the weakest: an exact check, a checker's proof,
    // the place where a right chain branched off, and only then the scores.
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

/// Answers whether the scorer gave the suspected step a low score.
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

/// The last step of the best complete chain whose answer is the reference.
fn right_chain(record: &Record, search: &Search) -> Option<u32> {
    let reference = record.reference.as_deref()?;
    // Without a tree the ids of the answers' chains name no step of the page.
    let rivals = record.answers.iter().filter(|_| search.has_tree);
    rivals
        .filter(|rival| (rival.node.0 as usize) < search.steps.len())
        .find(|rival| answer::compare(&rival.answer, reference) == Verdict::Same)
        .map(|rival| rival.node.0)
}

/// Answers whether a better branch than the chosen chain was pruned.
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
    let score = |id: u32| search.steps[id as usize].chain_score;
    let best = |ids: &[u32]| {
        let scored = ids.iter().copied().filter_map(|id| Some((id, score(id)?)));
        // A later chain replaces the best only if its score is higher: of equal chains the first.
        scored
            .reduce(|best, next| if next.1 > best.1 { next } else { best })
            .map(|(id, _)| id)
    };
    // One label means that the problem's steps can be checked, so labels decide, not scores.
    let label = |id: u32| search.steps[id as usize].label;
    if pruned.iter().any(|&id| label(id).is_some()) {
        // A chain that was right so far could still have become the answer.
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

/// The clause that no right step was sampled where the chosen chain went wrong; empty if one was.
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

/// The votes and the score of an answer, as text.
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

/// The reasons for which a chain was pruned, in parentheses; empty if the run has none.
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
