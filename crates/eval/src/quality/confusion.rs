//! The confusion matrix of steps: right or wrong, flagged or not.

/// Weighted counts of steps. "Positive" is a right step, as in `PRMBench` (arXiv 2501.03124).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Confusion {
    /// Right steps that were not flagged.
    pub true_positive: f64,
    /// Wrong steps that were not flagged.
    pub false_positive: f64,
    /// Wrong steps that were flagged.
    pub true_negative: f64,
    /// Right steps that were flagged.
    pub false_negative: f64,
}

impl Confusion {
    /// Counts one step.
    pub fn add(&mut self, is_right: bool, is_flagged: bool) {
        *match (is_right, is_flagged) {
            (true, false) => &mut self.true_positive,
            (false, false) => &mut self.false_positive,
            (false, true) => &mut self.true_negative,
            (true, true) => &mut self.false_negative,
        } += 1.0;
    }

    /// Adds other counts, `weight` times.
    pub fn merge(&mut self, other: &Self, weight: f64) {
        self.true_positive += weight * other.true_positive;
        self.false_positive += weight * other.false_positive;
        self.true_negative += weight * other.true_negative;
        self.false_negative += weight * other.false_negative;
    }

    /// Returns the harmonic mean of precision and recall of right steps; `None` without right
    /// steps.
    #[must_use]
    pub fn f1_right(&self) -> Option<f64> {
        f1(self.true_positive, self.false_negative, self.false_positive)
    }

    /// Returns the harmonic mean of precision and recall of wrong steps; `None` without wrong
    /// steps.
    #[must_use]
    pub fn f1_wrong(&self) -> Option<f64> {
        f1(self.true_negative, self.false_positive, self.false_negative)
    }

    /// Returns `PRMBench`'s `PRMScore`, the mean of both F1; `None` if all steps are of one kind.
    #[must_use]
    pub fn prm_score(&self) -> Option<f64> {
        Some(0.5 * self.f1_wrong()? + 0.5 * self.f1_right()?)
    }

    /// Returns the mean of two shares: right steps without a flag, and wrong steps with a flag.
    /// Returns `None` if all steps are of one kind.
    #[must_use]
    pub fn balanced_accuracy(&self) -> Option<f64> {
        let right = share(self.true_positive, self.false_negative)?;
        let wrong = share(self.true_negative, self.false_positive)?;
        Some(0.5 * (right + wrong))
    }
}

fn share(hit: f64, missed: f64) -> Option<f64> {
    (hit + missed > 0.0).then(|| hit / (hit + missed))
}

fn f1(found: f64, missed: f64, wrongly: f64) -> Option<f64> {
    // 2 PR / (P + R) without the division by 0 that a precision P of nothing found would be.
    (found + missed > 0.0).then(|| 2.0 * found / (2.0 * found + missed + wrongly))
}
