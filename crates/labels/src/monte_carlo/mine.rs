//! Which chains a reward model is most mistaken about.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::sampled::{End, Sampled};

impl Sampled {
    /// The ends of the distinct chains that came to their own end, by the chain's number.
    pub(super) fn ended(&self) -> Vec<usize> {
        let mut seen = HashSet::new();
        let is_own = |&at: &usize| {
            let chain = &self.chains[at];
            matches!(chain.end, Some(End::Right | End::Wrong)) && seen.insert(&chain.prefixes)
        };
        (0..self.chains.len()).filter(is_own).collect()
    }

    /// Takes at most `most` wrong chains with the highest scores, and as many right ones with the
    /// lowest. Of equals the one drawn first. A chain without a score is not taken.
    pub(super) fn mine(&mut self, most: usize, score: impl Fn(usize) -> Option<f32>) {
        let mut rated: Vec<(usize, f32)> = self
            .ended()
            .into_iter()
            .filter_map(|at| Some((at, score(at)?)))
            .collect();
        let take = |rated: &[(usize, f32)], sampled: &mut Self, end, most| {
            let of_kind: Vec<usize> = rated
                .iter()
                .filter(|(at, _)| sampled.chains[*at].end == Some(end))
                .map(|(at, _)| *at)
                .take(most)
                .collect();
            for &at in &of_kind {
                sampled.chains[at].mined = true;
            }
            of_kind.len()
        };
        let by_score = |a: &(usize, f32), b: &(usize, f32)| -> Ordering { a.1.total_cmp(&b.1) };
        rated.sort_by(|a, b| by_score(b, a).then(a.0.cmp(&b.0)));
        let wrong = take(&rated, self, End::Wrong, most);
        rated.sort_by(|a, b| by_score(a, b).then(a.0.cmp(&b.0)));
        take(&rated, self, End::Right, wrong);
        let mined = self.chains.iter().filter(|chain| chain.mined);
        self.mined = Some(mined.flat_map(|chain| chain.prefixes.clone()).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_mistaken_are_taken_and_equal_chains_once() {
        use End::{Right, Truncated, Wrong};
        let ends = [Wrong, Right, Wrong, Right, Wrong, Truncated, Wrong, Right];
        let scores = [0.3, 0.9, 0.8, 0.2, 0.8, 1.0, 0.8, 0.2].map(Some);
        let mined = |most: usize, scores: &[Option<f32>; 8]| {
            let mut sampled = Sampled::of_ends(&ends);
            // Chain 6 is chain 2 once more.
            sampled.chains[6].prefixes = sampled.chains[2].prefixes.clone();
            sampled.mine(most, |at| scores[at]);
            let mined: Vec<usize> = (0..8).filter(|at| sampled.chains[*at].mined).collect();
            let prefixes = mined.iter().flat_map(|at| &sampled.chains[*at].prefixes);
            assert_eq!(sampled.mined, Some(prefixes.copied().collect()));
            mined
        };
        assert_eq!(mined(1, &scores), [2, 3]);
        assert_eq!(mined(2, &scores), [2, 3, 4, 7]);
        assert_eq!(mined(3, &scores), [0, 1, 2, 3, 4, 7]);
        assert_eq!(mined(9, &scores), [0, 1, 2, 3, 4, 7]);
        let mut unknown = scores;
        unknown[2] = None;
        assert_eq!(mined(1, &unknown), [3, 4]);
        let right_only = [None, Some(0.1), None, Some(0.1), None, None, None, None];
        assert_eq!(mined(4, &right_only), [0usize; 0]);
    }
}
