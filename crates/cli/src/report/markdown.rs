//! Tables and text in Markdown.

use std::fmt::Write;

use crate::printable;

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

/// Text from elsewhere within a line of Markdown, shown as it is. Names of a bench's sets and
/// runs need no such care: [`is_fit_name`](crate::bench::outline::is_fit_name).
pub fn plain(text: &str) -> String {
    let mut shown = String::new();
    let text = printable::line(text);
    let mut chars = text.chars().peekable();
    let mut within_word = false;
    while let Some(c) = chars.next() {
        let next = chars.peek();
        match c {
            // Within a word it means nothing.
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

/// Text as code within a line; in backticks where Markdown shows those as they are.
pub fn code(text: &str) -> String {
    match text.contains(|c: char| printable::acts(c) || "\n\t<>&|`".contains(c)) {
        false => format!("`{text}`"),
        true => format!("<code>{}</code>", plain(text)),
    }
}

/// Text as a line of code of its own.
pub fn code_block(text: &str) -> String {
    match code(text).starts_with('<') {
        false => format!("    {text}"),
        true => code(text),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn an_underscore_within_a_word_stays_and_others_are_escaped() {
        assert_eq!(plain("x86_64"), "x86_64");
        assert_eq!(plain("_a_ b_"), "&#95;a&#95; b&#95;");
        assert_eq!(plain("__a"), "&#95;&#95;a");
    }
}
