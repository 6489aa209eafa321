//! What is read of a hidden state besides the score.

/// Gives the quantiles of a step's probability of success, from the hidden state that its score is
/// read from, and that score. Called once a step, in the order of items and steps.
pub type QuantileReader = Box<dyn FnMut(&[f32], f32) -> [f32; 3] + Send>;

/// The reader of a reward model, if it has one.
#[derive(Default)]
pub(crate) struct Quantiles(pub(crate) Option<QuantileReader>);

impl std::fmt::Debug for Quantiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Quantiles").field(&self.0.is_some()).finish()
    }
}
