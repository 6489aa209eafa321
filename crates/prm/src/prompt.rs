use std::fmt;

type Write = dyn Fn(&str) -> Result<String, String> + Send;

/// Writes the prompt around a problem. It comes from outside (the chat template of the
/// checkpoint), so that a reward model need not know templates.
pub struct Renderer {
    write: Box<Write>,
    /// Whether the text has its special tokens already.
    pub(crate) special_tokens: bool,
}

impl Renderer {
    /// `write` makes the prompt from the problem's text, or says in a line why it cannot.
    /// `writes_special_tokens` tells whether it writes those around the text itself.
    pub fn new(
        write: impl Fn(&str) -> Result<String, String> + Send + 'static,
        writes_special_tokens: bool,
    ) -> Self {
        Self {
            write: Box::new(write),
            special_tokens: writes_special_tokens,
        }
    }

    pub(crate) fn render(&self, problem: &str) -> Result<String, String> {
        (self.write)(problem)
    }
}

impl fmt::Debug for Renderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renderer")
            .field("special_tokens", &self.special_tokens)
            .finish_non_exhaustive()
    }
}
