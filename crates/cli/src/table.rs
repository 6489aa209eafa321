//! Plain text tables: the first column is left-aligned, the others are right-aligned.

use std::io::{self, Write};

use crate::printable;

/// A head and rows of cells.
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|&cell| cell.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with as many cells as the head has.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.head.len());
        let printable = |cell: String| printable::line(&cell).into_owned();
        self.rows.push(cells.into_iter().map(printable).collect());
    }

    /// Writes the table, indented by two blanks.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
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

/// `1234567` as `1 234 567`. A comma would be a decimal point in some countries.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Bytes in MB (10^6 bytes).
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A fraction in per cent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
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

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 12, 123, 1234, 1_000_000].map(grouped),
            ["0", "12", "123", "1 234", "1 000 000"]
        );
    }
}
