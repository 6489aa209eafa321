//! Percent signs, units and words after a value.

use num_traits::{One, Signed};

use super::super::lex::Kind;
use super::super::value::Value;
use super::super::{units, words};
use super::{Parser, scalar};
use crate::algebra::{Fault, Rational};

impl Parser<'_> {
    /// Reads the words after a value: "percent", "million" and "and a half" change the value, units
    /// and other words are noted.
    pub(super) fn units(&mut self, value: Value) -> Result<Value, Fault> {
        let mut value = value;
        let mut words = Vec::new();
        let mut power = None;
        let mut known = true;
        loop {
            // The percentage is stored as a scale, because `50%` is compared both as 50 and as 0.5.
            if self.eat('%') {
                self.percent();
                continue;
            }
            if self.is_joiner() {
                if let Some((part, end)) = self.and_a_part() {
                    value = self.mixed(value, part)?;
                    self.at = end;
                } else if !words.is_empty() && self.and_a_noun() {
                    self.at += 1;
                } else {
                    break;
                }
                continue;
            }
            match self.kind(0) {
                // A letter is a variable, except in `km/h` and in `3/4 of a pie`.
                Some(Kind::Letters(letter)) if letter.len() == 1 && known => {
                    let is_article = letter == "a" && !words.is_empty() && self.is_word(1);
                    if !is_article {
                        break;
                    }
                    self.at += 1;
                }
                Some(Kind::Letters(_) | Kind::Text(_)) => {
                    let word = self.word(0).unwrap_or_default();
                    self.at += 1;
                    value = self.suffix(value, word, &mut words)?;
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
                    // In `5 m^2` the exponent belongs to the unit, not to the value.
                    power = exponent.to_string().parse().ok();
                }
                Some(Kind::Symbol('/')) if self.is_per() => {
                    // `km/h` and `5 km-long` are not in the table of units, so their words are compared.
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
        // "at least 5" and "not 5" must not equal 5, so these words are compared too.
        if words::say_more(&words) {
            self.remarks.append(&mut words);
        } else {
            self.things.append(&mut units::things(&words));
        }
        Ok(value)
    }

    fn percent(&mut self) {
        self.scale = Some(Rational::new(1.into(), 100.into()));
        self.things.push("percent".to_owned());
    }

    /// Reads one word after a value. A word that does not change the value is appended to `words`.
    fn suffix(
        &mut self,
        value: Value,
        word: String,
        words: &mut Vec<String>,
    ) -> Result<Value, Fault> {
        if matches!(word.as_str(), "percent" | "pct") {
            self.percent();
            return Ok(value);
        }
        if words.is_empty() {
            let many = number(&value).is_none_or(|count| !count.is_one());
            match word.as_str() {
                // Quarters may be coins, and who asks for dozens wants their number.
                "quarters" => self.scale = Some(Rational::new(1.into(), 4.into())),
                "dozen" | "dozens" => self.scale = Some(Rational::from_integer(12.into())),
                _ => {
                    let factor = words::multiplier(&word)
                        .map(|factor| Rational::from_integer(factor.into()));
                    if let Some(factor) = factor.or_else(|| words::part(&word, many)) {
                        return value.scaled(&factor, self.budget);
                    }
                }
            }
        }
        words.push(word);
        Ok(value)
    }

    /// Returns the fraction in `and a half` after a value, with the index of the token after it.
    fn and_a_part(&self) -> Option<(Rational, usize)> {
        if self.word(0)? != "and" {
            return None;
        }
        let words: Vec<String> = (1..3).map_while(|ahead| self.word(ahead)).collect();
        let (part, length) = words::quantity(&words)?;
        (part < Rational::one()).then_some((part, self.at + 1 + length))
    }

    fn mixed(&mut self, value: Value, part: Rational) -> Result<Value, Fault> {
        let value = scalar(value)?;
        let negative = value.as_number().ok_or(Fault::Unread)?.is_negative();
        let part = if negative { -part } else { part };
        Ok(Value::Scalar(value.plus(&part.into(), self.budget)?))
    }

    /// Whether nothing but what is counted follows an "and", as in `5 cats and dogs`.
    fn and_a_noun(&self) -> bool {
        let nouns: Vec<String> = (1..)
            .take_while(|ahead| self.is_word(*ahead))
            .filter_map(|ahead| self.word(ahead))
            .take_while(|word| !matches!(word.as_str(), "and" | "or"))
            .collect();
        let after = self.kind(1 + nouns.len());
        let ends = matches!(after, None | Some(Kind::Symbol(',' | ';' | ')' | '.')));
        let is_and = self.word(0).as_deref() == Some("and");
        is_and && ends && !nouns.is_empty() && !words::say_more(&nouns)
    }

    fn is_word(&self, ahead: usize) -> bool {
        match self.kind(ahead) {
            Some(Kind::Letters(word)) => word.len() > 1,
            kind => matches!(kind, Some(Kind::Text(_))),
        }
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

fn number(value: &Value) -> Option<Rational> {
    match value {
        Value::Scalar(value) => value.as_number(),
        _ => None,
    }
}
