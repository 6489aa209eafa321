//! Detects texts that are too long for a context without encoding all of them.

use std::sync::Arc;

use super::Tokenizer;

/// The number of bytes that are encoded at a time.
const PIECE: usize = 16 << 10;
/// The most tokens that a cut after a full piece may add, because the cut may split a word. A cut
/// between short texts adds at most one token, such as a line end that the tokenizer would join to
/// the next text.
const PER_CUT: usize = 64;

/// A context's limit on texts. Any thread can check it before a text reaches the model.
#[derive(Debug, Clone)]
pub struct TextLimit {
    tokenizer: Arc<Tokenizer>,
    context: usize,
}

impl TextLimit {
    /// Creates the limit for a model whose context has `context` tokens.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>, context: usize) -> Self {
        Self { tokenizer, context }
    }

    /// The number of tokens in the model's context, prompt and answer together.
    #[must_use]
    pub fn context(&self) -> usize {
        self.context
    }

    /// Whether the texts together surely have more tokens than the context
    /// ([`Tokenizer::exceeds`]).
    #[must_use]
    pub fn is_exceeded_by(&self, texts: &[&str]) -> bool {
        self.tokenizer.exceeds(texts, self.context)
    }
}

impl Tokenizer {
    /// Whether the texts together surely have more tokens than `context`. The time is limited by
    /// the context, because pieces are encoded only until their tokens exceed it.
    ///
    /// White space around a text is not counted, because a template may strip it. Texts that are
    /// too long by a few tokens pass, so the caller must still count the tokens of the encoded
    /// prompt.
    #[must_use]
    pub fn exceeds(&self, texts: &[&str], context: usize) -> bool {
        let bytes: usize = texts.iter().map(|text| text.trim().len()).sum();
        // Every token has at most `longest` bytes.
        if bytes > context.saturating_mul(self.longest) {
            return true;
        }
        if bytes <= context.max(PIECE) {
            return false;
        }
        let (mut tokens, mut most) = (0, context);
        for text in texts {
            for piece in pieces(text.trim()) {
                // A piece that the tokenizer refuses counts as 0 tokens; encoding the text later
                // reports the error.
                tokens += self.encode(piece, false).map_or(0, |piece| piece.len());
                // Each cut may add tokens that the whole text does not have, so the limit grows
                // with each cut.
                most += 1 + PER_CUT * piece.len() / PIECE;
                if tokens > most {
                    return true;
                }
            }
        }
        false
    }
}

/// Splits a text into pieces of at most [`PIECE`] bytes, before white space if possible.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = if rest.len() > PIECE {
            // A character has at most four bytes.
            let end = (PIECE - 3..=PIECE).rfind(|at| rest.is_char_boundary(*at));
            let end = end.unwrap_or(rest.len());
            // A cut before white space rarely splits a word, so the pieces have nearly as many
            // tokens as the whole text.
            let space = rest[..end].rfind(char::is_whitespace);
            space.filter(|at| *at > 0).unwrap_or(end)
        } else {
            rest.len()
        };
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_text() {
        for text in ["", "a", &"é".repeat(20_000), &"seven pens ".repeat(9_000)] {
            let all: Vec<&str> = pieces(text).collect();
            assert_eq!(all.concat(), text);
            assert!(
                all.iter()
                    .all(|piece| piece.len() <= PIECE && !piece.is_empty())
            );
        }
        let words = "seven pens ".repeat(9_000);
        assert!(pieces(&words).skip(1).all(|piece| piece.starts_with(' ')));
    }
}
