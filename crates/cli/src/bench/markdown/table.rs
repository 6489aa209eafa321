//! Tables in Markdown.

use std::fmt::Write;

/// The first column to the left, numbers to the right.
pub fn table(out: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    out.push_str(&line(&head));
    let _ = writeln!(out, "|---|{}", "---:|".repeat(head.len() - 1));
    for row in rows {
        out.push_str(&line(&row));
    }
}

/// A difference of shares in points.
pub fn points(value: f64) -> String {
    format!("{:+.1}", value * 100.0)
}
