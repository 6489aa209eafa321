//! Parsing of brackets: `(1,2)`, `[0,1)`, `\{1,2\}`.

use super::super::lex::{Kind, SET_CLOSE, SET_OPEN};
use super::super::value::Value;
use super::Parser;
use crate::algebra::Fault;

impl Parser<'_> {
    /// Parses a bracket and its content: `(x+1)`, `(1,2)`, `[0,1)`, `\{1,2\}`, `\langle 1,2\rangle`.
    pub(super) fn bracketed(&mut self, open: char) -> Result<Value, Fault> {
        self.nested(|parser| {
            parser.at += 1;
            let bars = std::mem::take(&mut parser.bars);
            parser.set_builder(open);
            let mut items = Vec::new();
            let mut separated = false;
            while !matches!(parser.symbol(), Some(')' | ']' | '}' | '⟩' | SET_CLOSE)) {
                items.push(parser.item()?);
                if !(parser.eat(',') || parser.eat(';')) {
                    break;
                }
                separated = true;
            }
            parser.bars = bars;
            let close = parser.symbol().ok_or(Fault::Unread)?;
            parser.at += 1;
            match (open, close) {
                (SET_OPEN, SET_CLOSE) => return Ok(set(items)),
                ('{', '}') if separated => return Ok(set(items)),
                ('(', ')') | ('[', ']') | ('{', '}') if !separated => {
                    return items.pop().ok_or(Fault::Unread);
                }
                ('⟨', '⟩') if !items.is_empty() => return Ok(Value::Brackets('(', items, ')')),
                ('(' | '[', ')' | ']') if items.len() >= 2 => {}
                _ => return Err(Fault::Unread),
            }
            Ok(Value::Brackets(open, items, close))
        })
    }

    /// Skips `x \mid` in `\{x \mid x > 2\}`.
    fn set_builder(&mut self, open: char) {
        let is_such_that = matches!(self.kind(1), Some(Kind::Symbol('|' | ':')));
        let is_letter = matches!(self.kind(0), Some(Kind::Letters(word)) if word.len() == 1);
        if open == SET_OPEN && is_such_that && is_letter {
            self.at += 2;
        }
    }
}

/// Makes a set with its items sorted and without duplicates. A set of one item becomes the item: `{5}` answers 5.
pub(super) fn set(mut items: Vec<Value>) -> Value {
    items.sort_by_cached_key(Value::to_string);
    items.dedup_by_key(|item| item.to_string());
    match items.len() {
        1 => items.remove(0),
        _ => Value::Set(items),
    }
}
