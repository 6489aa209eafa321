//! The words `bundled` and `none` in settings.

use crate::Config;
use crate::config::ScorerKind;
use crate::word::is_word;

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
