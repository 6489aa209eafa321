//! `\begin{pmatrix} ... \end{pmatrix}`

use super::super::lex::{Kind, ROW_END};
use super::super::value::Value;
use super::Parser;
use crate::algebra::Fault;

const KINDS: &[&str] = &["pmatrix", "bmatrix", "matrix", "smallmatrix", "array"];

impl Parser<'_> {
    /// A matrix whose `\begin` is read. A column is a vector.
    pub(super) fn matrix(&mut self) -> Result<Value, Fault> {
        let kind = self.environment()?;
        if !KINDS.contains(&kind.as_str()) {
            return Err(Fault::Unread);
        }
        if kind == "array" {
            // How the columns are aligned.
            self.expect('{')?;
            while !self.eat('}') {
                self.kind(0).ok_or(Fault::Unread)?;
                self.at += 1;
            }
        }
        let rows = self.nested(Self::rows)?;
        self.at += 1;
        if self.environment()? != kind {
            return Err(Fault::Unread);
        }
        let columns = rows.first().map_or(0, Vec::len);
        if columns == 0 || rows.iter().any(|row| row.len() != columns) {
            return Err(Fault::Unread);
        }
        if columns > 1 {
            return Ok(Value::Matrix(rows));
        }
        let mut items: Vec<Value> = rows.into_iter().flatten().collect();
        Ok(match items.len() {
            1 => items.remove(0),
            _ => Value::Brackets('(', items, ')'),
        })
    }

    fn environment(&mut self) -> Result<String, Fault> {
        self.expect('{')?;
        let Some(Kind::Letters(name)) = self.kind(0).cloned() else {
            return Err(Fault::Unread);
        };
        self.at += 1;
        self.expect('}')?;
        Ok(name)
    }

    /// The rows up to `\end`.
    fn rows(&mut self) -> Result<Vec<Vec<Value>>, Fault> {
        let mut rows = vec![Vec::new()];
        let is_end = |parser: &Self| matches!(parser.kind(0), Some(Kind::Command(c)) if c == "end");
        while !is_end(self) {
            let value = self.sum()?;
            if let Some(row) = rows.last_mut() {
                row.push(value);
            }
            if self.eat('&') {
                continue;
            }
            if !self.eat(ROW_END) {
                break;
            }
            if !is_end(self) {
                rows.push(Vec::new());
            }
        }
        if is_end(self) {
            Ok(rows)
        } else {
            Err(Fault::Unread)
        }
    }
}
