//! Finding the answer in a solution, and deciding whether two answers are the same.
//!
//! Answers are read into exact values: rational numbers, expressions with roots and variables,
//! points, intervals, sets, matrices, equations. There are no signals and no clocks here: reading
//! an answer draws on a fixed budget of work, memory and nesting. What does not fit it, or is not
//! understood, is compared as text, and where the texts differ the verdict is
//! [`Verdict::CannotTell`].

use beamgen_search::{Answer, Answers};
use serde::{Deserialize, Serialize};

use crate::algebra::{Budget, Rational};
use value::Value;

mod extract;
mod lex;
mod parse;
mod units;
mod value;

pub use extract::{Extracted, Marker, extract, extract_marked, reference};

/// Longer answers than this, in bytes, are not read.
const MAX_BYTES: usize = 2000;

/// Work for reading an answer or comparing two, in the units of [`Budget`]; about a tenth of a
/// second.
const BUDGET: u64 = 100_000;

/// The grader of this crate as the search asks for it: [`extract`] and [`class`].
#[derive(Clone, Copy, Debug, Default)]
pub struct MathAnswers;

impl Answers for MathAnswers {
    fn extract(&self, text: &str) -> Option<Answer> {
        extract(text).map(|found| Answer {
            text: found.text.to_owned(),
            is_guess: found.marker == Marker::LastNumber,
        })
    }

    fn class(&self, answer: &str) -> String {
        class(answer)
    }
}

/// Whether two answers are the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// They are.
    Same,
    /// They are not.
    Different,
    /// At least one of them is not understood, is too hard to work out, or leaves open what was
    /// meant. Counts as wrong, and is worth counting.
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
/// (`x = 5`, `y = 5`) or two units (`5 km`, `5 m`), which the answers to one question do not.
pub fn class(answer: &str) -> String {
    let reading = Reading::new(answer);
    match reading.meaning {
        Some(meaning) => meaning.value.class(),
        None => reading.text,
    }
}

/// Whether `answer` is certainly the same as `expected`: [`Verdict::Same`].
pub fn equal(answer: &str, expected: &str) -> bool {
    compare(answer, expected) == Verdict::Same
}

/// Compares two answers. The order of the two does not matter.
///
/// Numbers and expressions compare by exact value. Where just one of the two is written as a
/// percentage, its hundredth counts too (`50%` is `50` and `0.5`); votes do not use this rule,
/// since it is not transitive.
pub fn compare(answer: &str, expected: &str) -> Verdict {
    if answer.trim() == expected.trim() {
        return Verdict::Same;
    }
    let (a, b) = (Reading::new(answer), Reading::new(expected));
    let (Some(x), Some(y)) = (&a.meaning, &b.meaning) else {
        let said_nothing = answer.trim().is_empty() || expected.trim().is_empty();
        return match a.text == b.text {
            true => Verdict::Same,
            false if said_nothing => Verdict::Different,
            false => Verdict::CannotTell,
        };
    };
    let plain = values(&x.value, &y.value);
    let verdict = match (x.percent, y.percent) {
        _ if plain == Verdict::Same => plain,
        (true, false) => better(plain, as_share(&x.value, &y.value)),
        (false, true) => better(plain, as_share(&y.value, &x.value)),
        _ => plain,
    };
    match (&x.unit, &y.unit) {
        (Some(one), Some(other)) if one != other && verdict == Verdict::Same => Verdict::Different,
        _ => verdict,
    }
}

fn values(x: &Value, y: &Value) -> Verdict {
    value::compare(x, y, &mut Budget::new(BUDGET))
}

/// Compares a percentage, as a share of one, with a plain value.
fn as_share(percentage: &Value, plain: &Value) -> Verdict {
    let hundredth = Rational::new(1.into(), 100.into());
    match percentage.scaled(&hundredth, &mut Budget::new(BUDGET)) {
        Ok(share) => values(&share, plain),
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
struct Reading {
    meaning: Option<parse::Meaning>,
    /// The text without the layout, for what has no meaning.
    text: String,
}

impl Reading {
    fn new(answer: &str) -> Self {
        let answer = answer.trim().trim_matches('*').trim();
        if answer.len() > MAX_BYTES {
            return Self {
                meaning: None,
                text: answer.split_whitespace().collect(),
            };
        }
        let meaning = parse::read(answer, &mut Budget::new(BUDGET)).ok();
        Self {
            meaning,
            text: plain_text(answer),
        }
    }
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
