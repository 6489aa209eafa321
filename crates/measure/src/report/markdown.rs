//! Tables and text in Markdown.

use std::fmt::Write;

use crate::printable;

/// Appends a table. The first column is aligned to the left, the others to the right.
pub(crate) fn table(out: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    out.push_str(&table_line(&head));
    // `---:` aligns a column to the right, which suits numbers.
    let _ = writeln!(out, "|---|{}", "---:|".repeat(head.len() - 1));
    for row in rows {
        out.push_str(&table_line(&row));
    }
}

fn table_line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A column of a table: its heading, and its cell in a row.
pub(crate) type Column<R> = (&'static str, fn(&R) -> String);

/// Appends a table with these columns and a row for each of `rows`.
pub(crate) fn columns<'r, R: 'r>(
    out: &mut String,
    columns: &[Column<R>],
    rows: impl Iterator<Item = &'r R>,
) {
    let head: Vec<&str> = columns.iter().map(|column| column.0).collect();
    table(
        out,
        &head,
        rows.map(|row| columns.iter().map(|column| column.1(row)).collect()),
    );
}

/// Formats a value with the ends of its interval, for example `91.2 (90.0 to 92.5)`.
pub(crate) fn between(value: f64, (low, high): (f64, f64), number: fn(f64) -> String) -> String {
    format!("{} ({} to {})", number(value), number(low), number(high))
}

/// Formats a share as a percentage with one decimal, without a percent sign.
pub(crate) fn share(value: f64) -> String {
    format!("{:.1}", value * 100.0)
}

/// Formats a score, or another number of about 0 to 1, with three decimals.
pub(crate) fn decimal(value: f64) -> String {
    format!("{value:.3}")
}

/// Formats a difference of shares in percentage points, with a sign.
pub(crate) fn points(value: f64) -> String {
    format!("{:+.1}", value * 100.0)
}

/// Escapes text from outside for a line of Markdown, so that it is shown unchanged. Names of sets and runs need no
/// escape, because [`is_fit_name`](crate::bench::outline::is_fit_name) was checked.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::new();
    let text = printable::line(text);
    let mut chars = text.chars().peekable();
    let mut within_word = false;
    while let Some(c) = chars.next() {
        let next = chars.peek();
        match c {
            // An underscore within a word has no meaning in Markdown, and reports are easier to read without escapes.
            '_' if within_word && next.is_some_and(|c| c.is_alphanumeric()) => shown.push(c),
            '<' | '>' | '&' | '|' | '`' | '*' | '_' | '[' | ']' | '\\' => {
                let _ = write!(shown, "&#{};", u32::from(c));
            }
            c => shown.push(c),
        }
        within_word = c.is_alphanumeric();
    }
    shown
}

/// Formats text as inline code. Backticks are used if Markdown then shows the text unchanged, else HTML.
pub(crate) fn code(text: &str) -> String {
    if !text.contains(|c: char| printable::acts(c) || "\n\t<>&|`".contains(c)) {
        format!("`{text}`")
    } else {
        format!("<code>{}</code>", plain(text))
    }
}

/// Formats text as a line of code by indentation, or as HTML if Markdown would change the text.
pub(crate) fn code_block(text: &str) -> String {
    if !code(text).starts_with('<') {
        format!("    {text}")
    } else {
        code(text)
    }
}

/// Parses a number as reports print it, for example `1 234`, `+1.0`, `91.2 %` or `-3.0*`.
#[cfg(test)]
fn number(text: &str) -> Option<f64> {
    let plain = text
        .trim()
        .trim_end_matches([' ', '%', '*'])
        .replace(' ', "");
    plain.trim_start_matches('+').parse().ok()
}

/// Returns the numbers of every `figure (low to high)` in a report.
#[cfg(test)]
pub(crate) fn figures(text: &str) -> Vec<(f64, f64, f64)> {
    text.match_indices('(')
        .filter_map(|(at, _)| {
            let (inner, _) = text[at + 1..].split_once(')')?;
            let (low, high) = inner.split_once(" to ")?;
            let figure = text[..at]
                .trim_end()
                .rsplit([' ', '\n'])
                .find(|word| *word != "%")?;
            Some((number(figure)?, number(low)?, number(high)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{figures, plain};

    #[test]
    fn an_underscore_within_a_word_stays_and_others_are_escaped() {
        assert_eq!(plain("x86_64"), "x86_64");
        assert_eq!(plain("_a_ b_"), "&#95;a&#95; b&#95;");
        assert_eq!(plain("__a"), "&#95;&#95;a");
    }

    #[test]
    fn figures_are_found_in_a_text() {
        let text = "| beam@4 | 91.2 % (90.0 to 92.5) | -1.0* (-2.0 to +0.5) |\n(not to be read)";
        assert_eq!(figures(text), [(91.2, 90.0, 92.5), (-1.0, -2.0, 0.5)]);
    }
}
