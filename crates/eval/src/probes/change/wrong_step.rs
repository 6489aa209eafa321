//! A number in one step is changed, so that the step is wrong.

use crate::probes::{Changed, Probe, Subject, Takes, Touched, Wanted};

pub static PROBE: Probe = Probe {
    key: "wrong-step",
    name: "wrong number in a step",
    about: "In the middle one of the steps with an equation, the number behind the last \"=\" has its last digit \
            raised by one (9 becomes 0); without equations, the last number of the middle step that has one.",
    takes: Takes::Right,
    wanted: Wanted::Falls,
    change,
};

fn change(subject: &Subject<'_>) -> Option<Changed> {
    let steps = subject.steps;
    let with = |wrong: fn(&str) -> Option<String>| {
        let all: Vec<(usize, String)> = (0..)
            .zip(steps)
            .filter_map(|(at, step)| Some((at, wrong(step)?)))
            .collect();
        let middle = all.len().checked_sub(1)? / 2;
        all.into_iter().nth(middle)
    };
    let (at, wrong) = with(wrong_result).or_else(|| with(wrong_number))?;
    let mut steps = steps.to_vec();
    steps[at] = wrong;
    let touched = Touched {
        before: Some(at),
        after: at,
    };
    Some(subject.with_steps(steps, Some(touched)))
}

/// The step with another number behind its last equals sign.
fn wrong_result(step: &str) -> Option<String> {
    let behind = step.rfind('=')? + 1;
    let first = behind + step[behind..].find(|c: char| c.is_ascii_digit())?;
    raised(step, first)
}

/// The step with another last number.
fn wrong_number(step: &str) -> Option<String> {
    let last = step.rfind(|c: char| c.is_ascii_digit())?;
    raised(step, last)
}

/// The text, where the last of the digits that stand together from `at` is another one.
fn raised(text: &str, at: usize) -> Option<String> {
    let digits = text.as_bytes()[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let last = (at + digits).checked_sub(1)?;
    let digit = (text.as_bytes().get(last)? - b'0' + 1) % 10;
    Some(format!("{}{digit}{}", &text[..last], &text[last + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_behind_the_last_equals_sign_changes() {
        let of = |step| wrong_result(step).unwrap_or_default();
        assert_eq!(of("16 + 1 = 17."), "16 + 1 = 18.");
        assert_eq!(of("x = 10 + 2 = 19 é"), "x = 10 + 2 = 10 é");
        assert_eq!(of(r"y = \frac{12}{5}"), r"y = \frac{13}{5}");
        assert_eq!(of("y = 2.75, so 3"), "y = 3.75, so 3");
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
        let changed = change(&subject).expect("a change");
        assert_eq!(changed.steps, ["1 pen", "2 + 2 = 5", "3 + 3 = 6", "so 6"]);
        let plain = Subject {
            steps: &steps[..1],
            ..subject
        };
        assert_eq!(change(&plain).expect("a change").steps, ["2 pen"]);
    }
}
