//! Steps with their numbers in front of them, or without.

use crate::probes::{Changed, Probe, Subject, Takes, Wanted};

pub static PROBE: Probe = Probe {
    key: "step-prefix",
    name: "\"Step 1:\" before steps",
    about: "\"Step 1: \" and so on stands before every step; where all steps have such a prefix already, it is taken away.",
    takes: Takes::Known,
    wanted: Wanted::Same,
    change,
};

fn change(subject: &Subject<'_>) -> Option<Changed> {
    let bare: Option<Vec<String>> = subject.steps.iter().map(|step| bare(step)).collect();
    let numbered = || {
        let steps = (1..).zip(subject.steps);
        steps
            .map(|(number, step)| format!("Step {number}: {step}"))
            .collect()
    };
    Some(subject.with_steps(bare.unwrap_or_else(numbered), None))
}

/// The step without its prefix; `None` if it has none, or nothing behind it.
fn bare(step: &str) -> Option<String> {
    let rest = step.trim_start().strip_prefix("Step ")?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let bare = rest.strip_prefix(':')?.trim_start();
    (!bare.is_empty()).then(|| bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::bare;

    #[test]
    fn a_prefix_is_a_word_a_number_and_a_colon() {
        assert_eq!(bare("Step 12: a: b").as_deref(), Some("a: b"));
        for none in ["Step by step", "step 1: a", "Step 1:", "a"] {
            assert_eq!(bare(none), None, "{none}");
        }
    }
}
