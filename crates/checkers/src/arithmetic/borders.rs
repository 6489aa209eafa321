//! Dollar signs: telling the borders of LaTeX mathematics from money.

/// The dollar signs of a text that begin or end mathematics.
#[derive(Debug, Default)]
pub(super) struct Borders {
    /// The byte offsets of the signs, ascending.
    pub at: Vec<usize>,
    /// Whether the first sign ends mathematics that an earlier text began.
    pub begins_open: bool,
}

impl Borders {
    /// Finds the borders in a text. `is_open` says that the text begins inside mathematics. Between
    /// two borders there are no words of prose, and an empty line ends all mathematics.
    pub(super) fn of(text: &str, mut is_open: bool) -> Self {
        let mut borders = Self::default();
        let mut start = 0;
        for (at, _) in text.match_indices("\n\n").chain([(text.len(), "")]) {
            borders.paragraph(&text[start..at], start, is_open);
            (start, is_open) = (at, false);
        }
        borders
    }

    fn paragraph(&mut self, text: &str, offset: usize, is_open: bool) {
        let signs = signs(text);
        let mut signs = signs.as_slice();
        if let [first, rest @ ..] = signs {
            let before = &text[..*first];
            let ends = before.contains('\\') && !before.ends_with(' ') && is_mathematics(before);
            if is_open || ends {
                self.begins_open |= ends && offset == 0;
                self.at.push(offset + first);
                signs = rest;
            }
        }
        while let [begin, rest @ ..] = signs {
            let end = rest.first().copied();
            let inside = &text[begin + 1..end.unwrap_or(text.len())];
            match end {
                Some(end) if closes(text, end) && is_mathematics(inside) => {
                    self.at.extend([offset + begin, offset + end]);
                    signs = &rest[1..];
                }
                None if inside.contains('\\') && is_mathematics(inside) => {
                    self.at.push(offset + begin);
                    return;
                }
                _ => signs = rest,
            }
        }
    }
}

/// Whether the dollar sign at `at` may end mathematics: no white space before the sign, and no
/// digit after it (`$5` is money).
fn closes(text: &str, at: usize) -> bool {
    let is_digit = text[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    !text[..at].ends_with(char::is_whitespace) && !is_digit
}

/// Whether a text may continue mathematics of the text before: the text has an end of mathematics,
/// or no prose at all.
pub(super) fn may_go_on(text: &str) -> bool {
    let ends = ["$", "\\]", "\\)", "\\end"];
    ends.iter().any(|end| text.contains(end)) || is_mathematics(text)
}

/// Returns the byte offsets of dollar signs that are neither escaped (`\$`) nor doubled (`$$`).
fn signs(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let is = |at: usize, byte| bytes.get(at) == Some(&byte);
    let single = |&(at, _): &(usize, &str)| {
        let before = |byte| at > 0 && is(at - 1, byte);
        !before(b'\\') && !before(b'$') && !is(at + 1, b'$')
    };
    let signs = text.match_indices('$').filter(single);
    signs.map(|(at, _)| at).collect()
}

/// Whether a text has no words of prose, apart from LaTeX's commands and their texts.
fn is_mathematics(text: &str) -> bool {
    if ["\\text", "\\mbox", "\\mathrm"]
        .iter()
        .any(|command| text.contains(command))
    {
        return true;
    }
    let has_blank = text.trim().contains(char::is_whitespace);
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic() && c != '\\');
    !text.trim().is_empty() && words.all(|word| !is_prose(word, has_blank))
}

fn is_prose(word: &str, has_blank: bool) -> bool {
    const SHORT: &[&str] = &[
        "of", "is", "so", "at", "he", "in", "to", "or", "if", "by", "on", "we", "it",
    ];
    let lower = word.bytes().all(|b| b.is_ascii_lowercase());
    lower && has_blank && (word.len() > 2 || SHORT.contains(&word))
}
