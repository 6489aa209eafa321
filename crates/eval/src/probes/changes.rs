//! The table of probes, followed by the functions of those changes that do not fit into a row.

use std::ops::Range;

use super::{Changed, Probe, Subject, Takes, Touched, Wanted};

/// All probes, in the order of reports. New probes must be added at the end, see [`FIRST_PROBES`].
pub static PROBES: [&Probe; 15] = [
    &Probe {
        key: "question-removed",
        name: "question removed",
        about: "The problem is replaced by \"Solve the problem.\", which gives nothing.",
        takes: Takes::Right,
        wanted: Wanted::Falls,
        change: |subject| Some(subject.with_problem(NOTHING)),
    },
    &Probe {
        key: "question-swapped",
        name: "question of another problem",
        about: "The problem is replaced by the next other problem of the data.",
        takes: Takes::Right,
        wanted: Wanted::Falls,
        change: |subject| Some(subject.with_problem(subject.other_problem?)),
    },
    &Probe {
        key: "wrong-step",
        name: "wrong number in a step",
        about: "In the middle one of the steps with an equation, the number behind the last \"=\" has its last digit \
                raised by one (9 becomes 0); without equations, the last number of the middle step that has one.",
        takes: Takes::Right,
        wanted: Wanted::Falls,
        change: wrong_step,
    },
    &Probe {
        key: "pseudo-derivation",
        name: "long pseudo-derivation",
        about: "All steps but the last are replaced by eight sentences that fit any problem; the touched step is the last, the answer.",
        takes: Takes::Right,
        wanted: Wanted::Falls,
        change: pseudo_derivation,
    },
    &Probe {
        key: "answer-only",
        name: "answer only",
        about: "All steps but the last are left out.",
        takes: Takes::Known,
        wanted: Wanted::NoGain,
        change: |subject| {
            let (last, before) = subject.steps.split_last()?;
            let touched = Touched {
                before: Some(before.len()),
                after: 0,
            };
            (!before.is_empty()).then(|| subject.with_steps(vec![last.clone()], Some(touched)))
        },
    },
    &Probe {
        key: "repeated-step",
        name: "a step repeated",
        about: "The middle step stands there a second time; the touched step is the repeat.",
        takes: Takes::Known,
        wanted: Wanted::NoGain,
        change: |subject| {
            let at = subject.middle();
            Some(subject.with_step(at + 1, &subject.steps[at], Some(at)))
        },
    },
    &Probe {
        key: "filler",
        name: "padded with filler",
        about: "A sentence that says nothing stands before every step; the touched step is the first of them.",
        takes: Takes::Known,
        wanted: Wanted::NoGain,
        change: filler,
    },
    &Probe {
        key: "giant-step",
        name: "one giant step",
        about: "All steps are joined to one, with blanks between them.",
        takes: Takes::Known,
        wanted: Wanted::NoGain,
        change: |subject| {
            (subject.steps.len() > 1)
                .then(|| subject.with_steps(vec![subject.steps.join(" ")], None))
        },
    },
    &Probe {
        key: "near-empty-step",
        name: "a nearly empty step",
        about: "A step that is a full stop and nothing else stands behind the middle step. (An empty step is never scored.)",
        takes: Takes::Known,
        wanted: Wanted::NoGain,
        change: |subject| Some(subject.with_step(subject.middle() + 1, ".", None)),
    },
    &Probe {
        key: "thank-you",
        name: "\"Thank you.\" at the end",
        about: "A last step \"Thank you.\" is added.",
        takes: Takes::Known,
        wanted: Wanted::NoGain,
        change: |subject| Some(subject.with_step(subject.steps.len(), "Thank you.", None)),
    },
    &Probe {
        key: "step-prefix",
        name: "\"Step 1:\" before steps",
        about: "\"Step 1: \" and so on stands before every step; where all steps have such a prefix already, it is taken away.",
        takes: Takes::Known,
        wanted: Wanted::Same,
        change: step_prefix,
    },
    &Probe {
        key: "boundaries",
        name: "two steps in one",
        about: "Every two steps are joined to one, with a blank between them.",
        takes: Takes::Known,
        wanted: Wanted::Same,
        change: |subject| {
            let joined = subject.steps.chunks(2).map(|pair| pair.join(" "));
            (subject.steps.len() > 1).then(|| subject.with_steps(joined.collect(), None))
        },
    },
    &Probe {
        key: "errors-cancel",
        name: "two errors that cancel",
        about: "In the middle one of the steps whose result a later step calculates with, that result is changed as in \
                \"wrong number in a step\"; the later step calculates with the wrong number and states the right \
                result. The touched step is the earlier one.",
        takes: Takes::Right,
        wanted: Wanted::Falls,
        change: errors_cancel,
    },
    &Probe {
        key: "other-answer",
        name: "an answer to another question",
        about: "In the last step, the last number is replaced by the result of the last earlier equation with another one: \
                a right number that was not asked for.",
        takes: Takes::Right,
        wanted: Wanted::Falls,
        change: other_answer,
    },
    &Probe {
        key: "stops-early",
        name: "a chain that stops early",
        about: "The steps behind the middle one are left out, the answer among them.",
        takes: Takes::Right,
        wanted: Wanted::NoGain,
        change: |subject| {
            let kept = subject.middle() + 1;
            (kept < subject.steps.len())
                .then(|| subject.with_steps(subject.steps[..kept].to_vec(), None))
        },
    },
];

/// The number of probes that every report has. A report has the later probes only if one of its changed chains is
/// from a later probe, so that old reports do not change when they are redrawn.
pub const FIRST_PROBES: usize = 12;

impl Probe {
    /// Returns the probes of a report, given the keys of its changed chains.
    #[must_use]
    pub fn in_report<'a>(keys: impl IntoIterator<Item = &'a str>) -> &'static [&'static Self] {
        let (first, later) = PROBES.split_at(FIRST_PROBES);
        let mut keys = keys.into_iter();
        if keys.any(|key| later.iter().any(|probe| probe.key == key)) {
            return &PROBES;
        }
        first
    }

    /// Returns the probe with this key.
    #[must_use]
    pub fn keyed(key: &str) -> Option<&'static Self> {
        PROBES.into_iter().find(|probe| probe.key == key)
    }
}

/// The text that replaces the question. Some chat templates refuse an empty text.
const NOTHING: &str = "Solve the problem.";

fn wrong_step(subject: &Subject<'_>) -> Option<Changed> {
    let steps = subject.steps;
    // A changed result is certainly wrong, so it is tried first. A number elsewhere may be part of a name or an
    // exponent on which nothing depends.
    let (at, wrong) =
        middle_change(steps, wrong_result).or_else(|| middle_change(steps, wrong_number))?;
    let mut steps = steps.to_vec();
    steps[at] = wrong;
    let touched = Touched {
        before: Some(at),
        after: at,
    };
    Some(subject.with_steps(steps, Some(touched)))
}

/// Returns the middle one of the steps that `wrong` can change: its index and its changed text.
fn middle_change(steps: &[String], wrong: fn(&str) -> Option<String>) -> Option<(usize, String)> {
    let mut all: Vec<(usize, String)> = (0..)
        .zip(steps)
        .filter_map(|(at, step)| Some((at, wrong(step)?)))
        .collect();
    let middle = all.len().checked_sub(1)? / 2;
    Some(all.swap_remove(middle))
}

/// Returns the step with the first number after the last equals sign changed.
fn wrong_result(step: &str) -> Option<String> {
    let after = step.rfind('=')? + 1;
    let first = after + step[after..].find(|c: char| c.is_ascii_digit())?;
    raised(step, first)
}

fn errors_cancel(subject: &Subject<'_>) -> Option<Changed> {
    let steps = subject.steps;
    // Returns a step (index and changed text with another result) and a later step that uses the result as an input
    // (index and text with the changed result).
    let pair = |(at, step): (usize, &String)| {
        let result = &step[result(step)?];
        let wrong = wrong_result(step)?;
        let mistaken = &wrong[self::result(&wrong)?];
        let calculates = |(later, text): (usize, &String)| {
            let used = numbers(text).find(|used| &text[used.clone()] == result)?;
            // To the right of the last equals sign the number would be a result, not an input.
            let is_before = text.rfind('=').is_some_and(|equals| used.end <= equals);
            let mended = format!("{}{mistaken}{}", &text[..used.start], &text[used.end..]);
            is_before.then_some((later, mended))
        };
        let mut later = steps.iter().enumerate().skip(at + 1);
        let (later, mended) = later.find_map(calculates)?;
        Some((at, wrong.clone(), later, mended))
    };
    let all: Vec<_> = steps.iter().enumerate().filter_map(pair).collect();
    let middle = all.len().checked_sub(1)? / 2;
    let (at, wrong, later, mended) = all.into_iter().nth(middle)?;
    let mut steps = steps.to_vec();
    steps[at] = wrong;
    steps[later] = mended;
    let touched = Touched {
        before: Some(at),
        after: at,
    };
    Some(subject.with_steps(steps, Some(touched)))
}

fn other_answer(subject: &Subject<'_>) -> Option<Changed> {
    let (last, before) = subject.steps.split_last()?;
    let stated = numbers(last).last()?;
    let results = before.iter().rev();
    let mut results = results.filter_map(|step| Some(&step[result(step)?]));
    // An equal number would not change the answer.
    let other = results.find(|other| *other != &last[stated.clone()])?;
    let answer = format!("{}{other}{}", &last[..stated.start], &last[stated.end..]);
    let touched = Touched {
        before: Some(before.len()),
        after: before.len(),
    };
    let steps = before.iter().cloned().chain([answer]).collect();
    Some(subject.with_steps(steps, Some(touched)))
}

/// Returns the byte ranges of the numbers in a text: digits, with points only between digits. A full stop at the end
/// of a sentence is not part of a number.
fn numbers(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let starts = (0..bytes.len())
        .filter(move |&at| is_in_number(bytes, at) && (at == 0 || !is_in_number(bytes, at - 1)));
    starts.map(move |at| {
        let end = (at..bytes.len()).find(|&end| !is_in_number(bytes, end));
        at..end.unwrap_or(bytes.len())
    })
}

/// Returns whether the byte at `at` is a digit, or a point between digits.
fn is_in_number(bytes: &[u8], at: usize) -> bool {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    digit(at) || (bytes[at] == b'.' && at > 0 && digit(at - 1) && digit(at + 1))
}

/// Returns the byte range of the first number after the last equals sign.
fn result(step: &str) -> Option<Range<usize>> {
    let equals = step.rfind('=')?;
    numbers(step).find(|number| number.start > equals)
}

/// Returns the step with the last digit of its last number changed.
fn wrong_number(step: &str) -> Option<String> {
    let last = step.rfind(|c: char| c.is_ascii_digit())?;
    raised(step, last)
}

/// Adds 1 to the last digit of the run of digits that starts at byte `at`.
fn raised(text: &str, at: usize) -> Option<String> {
    let digits = text.as_bytes()[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let last = (at + digits).checked_sub(1)?;
    // The digit is changed modulo 10, so that the length stays and no carry changes other digits.
    let digit = (text.as_bytes().get(last)? - b'0' + 1) % 10;
    Some(format!("{}{digit}{}", &text[..last], &text[last + 1..]))
}

/// Steps that fit any problem and prove nothing.
const DERIVATION: [&str; 8] = [
    "First, let us understand what the problem asks for.",
    "We write down everything that is given.",
    "We introduce suitable notation for the unknown quantity.",
    "By the given conditions, the quantities are related to each other.",
    "Substituting what we know into this relation, we obtain an equation.",
    "Simplifying both sides of the equation step by step, we find the unknown.",
    "We check that the result satisfies all conditions of the problem.",
    "Therefore we can now state the result.",
];

fn pseudo_derivation(subject: &Subject<'_>) -> Option<Changed> {
    let (last, before) = subject.steps.split_last()?;
    let steps = DERIVATION.iter().map(|&step| step.to_owned());
    let touched = Touched {
        before: Some(before.len()),
        after: DERIVATION.len(),
    };
    // A chain of one step has only an answer and no derivation to replace.
    (!before.is_empty())
        .then(|| subject.with_steps(steps.chain([last.clone()]).collect(), Some(touched)))
}

/// Sentences without content. They are inserted in this order, repeatedly.
const FILLERS: [&str; 3] = [
    "Let us think about this step by step.",
    "This is an important observation.",
    "We can now go on with the next step.",
];

fn filler(subject: &Subject<'_>) -> Option<Changed> {
    let fillers = FILLERS.iter().cycle();
    let steps = subject.steps.iter().zip(fillers);
    let steps = steps.flat_map(|(step, &filler)| [filler.to_owned(), step.clone()]);
    let touched = Touched {
        before: None,
        after: 0,
    };
    Some(subject.with_steps(steps.collect(), Some(touched)))
}

fn step_prefix(subject: &Subject<'_>) -> Option<Changed> {
    let bare: Option<Vec<String>> = subject.steps.iter().map(|step| bare(step)).collect();
    // The prefix is removed only if all steps have one: a partial numbering would change more than the form.
    let steps = bare.unwrap_or_else(|| {
        let steps = (1..).zip(subject.steps);
        steps
            .map(|(number, step)| format!("Step {number}: {step}"))
            .collect()
    });
    Some(subject.with_steps(steps, None))
}

/// Returns the step without the prefix `Step N:`. Returns `None` without a prefix, or with nothing after it.
fn bare(step: &str) -> Option<String> {
    let rest = step.trim_start().strip_prefix("Step ")?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let bare = rest.strip_prefix(':')?.trim_start();
    (!bare.is_empty()).then(|| bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_after_the_last_equals_sign_changes() {
        for (step, changed) in [
            ("16 + 1 = 17.", "16 + 1 = 18."),
            ("x = 10 + 2 = 19 é", "x = 10 + 2 = 10 é"),
            (r"y = \frac{12}{5}", r"y = \frac{13}{5}"),
            ("y = 2.75, so 3", "y = 3.75, so 3"),
        ] {
            assert_eq!(wrong_result(step).as_deref(), Some(changed));
        }
        assert_eq!(wrong_result("x = y"), None);
        assert_eq!(
            wrong_number("Ana has 16 shells: 16."),
            Some("Ana has 16 shells: 17.".into())
        );
        assert_eq!(wrong_number("no number"), None);
    }

    #[test]
    fn equations_go_before_other_numbers() {
        let steps = ["1 pen", "2 + 2 = 4", "3 + 3 = 6", "so 6"].map(str::to_owned);
        let subject = Subject {
            problem: "p",
            steps: &steps,
            other_problem: None,
        };
        let changed = wrong_step(&subject).expect("a change");
        assert_eq!(changed.steps, ["1 pen", "2 + 2 = 5", "3 + 3 = 6", "so 6"]);
        let plain = Subject {
            steps: &steps[..1],
            ..subject
        };
        assert_eq!(wrong_step(&plain).expect("a change").steps, ["2 pen"]);
    }

    #[test]
    fn errors_cancel_and_answers_belong_to_other_questions() {
        let steps = [
            "Mia has 34 pens: 34.",
            "Leo: 34 + 8 = 42.",
            "Kim: 42 / 2 = 21.",
            "Tom: 21 - 1.5 = 19.5",
            "The answer is 19.5.",
        ];
        let steps = steps.map(str::to_owned);
        let subject = Subject {
            problem: "p",
            steps: &steps,
            other_problem: None,
        };
        let changed = errors_cancel(&subject).expect("a change");
        let want = ["Leo: 34 + 8 = 43.", "Kim: 43 / 2 = 21."];
        assert_eq!(changed.steps[1..3], want);
        assert_eq!(changed.steps[3..], steps[3..]);
        let changed = other_answer(&subject).expect("a change");
        assert_eq!(changed.steps[4], "The answer is 21.");
        let plain = Subject {
            steps: &steps[..1],
            ..subject
        };
        assert!(errors_cancel(&plain).is_none() && other_answer(&plain).is_none());
        let text = "a1.5.b 2. 3é.4 .5";
        let found: Vec<&str> = numbers(text).map(|place| &text[place]).collect();
        assert_eq!(found, ["1.5", "2", "3", "4", "5"]);
    }

    #[test]
    fn an_old_report_has_the_old_probes() {
        let count = |keys: &[&str]| Probe::in_report(keys.iter().copied()).len();
        assert_eq!(count(&["thank-you", "boundaries"]), FIRST_PROBES);
        assert_eq!(count(&["thank-you", "stops-early"]), PROBES.len());
    }

    #[test]
    fn a_prefix_is_a_word_a_number_and_a_colon() {
        assert_eq!(bare("Step 12: a: b").as_deref(), Some("a: b"));
        for none in ["Step by step", "step 1: a", "Step 1:", "a"] {
            assert_eq!(bare(none), None, "{none}");
        }
    }
}
