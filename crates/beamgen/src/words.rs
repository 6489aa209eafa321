//! Words that stand where a model is named: `bundled` and `none`.

use std::path::Path;

use crate::{Config, ScorerKind};

/// Whether a model's name is this word, and no file or folder here has that name.
pub fn is_word(model: Option<&Path>, word: &str) -> bool {
    model.is_some_and(|name| name == Path::new(word) && !name.exists())
}

impl Config {
    /// Takes the words `bundled` and `none` for what they say where a model is named.
    pub fn resolve_words(&mut self) {
        let models = &mut self.models;
        if is_word(models.prm.as_deref(), "none") {
            models.prm = None;
            models.scorer = ScorerKind::None;
        }
        for model in [&mut models.generator, &mut models.prm] {
            if is_word(model.as_deref(), "bundled") {
                *model = None;
            }
        }
    }
}
