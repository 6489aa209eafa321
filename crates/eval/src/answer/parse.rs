//! The parser of answers. This file has lists and words; the submodules have relations, brackets, expressions and
//! units.

use super::lex::{Kind, SET_CLOSE, Token};
use super::value::Value;
use super::words;
use crate::algebra::{Budget, Fault, Fraction, Rational};

mod brackets;
mod call;
mod choice;
mod command;
mod expression;
mod matrix;
mod name;
mod relation;
mod suffix;

pub(super) use call::Letters;
pub(super) use expression::is_mathematics;

/// The deepest nesting that is parsed. It bounds the stack.
const MAX_DEPTH: usize = 24;

/// A parsed answer: the value, and the words around it.
#[derive(Debug)]
pub(super) struct Meaning {
    pub value: Value,
    /// The factor of a scaled value, 1/100 for a percentage. The value may be meant with or without the factor.
    pub scale: Option<Rational>,
    /// The unit of measurement, if the table of units has it.
    pub unit: Option<String>,
    /// The things that are counted or measured, for example `degree`; empty if none are named.
    pub things: Vec<String>,
    /// The words after the value if they may change its meaning, such as "at least".
    pub remarks: Vec<String>,
}

impl Meaning {
    /// Returns whether both answers may count the same thing: if one names none, it may.
    pub(super) fn counts_alike(&self, other: &Self) -> bool {
        let (a, b) = (&self.things, &other.things);
        a.is_empty() || b.is_empty() || a.iter().any(|thing| b.contains(thing))
    }
}

/// Parses a whole answer. `letters` has the uses of letters in all answers that are compared.
pub(super) fn parse(
    tokens: Vec<Token>,
    letters: Letters,
    budget: &mut Budget,
) -> Result<Meaning, Fault> {
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        bars: 0,
        plus: true,
        either: false,
        letters,
        scale: None,
        unit: None,
        things: Vec::new(),
        remarks: Vec::new(),
        budget,
    };
    let value = parser.answer()?;
    // A remainder makes the answer invalid: "5 or maybe 6" must not equal 5.
    if parser.at < parser.tokens.len() {
        return Err(Fault::Unread);
    }
    Ok(Meaning {
        value,
        scale: parser.scale,
        unit: parser.unit,
        things: parser.things,
        remarks: parser.remarks,
    })
}

struct Parser<'b> {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// The number of absolute values `|...|` that are open.
    bars: usize,
    /// True if `\pm` is read as plus in this pass; see [`both_signs`](Self::both_signs).
    plus: bool,
    /// True once a `\pm` is read in this pass.
    either: bool,
    letters: Letters,
    scale: Option<Rational>,
    unit: Option<String>,
    things: Vec<String>,
    remarks: Vec<String>,
    budget: &'b mut Budget,
}

impl Parser<'_> {
    fn kind(&self, ahead: usize) -> Option<&Kind> {
        self.tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn symbol(&self) -> Option<char> {
        match self.kind(0) {
            Some(Kind::Symbol(symbol)) => Some(*symbol),
            _ => None,
        }
    }

    fn eat(&mut self, symbol: char) -> bool {
        let found = self.symbol() == Some(symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: char) -> Result<(), Fault> {
        self.eat(symbol).then_some(()).ok_or(Fault::Unread)
    }

    /// Returns the word `ahead` tokens from here in lower case; `None` if that token is not a word.
    fn word(&self, ahead: usize) -> Option<String> {
        match self.kind(ahead)? {
            Kind::Letters(word) | Kind::Text(word) => Some(word.to_ascii_lowercase()),
            _ => None,
        }
    }

    fn is_joiner(&self) -> bool {
        matches!(self.word(0).as_deref(), Some("and" | "or"))
    }

    /// Parses a nested part; returns [`Fault::TooHard`] if it is deeper than [`MAX_DEPTH`].
    fn nested<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth >= MAX_DEPTH {
            return Err(Fault::TooHard);
        }
        self.budget.charge(1)?;
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    /// Parses items separated by commas, semicolons, "and" or "or". Their order does not matter.
    fn list(&mut self) -> Result<Value, Fault> {
        let mut items = Vec::new();
        let mut ors = 0;
        let start = self.at;
        loop {
            self.both_signs(&mut items)?;
            let separated = self.eat(',') || self.eat(';');
            if self.is_joiner() {
                ors += usize::from(self.word(0).as_deref() == Some("or"));
                self.at += 1;
            } else if !separated {
                break;
            }
        }
        if ors > 0 {
            // `1/2 or 0.5` is one answer.
            items.sort_by_cached_key(Value::to_string);
            items.dedup();
        }
        let is_union = ors > 0 && items.len() == ors + 1 && items.iter().all(Value::is_interval);
        let mut kinds = self.tokens[start..self.at].iter().map(|token| &token.kind);
        let is_related =
            kinds.any(|kind| matches!(kind, Kind::Symbol('<' | '>' | '≤' | '≥' | '∈')));
        // `(1,2) or (3,4)` may be points or intervals, but inequalities are always intervals.
        Ok(if !is_union {
            joined(items, Value::Set)
        } else if items.iter().all(Value::is_tuple) && !is_related {
            joined(items, Value::Either)
        } else {
            joined(items, Value::Union)
        })
    }

    /// Parses an item. An item with `\pm` is parsed a second time with the other sign and gives two values.
    fn both_signs(&mut self, items: &mut Vec<Value>) -> Result<(), Fault> {
        let start = self.at;
        (self.either, self.plus) = (false, true);
        let first = self.item()?;
        if self.either {
            self.at = start;
            self.plus = false;
            let second = self.item()?;
            if let (Value::Set(a), Value::Set(b)) = (&first, &second) {
                items.push(brackets::set(a.iter().chain(b).cloned().collect()));
                return Ok(());
            }
            // `\pm 0` is only one value.
            if second.to_string() != first.to_string() {
                items.push(second);
            }
        }
        items.push(first);
        Ok(())
    }

    fn item(&mut self) -> Result<Value, Fault> {
        if let Some(words) = self.words() {
            // `two`, `three quarters`, `half of the cake`, `half an hour`
            let alone: Vec<String> = words.split(' ').map(str::to_owned).collect();
            return match words::quantity(&alone) {
                Some((number, length))
                    if alone
                        .get(length)
                        .is_none_or(|word| ["of", "a", "an"].contains(&word.as_str())) =>
                {
                    self.units(Value::Scalar(number.into()))
                }
                _ => Ok(Value::Words(words)),
            };
        }
        let value = self.relation()?;
        self.units(value)
    }

    /// Parses an item that consists of words, and returns it in lower case; `None` for any other item.
    fn words(&mut self) -> Option<String> {
        let mut words = Vec::new();
        let mut end = self.at;
        while let Some(Token { kind, .. }) = self.tokens.get(end) {
            match kind {
                Kind::Letters(word) | Kind::Text(word) => {
                    let word = word.to_lowercase();
                    if matches!(word.as_str(), "and" | "or") {
                        break;
                    }
                    words.extend(word.split_whitespace().map(str::to_owned));
                }
                Kind::Symbol('.' | '!' | '-') if !words.is_empty() => {}
                Kind::Symbol(',' | ';' | ')' | ']' | '}' | SET_CLOSE) => break,
                _ => return None,
            }
            end += 1;
        }
        let is_word = words.iter().any(|word| !expression::is_mathematics(word));
        // `x-y` and `n!` are formulas, so words with symbols between them need more than two letters.
        let plain = self.tokens[self.at..end]
            .iter()
            .all(|token| match &token.kind {
                Kind::Symbol(_) => words.iter().all(|w| w.len() > 2),
                _ => true,
            });
        (is_word && plain).then(|| {
            self.at = end;
            words.join(" ")
        })
    }

    fn union(&mut self) -> Result<Value, Fault> {
        let first = self.ratio()?;
        if self.symbol() != Some('∪') {
            return Ok(first);
        }
        let mut members = vec![first];
        while self.eat('∪') {
            members.push(self.ratio()?);
        }
        Ok(joined(members, Value::Union))
    }

    fn ratio(&mut self) -> Result<Value, Fault> {
        let first = self.sum()?;
        if self.symbol() != Some(':') {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.eat(':') {
            items.push(self.sum()?);
        }
        Ok(Value::Ratio(items))
    }
}

fn scalar(value: Value) -> Result<Fraction, Fault> {
    match value {
        Value::Scalar(value) => Ok(value),
        _ => Err(Fault::Unread),
    }
}

/// Several answers as one, of the given kind.
fn joined(items: Vec<Value>, kind: fn(Vec<Value>) -> Value) -> Value {
    let mut items = items;
    if items.len() == 1 {
        return items.remove(0);
    }
    // In `x = 1, x = 2` the name says nothing; in `x = 1, y = 2` it does.
    let mut names: Vec<&String> = items
        .iter()
        .filter_map(|item| match item {
            Value::Named(name, _) => Some(name),
            _ => None,
        })
        .collect();
    names.dedup();
    if names.len() < 2 {
        items = items
            .into_iter()
            .map(|item| match item {
                Value::Named(_, value) => *value,
                other => other,
            })
            .collect();
    }
    items.sort_by_cached_key(Value::to_string);
    kind(items)
}
