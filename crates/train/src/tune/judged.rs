//! How well a reward model that is being trained tells right steps from wrong ones.

use beamgen_eval::quality::{Confusion, auc};

use super::Label;

/// Figures over labels that are right or wrong; those of exactly one half count as neither.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The area under the ROC curve; `None` unless there are right and wrong steps.
    pub auc: Option<f64>,
    /// Mean share of right and of wrong steps that are told as such by a probability of one half;
    /// `None` unless there are both.
    pub balanced_accuracy: Option<f64>,
    /// The part that is right: the accuracy of who always says so.
    pub right: f64,
    /// How many there are.
    pub labels: usize,
}

impl Judged {
    /// The figures of `log_odds`, one a label; `None` without labels.
    #[must_use]
    pub fn of(log_odds: &[f32], labels: &[&Label]) -> Option<Self> {
        let mut steps: Vec<(f32, bool, f64)> = log_odds
            .iter()
            .zip(labels)
            .filter(|(_, label)| label.right != 0.5)
            .map(|(&log_odds, label)| (log_odds, label.right > 0.5, 1.0))
            .collect();
        if steps.is_empty() {
            return None;
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut confusion = Confusion::default();
        for &(log_odds, is_right, _) in &steps {
            confusion.add(is_right, log_odds < 0.0);
        }
        let right = steps.iter().filter(|step| step.1).count();
        Some(Self {
            auc: auc(steps.iter().copied()),
            balanced_accuracy: confusion.balanced_accuracy(),
            right: right as f64 / steps.len() as f64,
            labels: steps.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_steps_above_wrong_ones_are_told_apart() {
        let label = |right| Label {
            row: 0,
            right,
            weight: 1.0,
        };
        let (yes, no, half) = (label(1.0), label(0.0), label(0.5));
        let judged = Judged::of(&[2.0, -1.0, 3.0, 0.5], &[&yes, &no, &half, &no]).unwrap();
        assert_eq!(judged.auc, Some(1.0));
        assert_eq!(judged.balanced_accuracy, Some(0.75));
        assert_eq!((judged.right, judged.labels), (1.0 / 3.0, 3));
        assert_eq!(Judged::of(&[1.0], &[&half]), None);
        assert_eq!(Judged::of(&[1.0], &[&yes]).unwrap().auc, None);
    }
}
