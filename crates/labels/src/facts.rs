//! Facts of a step, as rules ask for them.

use crate::source::Quantity;
use crate::{Checked, LabelledStep};

impl LabelledStep {
    /// The rating of a person, or the one that most people gave; `Some(None)` if two are equally
    /// frequent.
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
        Some(first.filter(|_| best.next().is_none()))
    }

    /// The verdicts of a checker, or of all.
    pub(crate) fn checked<'a>(
        &'a self,
        by: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Checked> + 'a {
        let verdicts = self.verdicts.iter();
        let is_asked = move |name: &str| by.is_none_or(|by| by == name);
        verdicts
            .filter(move |(name, _)| is_asked(name))
            .map(|(_, checked)| checked)
    }

    /// Whether a checker fails the step.
    pub(crate) fn fails(&self, by: Option<&str>) -> bool {
        self.checked(by).any(|one| matches!(one, Checked::Fail(_)))
    }

    /// The score of a judge, or the mean of all.
    pub(crate) fn opinion(&self, by: Option<&str>) -> Option<f64> {
        match by {
            Some(name) => self.opinions.get(name).copied(),
            None if self.opinions.is_empty() => None,
            None => Some(self.opinions.values().sum::<f64>() / self.opinions.len() as f64),
        }
    }

    /// The share of right rollouts.
    pub(crate) fn share(&self) -> Option<f64> {
        let rollouts = self.rollouts.as_ref()?;
        (rollouts.n > 0).then(|| f64::from(rollouts.k) / f64::from(rollouts.n))
    }

    /// A number that a rule asks for, if it is known.
    pub(crate) fn quantity(&self, of: &Quantity) -> Option<f64> {
        match of {
            Quantity::Share => self.share(),
            Quantity::Judge(name) => self.opinion(name.as_deref()),
        }
    }
}
