//! Readers that compute quantiles of the probability of success from a hidden state.

/// The data that a [`QuantileReader`] gets for a step.
#[derive(Clone, Copy, Debug)]
pub struct StepReading<'a> {
    /// The hidden state that the score is read from.
    pub hidden: &'a [f32],
    /// The score of the step, a probability in `0.0..=1.0`.
    pub score: f32,
    /// The lowest score of the chain's steps up to this one.
    pub lowest: f32,
}

/// A function that returns three quantiles of the probability of success after a step, for
/// [`Scored::quantiles`](beamgen_search::Scored::quantiles). Called once for each step, in the
/// order of items and steps.
pub type QuantileReader = Box<dyn FnMut(StepReading<'_>) -> [f32; 3] + Send>;

/// The reader of a reward model, if it has one.
#[derive(Default)]
pub(crate) struct Quantiles(pub(crate) Option<QuantileReader>);

impl std::fmt::Debug for Quantiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Quantiles").field(&self.0.is_some()).finish()
    }
}
