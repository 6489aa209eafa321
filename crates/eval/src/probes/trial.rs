//! The scores of one chain, before and after a change.

/// The scores of a chain before a change and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The number of the chain's problem. The bootstrap resamples all chains of a problem together.
    pub problem: u32,
    /// Whether a step of the chain is known to be wrong.
    pub is_wrong: bool,
    /// The aggregated score of the chain before the change, 0 to 1.
    pub before: f64,
    /// The aggregated score of the chain after the change, 0 to 1.
    pub after: f64,
    /// The score of the touched step before the change; `None` if the change adds the step or touches no single step.
    pub step_before: Option<f64>,
    /// The score of the touched step after the change; `None` if the change touches no single step.
    pub step_after: Option<f64>,
}
