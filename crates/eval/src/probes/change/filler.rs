//! Steps that say nothing between the others.

use crate::probes::{Changed, Probe, Subject, Takes, Touched, Wanted};

/// In turn.
const FILLERS: [&str; 3] = [
    "Let us think about this step by step.",
    "This is an important observation.",
    "We can now go on with the next step.",
];

pub static PROBE: Probe = Probe {
    key: "filler",
    name: "padded with filler",
    about: "A sentence that says nothing stands before every step; the touched step is the first of them.",
    takes: Takes::Known,
    wanted: Wanted::NoGain,
    change,
};

fn change(subject: &Subject<'_>) -> Option<Changed> {
    let fillers = FILLERS.iter().cycle();
    let steps = subject.steps.iter().zip(fillers);
    let steps = steps.flat_map(|(step, &filler)| [filler.to_owned(), step.clone()]);
    let touched = Touched {
        before: None,
        after: 0,
    };
    Some(subject.with_steps(steps.collect(), Some(touched)))
}
