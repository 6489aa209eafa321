//! Calls of functions that the question names, as `f(0)` and `N(0)e^{-kt}`, against products as
//! `x(x+1)`.

use super::super::lex::{Kind, Token};
use super::super::value::Value;
use super::command::GREEK;
use super::expression::is_mathematics;
use super::{Parser, scalar};
use crate::algebra::{Fault, Fraction, is_function};

/// Letters that name functions, unless a compared answer also has the letter without brackets.
const FUNCTIONS: &[u8] = b"fghFGH";

/// A longer call, in bytes, is not read; it bounds what nested calls take.
const MAX_CALL: usize = 200;

/// How answers that are compared use their letters: a bit for each letter.
#[derive(Clone, Copy, Default, Debug)]
pub(in super::super) struct Letters {
    called: u64,
    bare: u64,
}

impl Letters {
    /// Records the letters of an answer by their use: called as `f` in `f(2)`, or without brackets.
    pub(in super::super) fn see(&mut self, tokens: &[Token]) {
        for (at, token) in tokens.iter().enumerate() {
            let Kind::Letters(run) = &token.kind else {
                continue;
            };
            let run = run.trim_end_matches('\'');
            // The letters of `sin` and of words are not variables.
            if run.len() > 1 && (is_function(run) || !is_mathematics(run)) {
                continue;
            }
            let opens = tokens.get(at + 1).map(|t| &t.kind) == Some(&Kind::Symbol('('));
            for (place, letter) in run.bytes().enumerate() {
                // In `xf(2)` only the last letter of the run is called.
                if !opens || place + 1 < run.len() {
                    self.bare |= bit(letter);
                } else if FUNCTIONS.contains(&letter) || is_call(tokens, at + 1) {
                    self.called |= bit(letter);
                }
            }
        }
    }

    /// Whether a letter before any bracket is a function.
    fn calls(self, letter: u8) -> bool {
        self.called & !self.bare & bit(letter) != 0
    }
}

fn bit(letter: u8) -> u64 {
    match letter {
        b'A'..=b'Z' => 1 << (letter - b'A'),
        b'a'..=b'z' => 1 << (26 + letter - b'a'),
        _ => 0,
    }
}

/// Whether a bracket after a letter holds an argument, whatever the letter is: nobody writes the
/// product of x and 3 as `x(3)`. In `n(-1)^n` the bracket belongs to the power.
fn is_call(tokens: &[Token], open: usize) -> bool {
    arguments(tokens, open).is_some_and(|end| {
        let is_power = tokens.get(end).map(|t| &t.kind) == Some(&Kind::Symbol('^'));
        !is_power || is_zero(tokens, open)
    })
}

/// Whether the brackets are `(0)`.
fn is_zero(tokens: &[Token], open: usize) -> bool {
    matches!(tokens.get(open + 1).map(|t| &t.kind), Some(Kind::Number(_, Some(digits))) if digits == "0")
}

/// Returns the index after brackets that contain only numbers and names, such as `(0)`, `(-x)` and `(x_1,2)`.
fn arguments(tokens: &[Token], open: usize) -> Option<usize> {
    let kind = |at: usize| tokens.get(at).map(|token| &token.kind);
    let is_name = |at: usize| match kind(at) {
        Some(Kind::Letters(letters)) => letters.len() == 1,
        Some(Kind::Number(..) | Kind::Command(_)) => true,
        _ => false,
    };
    let mut at = open;
    loop {
        let is_signed = matches!(kind(at + 1), Some(Kind::Symbol('-' | '+')));
        at += 1 + usize::from(is_signed);
        if !is_name(at) {
            return None;
        }
        at += 1;
        if kind(at) == Some(&Kind::Symbol('_')) && is_name(at + 1) {
            at += 2;
        }
        match kind(at) {
            Some(Kind::Symbol(',')) => {}
            Some(Kind::Symbol(')')) => return Some(at + 1),
            _ => return None,
        }
    }
}

impl Parser<'_> {
    /// Whether the bracket that comes next holds the arguments of the name that begins at `start`,
    /// or of a power of it as in `f^{-1}(3)`.
    pub(super) fn is_called(&self, start: usize, is_power: bool) -> bool {
        let name = match &self.tokens[start].kind {
            Kind::Letters(name) => name,
            Kind::Command(name) => {
                return GREEK.contains(&name.as_str())
                    && !is_power
                    && is_call(&self.tokens, self.at);
            }
            _ => return false,
        };
        match name.as_bytes() {
            // `e` and `i` are constants, so brackets after them are a product.
            [b'e' | b'i'] => false,
            [_, b'\''] => true,
            [letter] if is_power => {
                let known = FUNCTIONS.contains(letter) || is_zero(&self.tokens, self.at);
                known && is_call(&self.tokens, self.at)
            }
            [letter] => self.letters.calls(*letter) || is_call(&self.tokens, self.at),
            _ => false,
        }
    }

    /// A call as an unknown of its own, named by its text.
    pub(super) fn call(&mut self, function: &Value) -> Result<Value, Fault> {
        self.nested(|parser| {
            let bars = std::mem::take(&mut parser.bars);
            let mut name = format!("{function}");
            let mut before = '(';
            loop {
                parser.at += 1;
                let argument = scalar(parser.sum()?)?;
                name.push(before);
                name.push_str(&argument.to_string());
                before = ',';
                if parser.symbol() != Some(',') {
                    break;
                }
            }
            parser.expect(')')?;
            name.push(')');
            parser.bars = bars;
            // `P(3,4)` is a point.
            if name.contains(',') && name.starts_with(|c: char| c.is_ascii_uppercase()) {
                return Err(Fault::Unread);
            }
            if name.len() > MAX_CALL {
                return Err(Fault::TooHard);
            }
            Ok(Value::Scalar(Fraction::variable(&name)))
        })
    }
}
