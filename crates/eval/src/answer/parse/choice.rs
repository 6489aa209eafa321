//! Letters of choices, with or without their values: `(B)`, `(B) 23`, `B. 23`, `option B`.

use super::super::lex::Kind;
use super::super::value::Value;
use super::Parser;
use crate::algebra::{Fault, Fraction};

/// The last letter that choices have.
const LAST: u8 = b'J';

impl Parser<'_> {
    /// Parses a whole answer, which may begin with the letter of a choice.
    pub(super) fn answer(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        let said = match self.kind(0) {
            Some(Kind::Letters(word) | Kind::Text(word)) => ["option", "choice"]
                .iter()
                .any(|said| word.eq_ignore_ascii_case(said)),
            Some(Kind::Symbol('(')) => false,
            _ => return self.list(),
        };
        self.at += usize::from(said);
        // An answer without a choice is parsed from its start.
        let Some((letter, is_marked)) = self.choice(said) else {
            self.at = start;
            return self.list();
        };
        if self.at == self.tokens.len() && (said || is_marked) {
            return Ok(Value::Scalar(Fraction::variable(&letter)));
        }
        // `A + 1` begins with a variable, and `(A), (B)` is a list of choices.
        if !is_marked || !self.begins_item() {
            self.at = start;
            return self.list();
        }
        let value = self.list()?;
        Ok(Value::Choice(letter, Box::new(value)))
    }

    /// Parses the letter of a choice. Returns the capital letter, and whether brackets or a dot mark it. A small
    /// letter is accepted only if `said`, that is after "option" or "choice".
    fn choice(&mut self, said: bool) -> Option<(String, bool)> {
        let bracketed = self.eat('(');
        let letter = match self.kind(0)? {
            Kind::Letters(word) | Kind::Text(word) => match word.as_bytes() {
                [letter @ b'A'..=LAST] => *letter,
                [letter] if said => letter.to_ascii_uppercase(),
                _ => return None,
            },
            _ => return None,
        };
        self.at += 1;
        let mut marked = self.eat(')') || (!bracketed && self.eat('.'));
        // `B: 23`, but `A:B` and `A : B` are ratios.
        if self.symbol() == Some(':') && !self.is_spaced(0) && self.is_spaced(1) {
            marked |= self.eat(':');
        }
        (marked || !bracketed).then(|| (char::from(letter).to_string(), marked))
    }

    /// Whether a blank and another answer follow, as in `(B) 23` and not in `(A) + 1`, `(A), (B)`.
    fn begins_item(&self) -> bool {
        let begins = match self.kind(0) {
            Some(Kind::Symbol('-' | '+' | '±')) => !self.is_spaced(1),
            Some(Kind::Symbol(symbol)) => matches!(symbol, '(' | '[' | '{' | '|'),
            Some(Kind::Letters(_) | Kind::Text(_)) => !self.is_joiner(),
            _ => true,
        };
        self.is_spaced(0) && begins
    }

    fn is_spaced(&self, ahead: usize) -> bool {
        let token = self.tokens.get(self.at + ahead);
        token.is_some_and(|token| token.spaced)
    }
}
