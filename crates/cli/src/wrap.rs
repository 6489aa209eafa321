//! Wraps text between words, at the terminal's width.

use std::borrow::Cow;

use console::{Term, measure_text_width};

/// The minimum width at which text is wrapped. A narrower terminal breaks the lines itself.
const NARROWEST: usize = 30;

/// Returns the width of the terminal on stdout; `None` for files and pipes, whose lines are not
/// wrapped.
///
/// The variable `COLUMNS` is not read: shells do not export it, and an exported value would be
/// wrong as soon as the window changes its size.
pub(crate) fn columns() -> Option<usize> {
    let (_, columns) = Term::stdout().size_checked()?;
    Some(usize::from(columns)).filter(|&columns| columns >= NARROWEST)
}

/// Wraps text to lines of at most `columns`. The first line starts after `used` columns; each later
/// line starts with `hang`, even after a line break in the text. A word longer than a line is not
/// split. Colour codes count as no columns.
pub(crate) fn wrapped<'t>(
    text: &'t str,
    columns: Option<usize>,
    used: usize,
    hang: &str,
) -> Cow<'t, str> {
    let columns = columns.unwrap_or(usize::MAX);
    let fits = used.saturating_add(measure_text_width(text)) <= columns;
    if fits && !text.contains('\n') {
        return Cow::Borrowed(text);
    }
    let begin = measure_text_width(hang);
    let mut column = used;
    let mut shown = String::with_capacity(text.len() + 64);
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            begin_line(&mut shown, hang);
            column = begin;
        }
        for word in line.split_inclusive(' ') {
            let width = measure_text_width(word.trim_end_matches(' '));
            // A word at the start of a line stays there even if it is too long, since another line
            // break would not help.
            if column.saturating_add(width) > columns && column > begin {
                shown.truncate(shown.trim_end_matches(' ').len());
                begin_line(&mut shown, hang);
                column = begin;
            }
            shown.push_str(word);
            column = column.saturating_add(measure_text_width(word));
        }
    }
    Cow::Owned(shown)
}

fn begin_line(shown: &mut String, hang: &str) {
    shown.push('\n');
    shown.push_str(hang);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        let text = "Mia has 34 pens. Leo has 8 more.";
        let at = |columns| wrapped(text, Some(columns), 4, "  ");
        assert_eq!(at(36), text);
        assert_eq!(at(35), "Mia has 34 pens. Leo has 8\n  more.");
        assert_eq!(at(15), "Mia has 34\n  pens. Leo has\n  8 more.");
        assert_eq!(wrapped(text, None, 4, "  "), text);
    }

    #[test]
    fn words_are_measured_as_the_terminal_shows_them() {
        let at = |text| wrapped(text, Some(10), 0, "").into_owned();
        assert_eq!(
            at("\u{6570}\u{6570} \u{6570}\u{6570} a"),
            "\u{6570}\u{6570} \u{6570}\u{6570}\na"
        );
        assert_eq!(
            at("\x1b[1mone two\x1b[0m six"),
            "\x1b[1mone two\x1b[0m\nsix"
        );
        assert_eq!(at("a antidisestablishment b"), "a\nantidisestablishment\nb");
    }

    #[test]
    fn lines_of_the_text_stay_lines() {
        let at = |columns| wrapped("x = 1\n  y = 2 + 3\n\nz", columns, 2, "> ");
        assert_eq!(at(None), "x = 1\n>   y = 2 + 3\n> \n> z");
        assert_eq!(at(Some(12)), "x = 1\n>   y = 2 +\n> 3\n> \n> z");
    }
}
