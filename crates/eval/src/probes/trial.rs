//! A chain scored as it was and changed.

/// The scores of a chain before a change and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The number of its problem: chains of one problem are resampled together.
    pub problem: u32,
    /// Whether a step of the chain is known to be wrong.
    pub is_wrong: bool,
    /// The chain's score as it was, aggregated over its steps.
    pub before: f64,
    /// The changed chain's.
    pub after: f64,
    /// The score of the step that the touched one is compared with.
    pub step_before: Option<f64>,
    /// The touched step's score.
    pub step_after: Option<f64>,
}
