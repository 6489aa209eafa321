//! Percent signs, units and words after a value.

use super::super::lex::Kind;
use super::super::units;
use super::super::value::Value;
use super::Parser;
use crate::algebra::{Fault, Rational};

impl Parser<'_> {
    /// What follows a value without changing it, except for "percent" and "million".
    pub(super) fn units(&mut self, value: Value) -> Result<Value, Fault> {
        let mut value = value;
        let mut words = Vec::new();
        let mut power = None;
        let mut known = true;
        loop {
            if self.eat('%') {
                self.percent = true;
                continue;
            }
            if self.is_joiner() {
                break;
            }
            match self.kind(0) {
                // A letter is a variable, except in `km/h`.
                Some(Kind::Letters(letter)) if letter.len() == 1 && known => break,
                Some(Kind::Letters(_) | Kind::Text(_)) => {
                    let word = self.word(0).unwrap_or_default();
                    self.at += 1;
                    if matches!(word.as_str(), "percent" | "pct") {
                        self.percent = true;
                    } else if let Some(factor) = units::multiplier(&word) {
                        let factor = Rational::from_integer(factor.into());
                        value = value.scaled(&factor, self.budget)?;
                    } else {
                        words.push(word);
                    }
                }
                Some(Kind::Symbol('^')) if !words.is_empty() => {
                    self.at += 1;
                    let braced = self.eat('{');
                    let exponent = match self.kind(0) {
                        Some(Kind::Number(number, _)) => number.clone(),
                        _ => return Err(Fault::Unread),
                    };
                    self.at += 1;
                    if braced {
                        self.expect('}')?;
                    }
                    power = exponent.to_string().parse().ok();
                }
                Some(Kind::Symbol('/')) if self.is_per() => {
                    known = false;
                    self.at += 1;
                }
                Some(Kind::Symbol('*' | '-' | '.')) if !words.is_empty() => {
                    known = false;
                    self.at += 1;
                }
                _ => break,
            }
        }
        if known && let Some(unit) = units::unit(&words, power) {
            self.unit = Some(unit);
        }
        Ok(value)
    }

    /// Whether a slash begins a unit, as in `\$18/hour`.
    fn is_per(&self) -> bool {
        match self.kind(1) {
            Some(Kind::Text(_)) => true,
            Some(Kind::Letters(word)) => self.follows_word() || self.is_unit(word),
            _ => false,
        }
    }

    fn follows_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        matches!(
            before.map(|token| &token.kind),
            Some(Kind::Text(_) | Kind::Letters(_))
        )
    }
}
