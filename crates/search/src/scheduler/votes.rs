//! The votes of a majority vote, and whether it is decided.

use std::collections::BTreeMap;

/// Answers of the chains that have come to their end, by class.
#[derive(Debug, Default)]
pub(super) struct Votes(BTreeMap<String, usize>);

impl Votes {
    pub(super) fn add(&mut self, class: String, votes: usize) {
        *self.0.entry(class).or_default() += votes;
    }

    /// Whether `to_come` more votes cannot change the winner, however they fall and however ties
    /// are broken.
    pub(super) fn decided(&self, to_come: usize) -> bool {
        let mut counts: Vec<usize> = self.0.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let leader = counts.first().copied().unwrap_or(0);
        let second = counts.get(1).copied().unwrap_or(0);
        leader > second + to_come
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn votes(counts: &[usize]) -> Votes {
        let mut votes = Votes::default();
        for (class, &count) in counts.iter().enumerate() {
            votes.add(class.to_string(), count);
        }
        votes
    }

    #[test]
    fn a_vote_is_over_when_the_rest_cannot_make_a_tie() {
        assert!(votes(&[5, 2]).decided(2));
        assert!(!votes(&[5, 2]).decided(3));
        assert!(votes(&[3]).decided(2));
        assert!(!votes(&[3]).decided(3));
        assert!(!votes(&[]).decided(0));
        assert!(!votes(&[2, 2]).decided(0));
    }
}
