//! The interface between the search and a verifier: a program, a puzzle's rules or a proof checker
//! that says whether a whole chain is right.

use crate::outcome::Outcome;
use crate::problem::Problem;
use crate::scorer::BatchId;

/// Judges finished chains. A verifier may answer later, so that the search of other problems
/// continues meanwhile.
///
/// A search asks when its strategy is done, so outcomes change no chain and no choice. The verifier
/// may therefore look at the problem's reference answer. An [open](Self::is_open) verifier may also
/// guide a search ([`outcome_scores`](crate::SearchConfig::outcome_scores)).
pub trait Verifier {
    /// Returns the name of the verifier that judges the chains of this problem. `None` if the
    /// answer is compared with the problem's reference instead.
    fn name_for(&self, problem: &Problem) -> Option<&str>;

    /// Whether the verifier of this problem is open: it judges by the problem alone, and sees
    /// neither its reference answer nor its tests. By default it is not.
    fn is_open(&self, problem: &Problem) -> bool {
        let _ = problem;
        false
    }

    /// Takes the finished chains of a problem to be judged. [`collect`](Self::collect) returns
    /// their outcomes under the number of the batch, which no other batch of the process has.
    fn submit(&mut self, batch: BatchId, problem: &Problem, chains: &[WholeChain<'_>]);

    /// Returns the batches that were judged since the last call, with an outcome for each chain. If
    /// `wait` is true and batches are pending, the call may block for a short while.
    fn collect(&mut self, wait: bool) -> Vec<(BatchId, Vec<Outcome>)>;
}

/// A finished chain that a verifier judges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeChain<'a> {
    /// The texts of the steps, boundaries included, without empty steps.
    pub steps: Vec<&'a str>,
    /// The answer that was found in the text; `None` if the text has none.
    pub answer: Option<&'a str>,
}
