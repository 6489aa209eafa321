//! What a checker that is another program lost.

use serde::Serialize;

/// What a checker lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Steps without a verdict that was owed.
    pub verdicts: u64,
    /// Times that a process ended by itself with steps to answer, or could not be started.
    pub crashes: u64,
    /// Times that a process did not answer in time.
    pub timeouts: u64,
    /// Lines that were no answers.
    pub noise: u64,
    /// Why the program is not asked any more, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
}
