//! Thoughts: text that a model writes to itself between two tags, before its answer. Thoughts state
//! no answer.

use std::borrow::Cow;

/// The opening and closing tags of thoughts in published models.
pub const TAGS: [(&str, &str); 7] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    // The channels of gpt-oss: <https://github.com/openai/harmony>.
    (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
];

/// The length in bytes of the longest entry of `TAGS`.
const LONGEST: usize = 52;

/// The tokens of which the tags of gpt-oss consist.
const CHANNELS: [&str; 4] = ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"];

/// Whether a token is the tag of a thought, or a part of one. The text of such a token belongs to
/// the chain, even if the tokenizer marks the token as special.
#[must_use]
pub fn is_tag(token: &[u8]) -> bool {
    let tags = TAGS.iter().flat_map(|&(open, close)| [open, close]);
    let mut tags = tags.chain(CHANNELS);
    tags.any(|tag| tag.as_bytes() == token)
}

/// Returns the text outside of thoughts, with a line break for each thought; `None` if the last
/// thought is still open. Text before a closing tag without an opening tag is a thought, too.
#[must_use]
pub fn spoken(text: &str) -> Option<Cow<'_, str>> {
    let (parts, open) = split(text);
    if open.is_some() {
        return None;
    }
    match parts[..] {
        [all] if all.len() == text.len() => Some(Cow::Borrowed(all)),
        _ => Some(Cow::Owned(parts.join("\n"))),
    }
}

/// Returns the part of an open thought at the end of `text` on which later text depends.
pub(crate) fn open_end(text: &str) -> Option<String> {
    let open = split(text).1?;
    // The last bytes may be the beginning of the closing tag, so they are kept.
    Some([open, ending(text, LONGEST)].concat())
}

/// Returns the last `bytes` of a text, extended to the start of the character they begin in.
pub(crate) fn ending(text: &str, bytes: usize) -> &str {
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    &text[from..]
}

/// Returns the parts outside of thoughts, and the tag of the thought that is open at the end.
fn split(text: &str) -> (Vec<&str>, Option<&'static str>) {
    let (mut parts, mut from) = (Vec::new(), 0);
    let (mut open, mut any): (Option<(&str, &str)>, bool) = (None, false);
    // Every tag begins with one of these two characters.
    for (at, _) in text.match_indices(['<', '[']) {
        let rest = &text[at..];
        if let Some((_, close)) = open {
            if rest.starts_with(close) {
                (open, from) = (None, at + close.len());
            }
        } else if let Some(&tags) = TAGS.iter().find(|(open, _)| rest.starts_with(open)) {
            parts.push(&text[from..at]);
            (open, any) = (Some(tags), true);
        } else if let Some((_, close)) = TAGS
            .iter()
            .find(|(_, close)| rest.starts_with(close))
            .filter(|_| !any)
        {
            // A closing tag without an opening tag: the prompt has opened the thought. Only
            // possible before any other tag.
            (from, any) = (at + close.len(), true);
        }
    }
    if open.is_none() {
        parts.push(&text[from..]);
    }
    (parts, open.map(|(open, _)| open))
}
