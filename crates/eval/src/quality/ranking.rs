//! How well scores order right steps above wrong ones, whatever the threshold.

/// A point of the ROC curve: what a threshold flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// Share of right steps that are flagged.
    pub false_alarms: f64,
    /// Share of wrong steps that are flagged.
    pub found: f64,
}

/// A step: its score, whether it is right, how often it counts.
pub(super) type Ranked = (f32, bool, f64);

/// Weights of right and wrong steps at each distinct score, of steps by rising score.
struct Ties<I: Iterator<Item = Ranked>>(std::iter::Peekable<I>);

impl<I: Iterator<Item = Ranked>> Iterator for Ties<I> {
    type Item = (f64, f64);

    fn next(&mut self) -> Option<(f64, f64)> {
        let (score, is_right, weight) = self.0.next()?;
        let mut at = (0.0, 0.0);
        let mut add = |is_right, weight| {
            if is_right {
                at.0 += weight;
            } else {
                at.1 += weight;
            }
        };
        add(is_right, weight);
        while let Some((_, is_right, weight)) = self.0.next_if(|next| next.0 == score) {
            add(is_right, weight);
        }
        Some(at)
    }
}

/// The area under the ROC curve: the probability that a right step has a higher score than a wrong
/// one, ties counting half (Mann and Whitney). `steps` come by rising score. `None` unless there
/// are right and wrong ones.
#[must_use]
pub fn auc(steps: impl Iterator<Item = (f32, bool, f64)>) -> Option<f64> {
    let (mut right, mut wrong, mut above) = (0.0, 0.0, 0.0);
    for (tied_right, tied_wrong) in Ties(steps.peekable()) {
        above += tied_right * (wrong + 0.5 * tied_wrong);
        right += tied_right;
        wrong += tied_wrong;
    }
    // A sum of rounded products may be above the product of the sums by its last bit.
    (right > 0.0 && wrong > 0.0).then(|| (above / (right * wrong)).min(1.0))
}

/// The ROC curve from `(0, 0)` to `(1, 1)`, a point for each distinct score; empty unless there are
/// right and wrong steps.
pub(super) fn roc(steps: impl Iterator<Item = Ranked>) -> Vec<RocPoint> {
    let (mut right, mut wrong) = (0.0, 0.0);
    let mut sums = vec![(0.0, 0.0)];
    for (tied_right, tied_wrong) in Ties(steps.peekable()) {
        right += tied_right;
        wrong += tied_wrong;
        sums.push((right, wrong));
    }
    if right == 0.0 || wrong == 0.0 {
        return Vec::new();
    }
    let point = |(flagged_right, flagged_wrong): (f64, f64)| RocPoint {
        false_alarms: flagged_right / right,
        found: flagged_wrong / wrong,
    };
    sums.into_iter().map(point).collect()
}
