//! The binary search for the first error of a chain (`OmegaPRM`,
//! <https://arxiv.org/abs/2406.06592>).

use super::sampled::End;

/// The next need of a search, or its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// The search needs the rollouts of the step with this index.
    Needs(usize),
    /// The index of the first wrong step. No rollout after this step is right; one before it is,
    /// unless the step is the first.
    Found(usize),
    /// The chain has no error: its answer is right, or it was cut off and a rollout from its last
    /// complete step is right.
    NoError,
    /// The search cannot continue, because no rollout from a middle step reached its own end.
    Unknown,
}

/// Searches a chain of `steps` complete steps. The first `from` steps are assumed to be right.
///
/// `rolled_out` returns the hard label of a step, or `None` while its rollouts are not done. The
/// label is `None` if no rollout reached its own end.
///
/// The function keeps no state: after the needed step has its rollouts, call the function again.
/// The same decisions are then repeated up to the new result.
pub(super) fn search(
    from: usize,
    steps: usize,
    end: Option<End>,
    rolled_out: impl Fn(usize) -> Option<Option<bool>>,
) -> Search {
    // Invariant: the first `from` steps are right, and one of the next `to - from` steps is wrong.
    let (mut from, mut to) = match end {
        Some(End::Right) => return Search::NoError,
        Some(End::Wrong) => (from, steps),
        // A chain that was cut off may have no wrong step. An imaginary wrong step after the last
        // one keeps the invariant.
        _ => (from, steps + 1),
    };
    while to - from > 1 {
        let middle = from.midpoint(to);
        match rolled_out(middle - 1) {
            Some(Some(true)) => from = middle,
            Some(Some(false)) => to = middle,
            Some(None) => return Search::Unknown,
            None => return Search::Needs(middle - 1),
        }
    }
    if to > steps {
        Search::NoError
    } else {
        Search::Found(to - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search for the known `first_error` to its end. Returns the result and the number of
    /// steps that needed rollouts.
    fn searched(steps: usize, end: Option<End>, first_error: usize) -> (Search, usize) {
        let mut known = vec![None; steps];
        if end == Some(End::Wrong) {
            known[steps - 1] = Some(false);
        }
        for rolled_out in 0..=steps {
            match search(0, steps, end, |step| known[step].map(Some)) {
                Search::Needs(step) => known[step] = Some(step < first_error),
                found => return (found, rolled_out),
            }
        }
        panic!("it rolls steps out again");
    }

    #[test]
    fn it_finds_the_first_error_with_logarithmically_many_steps() {
        for steps in 1_usize..=20 {
            let most = steps.next_power_of_two().trailing_zeros() as usize;
            for first_error in 0..steps {
                let (found, rolled_out) = searched(steps, Some(End::Wrong), first_error);
                assert_eq!(found, Search::Found(first_error), "{steps} steps");
                assert!(rolled_out <= most, "{rolled_out} of {steps}");
                let (found, _) = searched(steps, Some(End::Truncated), first_error);
                assert_eq!(found, Search::Found(first_error), "{steps} steps, cut");
            }
            assert_eq!(searched(steps, None, steps).0, Search::NoError);
            assert_eq!(searched(steps, Some(End::Right), 0), (Search::NoError, 0));
        }
    }

    #[test]
    fn a_step_whose_rollouts_all_were_cut_ends_the_search() {
        let end = Some(End::Wrong);
        assert_eq!(search(0, 5, end, |_| Some(None)), Search::Unknown);
    }
}
