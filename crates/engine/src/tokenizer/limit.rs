//! Texts that no context holds: found without cutting them into tokens as a whole.

use std::sync::Arc;

use super::Tokenizer;

/// Bytes whose tokens are counted at once.
const PIECE: usize = 16 << 10;
/// Tokens that a cut at the end of a whole piece may add, with room to spare: one word is cut at
/// most. Between short texts it is one, a line's end that the tokenizer joins to what follows.
const PER_CUT: usize = 64;

/// The longest texts that fit into a context, for any thread to check before a model is given them.
#[derive(Debug, Clone)]
pub struct TextLimit {
    tokenizer: Arc<Tokenizer>,
    context: usize,
}

impl TextLimit {
    /// The limit of a model that holds `context` tokens.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>, context: usize) -> Self {
        Self { tokenizer, context }
    }

    /// Tokens that the model's context holds.
    #[must_use]
    pub fn context(&self) -> usize {
        self.context
    }

    /// Whether the texts have more tokens than the context ([`Tokenizer::exceeds`]).
    #[must_use]
    pub fn is_exceeded_by(&self, texts: &[&str]) -> bool {
        self.tokenizer.exceeds(texts, self.context)
    }
}

impl Tokenizer {
    /// Whether texts have more tokens than a context of so many. Takes a time that grows with the
    /// context, not with the texts: it counts the tokens of pieces until there are too many.
    ///
    /// White space around a text does not count, since a template may take it away. Texts that are
    /// too long by a few tokens pass, and so do short ones: those who read them count exactly.
    #[must_use]
    pub fn exceeds(&self, texts: &[&str], context: usize) -> bool {
        let bytes: usize = texts.iter().map(|text| text.trim().len()).sum();
        // No token stands for more than the longest one does, and each for a byte at least.
        if bytes > context.saturating_mul(self.longest) {
            return true;
        }
        if bytes <= context.max(PIECE) {
            return false;
        }
        let (mut tokens, mut most) = (0, context);
        for text in texts {
            for piece in pieces(text.trim()) {
                // A text that the tokenizer refuses is refused with its reason when it is read.
                tokens += self.encode(piece, false).map_or(0, |piece| piece.len());
                most += 1 + PER_CUT * piece.len() / PIECE;
                if tokens > most {
                    return true;
                }
            }
        }
        false
    }
}

/// A text in pieces of about [`PIECE`] bytes, cut before white space where there is some.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = if rest.len() > PIECE {
            // A character has at most four bytes.
            let end = (PIECE - 3..=PIECE).rfind(|at| rest.is_char_boundary(*at));
            let end = end.unwrap_or(rest.len());
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
