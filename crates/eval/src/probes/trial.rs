//! The scores of one chain before and after a change.

/// The scores of a chain before a change and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The number of the chain's problem: chains of one problem are resampled together.
    pub problem: u32,
    /// Whether a step of the chain is known to be wrong.
    pub is_wrong: bool,
    /// The chain's score before the change, aggregated over its steps.
    pub before: f64,
    /// The chain's score after the change, aggregated over its steps.
    pub after: f64,
    /// The score of the touched step before the change; `None` for an added step or no touched
    /// step.
    pub step_before: Option<f64>,
    /// The score of the touched step after the change; `None` if the change touches no single step.
    pub step_after: Option<f64>,
}
