//! Words that stand where a model is named.

use std::path::Path;

/// Whether a model's name is this word, and no file or folder here has that name.
pub fn is_word(model: Option<&Path>, word: &str) -> bool {
    model.is_some_and(|name| name == Path::new(word) && !name.exists())
}
