//! Escaping of text from outside (problems, models, file names, arguments), so that it can be printed safely.
//!
//! An escape sequence in a problem or a file name could move the cursor, recolour or rename the
//! terminal. A direction mark could show digits in another order, and a zero-width space could make two names look
//! alike. A character that acts instead of being shown is therefore written as a readable escape such as `\x1b` or
//! `\u{202e}`. Everything that is printed for people passes through this module. JSON does not, because programs need
//! the original text.
//!
//! Joiners (U+200C and U+200D) and variation selectors are not escaped, although they are invisible. They change the
//! look of the character before them, as Persian, Indian scripts, Mongolian and emoji need.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes a text of several lines, whose newlines and tabs are kept.
pub fn lines(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    // The carriage return of a Windows line end does nothing before a newline.
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            c if !acts(c) => shown.push(c),
            '\r' => shown.push_str("\\r"),
            c if c.is_ascii() => {
                let _ = write!(shown, "\\x{:02x}", u32::from(c));
            }
            c => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(shown)
}

/// Escapes a text for a single line; newlines and tabs become spaces.
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\t']) {
        lines(text)
    } else {
        Cow::Owned(lines(text).replace(['\n', '\t'], " "))
    }
}

/// Removes the middle of a text with more than `limit` characters. Both ends are kept, because a message begins with
/// its subject and ends with the remedy.
pub fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= limit {
        return Cow::Borrowed(text);
    }
    let tail = limit * 2 / 5;
    let first: String = text.chars().take(limit - tail).collect();
    let last: String = text.chars().skip(count - tail).collect();
    Cow::Owned(format!("{first} [...] {last}"))
}

/// Returns whether a character acts on the terminal instead of being shown. These are control characters (ESC, CR,
/// backspace, the C1 set), direction marks, line and paragraph separators, and Unicode's
/// `Default_Ignorable_Code_Point` except joiners and variation selectors.
pub fn acts(c: char) -> bool {
    // The list is written out, because the standard library does not have this property.
    let is_invisible = matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e00ff}'
            | '\u{e01f0}'..='\u{e0fff}'
    );
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || is_invisible || is_separator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_act_become_visible_escapes() {
        assert_eq!(
            lines("a\x1b[31mb\x07\x08\x7f"),
            "a\\x1b[31mb\\x07\\x08\\x7f"
        );
        assert_eq!(
            lines("7\u{202e}1\u{9b}2J\u{2028}"),
            "7\\u{202e}1\\u{9b}2J\\u{2028}"
        );
        for invisible in "\u{200b}\u{feff}\u{ad}\u{2060}\u{e0041}\u{3164}\u{180e}\u{fff9}".chars() {
            let shown = lines(&format!("a{invisible}b")).into_owned();
            assert_eq!(shown, format!("a\\u{{{:x}}}b", u32::from(invisible)));
        }
        assert_eq!(lines("one\r\ntwo\tthree\rfour"), "one\ntwo\tthree\\rfour");
        assert_eq!(line("one\ntwo\tthree\x00"), "one two three\\x00");
        for plain in [
            "",
            "Mia has 34 pens.",
            "é 数 \u{1f469}\u{200d}\u{1f4bb} \u{2764}\u{fe0f} \u{645}\u{6cc}\u{200c}\u{62e} \u{8fbb}\u{e0100}",
            "a\\b",
        ] {
            assert!(matches!(lines(plain), Cow::Borrowed(_)), "{plain}");
        }
    }

    #[test]
    fn long_text_keeps_both_ends() {
        let text = format!("first {} last", "é".repeat(1000));
        let short = shortened(&text, 100);
        assert!(short.starts_with("first é") && short.ends_with("é last"));
        assert_eq!(short.chars().count(), 100 + " [...] ".len());
        assert_eq!(shortened("éé", 2), "éé");
    }
}
