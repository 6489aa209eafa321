//! Summaries of a step's facts, from which rules derive labels.

use crate::source::Quantity;
use crate::{Checked, LabelledStep};

impl LabelledStep {
    /// Returns the rating by the named person or, without a name, the most frequent rating.
    /// `Some(None)` if two ratings are equally frequent; `None` without ratings.
    pub(crate) fn rated(&self, by: Option<&str>) -> Option<Option<i8>> {
        if let Some(name) = by {
            return self.ratings.get(name)?.rating.map(Some);
        }
        let mut counts = [0; 3];
        let by_name = self.ratings.values().filter_map(|rated| rated.rating);
        for rating in self.rating.into_iter().chain(by_name) {
            counts[(rating.signum() + 1) as usize] += 1;
        }
        let most = counts.iter().copied().max().filter(|&most| most > 0)?;
        let mut best = (-1..).zip(counts).filter(|&(_, count)| count == most);
        let first = best.next().map(|(rating, _)| rating);
        // A tie is not `None`: a rule would then ask its next source, which must not decide a
        // dispute.
        Some(first.filter(|_| best.next().is_none()))
    }

    /// Returns the verdicts of the named checker or, without a name, of all checkers.
    pub(crate) fn checked<'a>(
        &'a self,
        by: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Checked> + 'a {
        let verdicts = self.verdicts.iter();
        verdicts
            .filter(move |(name, _)| by.is_none_or(|by| by == name.as_str()))
            .map(|(_, checked)| checked)
    }

    /// Whether the named checker or, without a name, any checker proved the step wrong.
    pub(crate) fn fails(&self, by: Option<&str>) -> bool {
        let mut verdicts = self.checked(by);
        verdicts.any(|verdict| matches!(verdict, Checked::Fail(_)))
    }

    /// Returns the score by the named judge or, without a name, the mean score of all judges.
    pub(crate) fn opinion(&self, by: Option<&str>) -> Option<f64> {
        match by {
            Some(name) => self.opinions.get(name).copied(),
            None if self.opinions.is_empty() => None,
            None => Some(self.opinions.values().sum::<f64>() / self.opinions.len() as f64),
        }
    }

    /// Returns the share of right answers among the rollouts that ended by themselves; `None` if
    /// there are none.
    pub(crate) fn share(&self) -> Option<f64> {
        let rollouts = self.rollouts.as_ref()?;
        (rollouts.n > 0).then(|| f64::from(rollouts.k) / f64::from(rollouts.n))
    }

    /// Returns the number that a rule compares with a bound; `None` if the step lacks that fact.
    pub(crate) fn quantity(&self, of: &Quantity) -> Option<f64> {
        match of {
            Quantity::Share => self.share(),
            Quantity::Judge(name) => self.opinion(name.as_deref()),
        }
    }
}
