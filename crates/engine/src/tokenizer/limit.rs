//! Recognises texts that no context can hold, without encoding them as a whole.

use std::sync::Arc;

use super::Tokenizer;

/// The number of bytes that are encoded at once.
const PIECE: usize = 16 << 10;
/// The most tokens that a cut after a whole piece may add: one word is cut at most. Between short
/// texts a cut adds one token, such as a line end that the tokenizer joins to the next text.
const PER_CUT: usize = 64;

/// The longest texts that fit in a context, which any thread can check before the model gets them.
#[derive(Debug, Clone)]
pub struct TextLimit {
    tokenizer: Arc<Tokenizer>,
    context: usize,
}

impl TextLimit {
    /// Creates the limit of a model with a context of `context` tokens.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>, context: usize) -> Self {
        Self { tokenizer, context }
    }

    /// The model's context in tokens.
    #[must_use]
    pub fn context(&self) -> usize {
        self.context
    }

    /// Whether the texts together have more tokens than the context ([`Tokenizer::exceeds`]).
    #[must_use]
    pub fn is_exceeded_by(&self, texts: &[&str]) -> bool {
        self.tokenizer.exceeds(texts, self.context)
    }
}

impl Tokenizer {
    /// Whether texts together have more tokens than `context`. The time grows with the context and
    /// not with the texts: tokens of pieces are counted until there are too many.
    ///
    /// White space around a text does not count, since a template may strip it. Texts that are too
    /// long by a few tokens pass, and so do short ones: whoever encodes them counts exactly.
    #[must_use]
    pub fn exceeds(&self, texts: &[&str], context: usize) -> bool {
        let bytes: usize = texts.iter().map(|text| text.trim().len()).sum();
        // Every token is at least one byte long, and at most as long as the longest token.
        if bytes > context.saturating_mul(self.longest) {
            return true;
        }
        if bytes <= context.max(PIECE) {
            return false;
        }
        let (mut tokens, mut most) = (0, context);
        for text in texts {
            for piece in pieces(text.trim()) {
                // A text that the tokenizer refuses passes: whoever encodes it reports the reason.
                tokens += self.encode(piece, false).map_or(0, |piece| piece.len());
                // Each cut may add tokens that the whole text does not have, so the bound grows
                // with the cuts.
                most += 1 + PER_CUT * piece.len() / PIECE;
                if tokens > most {
                    return true;
                }
            }
        }
        false
    }
}

/// Splits a text into pieces of about [`PIECE`] bytes, before white space where possible.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = if rest.len() > PIECE {
            // A character has at most four bytes.
            let end = (PIECE - 3..=PIECE).rfind(|at| rest.is_char_boundary(*at));
            let end = end.unwrap_or(rest.len());
            // Words are rarely split by such a cut, so the counts of pieces add up to nearly the
            // exact number.
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
