//! The confusion matrix of steps: right or wrong by the label, flagged or not by the model.

/// Weighted counts of steps. A right step is "positive", as in `PRMBench` (arXiv 2501.03124).
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
    /// Counts one step with weight 1; [`merge`](Self::merge) applies other weights.
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

    /// Returns the F1 of right steps, which are found if they are not flagged. Returns `None` without right steps.
    #[must_use]
    pub fn f1_right(&self) -> Option<f64> {
        f1(self.true_positive, self.false_negative, self.false_positive)
    }

    /// Returns the F1 of wrong steps, which are found if they are flagged. Returns `None` without wrong steps.
    #[must_use]
    pub fn f1_wrong(&self) -> Option<f64> {
        f1(self.true_negative, self.false_positive, self.false_negative)
    }

    /// Returns the mean of both F1, the `PRMScore` of `PRMBench`; `None` if all steps are right or all are wrong.
    #[must_use]
    pub fn prm_score(&self) -> Option<f64> {
        Some(0.5 * self.f1_wrong()? + 0.5 * self.f1_right()?)
    }

    /// Returns the mean of two shares: right steps without a flag, and wrong steps with a flag. Returns `None` if all
    /// steps are right or all are wrong.
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
    // This form of 2 PR / (P + R) is defined even if nothing is found and the precision P is 0 / 0.
    (found + missed > 0.0).then(|| 2.0 * found / (2.0 * found + missed + wrongly))
}
