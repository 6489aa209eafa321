//! Finding the answer in a solution, and deciding whether two answers are the same.
//!
//! Answers are parsed to exact values: rational numbers, expressions with roots and variables, points, intervals,
//! sets, matrices, equations. The limits are on work, memory and nesting, not on time, so a verdict is the same on
//! every machine. An answer over a limit or of an unknown form is compared as text. If the texts differ, the verdict
//! is
//! [`Verdict::CannotTell`].

use beamgen_search::{Answer, Answers, Border};
use serde::{Deserialize, Serialize};

use crate::algebra::{Budget, Rational};
use value::Value;

mod extract;
mod lex;
mod parse;
mod units;
mod value;
mod words;

pub use extract::{Extracted, Marker, extract, extract_marked, reference};

/// The longest answer that is parsed, in bytes; longer ones are compared as text.
const MAX_BYTES: usize = 2000;

/// The work for parsing or comparing answers, in the units of [`Budget`]; all of it takes about 0.1 s.
const BUDGET: u64 = 100_000;

/// The answers of mathematics problems, for a search: [`extract`] finds them, and [`class`] groups equal ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct MathAnswers;

impl Answers for MathAnswers {
    fn extract(&self, text: &str) -> Option<Answer> {
        extract(text).map(|found| Answer {
            is_guess: found.marker == Marker::LastNumber,
            text: found.text,
        })
    }

    fn class(&self, answer: &str) -> String {
        class(answer)
    }

    fn is_stated(&self, text: &str, markers: &[String], border: Border) -> bool {
        extract::is_stated(text, markers, border)
    }
}

/// The result of comparing two answers, which may be undecided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The answers are proved equal, in value and unit.
    Same,
    /// The answers are proved different, in value or unit.
    Different,
    /// Neither is proved: an answer has an unknown form, is too hard to calculate, or is ambiguous. Accuracies count
    /// this as wrong, and reports also count it separately.
    CannotTell,
}

impl Verdict {
    fn of(same: bool) -> Self {
        if same { Self::Same } else { Self::Different }
    }
}

/// The canonical form of an answer: answers of equal class are one vote.
///
/// A number, with thousands separators, currency, percent sign or unit around it, becomes its exact
/// value (`$1,200.50` and `2401/2 dollars` are one class); other values become a canonical text, so
/// that `2x+3` and `3+2x` are one class. What is not understood becomes its text without the
/// layout. Answers of one class are the same by [`compare`], except where they name two variables
/// (`x = 5`, `y = 5`) or two things (`5 km`, `5 apples`), which the answers to one question do not,
/// and where only one names the half of the day (`7:45`, `7:45 PM`).
pub fn class(answer: &str) -> String {
    let [reading] = readings([answer]);
    match reading.meaning {
        Some(meaning) if meaning.remarks.is_empty() => meaning.value.class(),
        Some(meaning) => format!("{} {}", meaning.value.class(), meaning.remarks.join(" ")),
        None => reading.text(),
    }
}

/// Whether `answer` is certainly the same as `expected`: [`Verdict::Same`].
pub fn equal(answer: &str, expected: &str) -> bool {
    compare(answer, expected) == Verdict::Same
}

/// Compares two answers. The order of the two does not matter.
///
/// Numbers and expressions compare by exact value. Where just one of the two is written as a
/// percentage, its hundredth counts too (`50%` is `50` and `0.5`), and in the same way a quarter of
/// `3 quarters` and twelve times `2 dozen`; votes do not use this rule, since it is not transitive.
/// A letter before brackets that hold a number or a name is a function (`f(0)`), and before others
/// a factor (`x(x+1)`), unless it is called elsewhere in the two or is an f, g or h. Words after a
/// number say what is counted, and two answers may name only one thing; a condition, a denial or
/// an operation in words has to be in both.
pub fn compare(answer: &str, expected: &str) -> Verdict {
    if answer.trim() == expected.trim() {
        return Verdict::Same;
    }
    let [a, b] = readings([answer, expected]);
    let (Some(x), Some(y)) = (&a.meaning, &b.meaning) else {
        let said_nothing = answer.trim().is_empty() || expected.trim().is_empty();
        return if a.text() == b.text() {
            Verdict::Same
        } else if said_nothing {
            Verdict::Different
        } else {
            Verdict::CannotTell
        };
    };
    // Without any scale, `50%` equals `50`.
    let plain = values(&x.value, &y.value);
    // Only a percentage and a plain number may differ by the scale.
    let verdict = match (&x.scale, &y.scale) {
        _ if plain == Verdict::Same => plain,
        (Some(scale), None) => better(plain, scaled(&x.value, scale, &y.value)),
        (None, Some(scale)) => better(plain, scaled(&y.value, scale, &x.value)),
        _ => plain,
    };
    match (&x.unit, &y.unit) {
        _ if verdict != Verdict::Same => verdict,
        (Some(one), Some(other)) if one != other => Verdict::Different,
        // `7:45` is a time of both halves of the day.
        (Some(half), None) | (None, Some(half))
            if units::is_half_of_day(half) && matches!(x.value, Value::Ratio(_)) =>
        {
            Verdict::CannotTell
        }
        // Equal numbers of different things may be equal answers or a mistake.
        _ if x.remarks != y.remarks || !x.counts_alike(y) => Verdict::CannotTell,
        _ => verdict,
    }
}

fn values(x: &Value, y: &Value) -> Verdict {
    value::compare(x, y, &mut Budget::new(BUDGET))
}

/// Compares a percentage or the like, as what it amounts to, with a plain value.
fn scaled(value: &Value, scale: &Rational, plain: &Value) -> Verdict {
    match value.scaled(scale, &mut Budget::new(BUDGET)) {
        Ok(amount) => values(&amount, plain),
        Err(_) => Verdict::CannotTell,
    }
}

fn better(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Same, _) | (_, Verdict::Same) => Verdict::Same,
        (Verdict::CannotTell, _) | (_, Verdict::CannotTell) => Verdict::CannotTell,
        _ => Verdict::Different,
    }
}

/// An answer as far as it is understood.
struct Reading<'a> {
    answer: &'a str,
    meaning: Option<parse::Meaning>,
}

impl Reading<'_> {
    /// The text without the layout, for what has no meaning.
    fn text(&self) -> String {
        if self.answer.len() > MAX_BYTES {
            self.answer.split_whitespace().collect()
        } else {
            plain_text(self.answer)
        }
    }
}

/// Reads answers that are compared with each other.
fn readings<const N: usize>(answers: [&str; N]) -> [Reading<'_>; N] {
    // All answers are tokenised before any is parsed: whether `f(x)` is a call or a product may be clear only from
    // the other answer.
    let mut letters = parse::Letters::default();
    let lexed = answers.map(|answer| {
        let answer = answer.trim().trim_matches('*').trim();
        let is_read = answer.len() <= MAX_BYTES;
        let tokens = is_read.then(|| lex::tokens(answer).ok()).flatten();
        for tokens in tokens.iter() {
            letters.see(tokens);
        }
        (answer, tokens)
    });
    lexed.map(|(answer, tokens)| {
        let parsed = tokens.map(|tokens| parse::parse(tokens, letters, &mut Budget::new(BUDGET)));
        let mut meaning = parsed.and_then(Result::ok);
        if let Some(meaning) = &mut meaning {
            meaning.things.extend(units::money(answer));
        }
        Reading { answer, meaning }
    })
}

/// Text answers compare without blanks, spacing commands and dollar signs.
fn plain_text(answer: &str) -> String {
    let mut text: String = answer.split_whitespace().collect();
    for (from, to) in [
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("\\left", ""),
        ("\\right", ""),
        ("\\!", ""),
        ("\\,", ""),
        ("\\;", ""),
        ("\\ ", ""),
        ("$", ""),
    ] {
        text = text.replace(from, to);
    }
    text.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
