//! The ROC curve and its area, which tell how well scores separate right from wrong steps over all thresholds.

/// A point of the ROC curve: the shares of flagged steps at a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// The share of flagged steps among the right ones (false positives).
    pub false_alarms: f64,
    /// The share of flagged steps among the wrong ones (true positives).
    pub found: f64,
}

/// The score of a step, whether the step is right, and the weight of the step.
pub(super) type Ranked = (f32, bool, f64);

/// Groups steps of equal score; the steps must be sorted by score. Each item has the total weights of the right and
/// of the wrong steps of one score.
struct Ties<I: Iterator<Item = Ranked>>(std::iter::Peekable<I>);

impl<I: Iterator<Item = Ranked>> Iterator for Ties<I> {
    type Item = (f64, f64);

    fn next(&mut self) -> Option<(f64, f64)> {
        let (score, is_right, weight) = self.0.next()?;
        let mut tied = (0.0, 0.0);
        let mut step = Some((score, is_right, weight));
        while let Some((_, is_right, weight)) = step {
            if is_right {
                tied.0 += weight;
            } else {
                tied.1 += weight;
            }
            step = self.0.next_if(|next| next.0 == score);
        }
        Some(tied)
    }
}

/// Returns the area under the ROC curve: the probability that a right step has a higher score than a wrong one, where
/// ties count half (Mann and Whitney, 1947). `steps` has scores in rising order, whether each step is right, and
/// weights. Returns `None` if the steps are all right or all wrong.
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

/// Returns the ROC curve from `(0, 0)` to `(1, 1)`, with a point for each distinct score. The curve is empty if the
/// steps are all right or all wrong.
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
    let points = sums
        .into_iter()
        .map(|(flagged_right, flagged_wrong)| RocPoint {
            false_alarms: flagged_right / right,
            found: flagged_wrong / wrong,
        });
    points.collect()
}
