//! A long derivation that derives nothing, and then the answer.

use crate::probes::{Changed, Probe, Subject, Takes, Touched, Wanted};

/// Steps that would fit any problem.
const STEPS: [&str; 8] = [
    "First, let us understand what the problem asks for.",
    "We write down everything that is given.",
    "We introduce suitable notation for the unknown quantity.",
    "By the given conditions, the quantities are related to each other.",
    "Substituting what we know into this relation, we obtain an equation.",
    "Simplifying both sides of the equation step by step, we find the unknown.",
    "We check that the result satisfies all conditions of the problem.",
    "Therefore we can now state the result.",
];

pub static PROBE: Probe = Probe {
    key: "pseudo-derivation",
    name: "long pseudo-derivation",
    about: "All steps but the last are replaced by eight sentences that fit any problem; the touched step is the last, the answer.",
    takes: Takes::Right,
    wanted: Wanted::Falls,
    change,
};

fn change(subject: &Subject<'_>) -> Option<Changed> {
    let (last, before) = subject.steps.split_last()?;
    let steps = STEPS.iter().map(|&step| step.to_owned());
    let touched = Touched {
        before: Some(before.len()),
        after: STEPS.len(),
    };
    // A single step is its own derivation.
    (!before.is_empty())
        .then(|| subject.with_steps(steps.chain([last.clone()]).collect(), Some(touched)))
}
