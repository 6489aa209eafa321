//! Plain text tables: the first column is left-aligned, the others are right-aligned.

use std::io::{self, Write};

use crate::printable;
pub(crate) use beamgen_measure::{counted, grouped, megabytes, operations, percent};

/// Formats a number with three decimals; `-` for `None`.
pub(crate) fn thousandths(number: Option<impl Into<f64>>) -> String {
    number.map_or("-".to_owned(), |number| format!("{:.3}", number.into()))
}

/// A table of texts. Each column is as wide as its widest cell.
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|&cell| cell.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with as many cells as the head has.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.head.len());
        let cells = cells
            .into_iter()
            .map(|cell| printable::line(&cell).into_owned());
        self.rows.push(cells.collect());
    }

    /// Writes the table, indented by two blanks.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| {
            all()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        for row in all() {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => line.push_str(&format!("  {cell:<width$}")),
                    _ => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["strategy", "tokens"]);
        table.row(vec!["beam".to_owned(), grouped(1_234_567)]);
        table.row(vec!["é".to_owned(), grouped(12)]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let want = "  strategy     tokens\n  beam      1 234 567\n  é                12\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
