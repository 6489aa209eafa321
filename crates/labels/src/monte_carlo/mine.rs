//! Hard examples: the chains about which a reward model is most mistaken.

use std::collections::HashSet;

use super::sampled::{End, Sampled};

impl Sampled {
    /// Returns the indices of the distinct chains that reached their own end and were graded.
    pub(super) fn ended(&self) -> Vec<usize> {
        let mut seen = HashSet::new();
        let mut ended = Vec::new();
        for (at, chain) in self.chains.iter().enumerate() {
            // Only a graded chain can contradict its score. Of equal chains one is enough.
            let is_graded = matches!(chain.end, Some(End::Right | End::Wrong));
            if is_graded && seen.insert(&chain.prefixes) {
                ended.push(at);
            }
        }
        ended
    }

    /// Marks the wrong chains with the highest scores, at most `most`, and as many right chains
    /// with the lowest scores. Chains with equal scores are taken in the order of sampling. Chains
    /// without a score are never marked.
    pub(super) fn mine(&mut self, most: usize, score: impl Fn(usize) -> Option<f32>) {
        let mut rated: Vec<(usize, f32)> = self
            .ended()
            .into_iter()
            .filter_map(|at| Some((at, score(at)?)))
            .collect();
        // Ties are broken by index, so that the choice does not depend on the sort.
        rated.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let wrong = self.take(&rated, End::Wrong, most);
        rated.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        // `wrong` may be less than `most`: the two classes stay balanced.
        self.take(&rated, End::Right, wrong);
        let mined = self.chains.iter().filter(|chain| chain.mined);
        self.mined = Some(mined.flat_map(|chain| chain.prefixes.clone()).collect());
    }

    /// Marks at most `most` chains of `rated` that ended as `end`, in order, and returns their
    /// number.
    fn take(&mut self, rated: &[(usize, f32)], end: End, most: usize) -> usize {
        let mut taken = 0;
        for &(at, _) in rated {
            if taken < most && self.chains[at].end == Some(end) {
                self.chains[at].mined = true;
                taken += 1;
            }
        }
        taken
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
            // Chain 6 equals chain 2.
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
