//! The quality of a reward model during training: how well scores separate right steps from wrong ones.

use beamgen_eval::quality::{Confusion, auc};

use super::Label;

/// Figures over hard labels. A soft label counts as right above one half and as wrong below.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The area under the ROC curve; `None` without right or without wrong steps.
    pub auc: Option<f64>,
    /// The mean of the accuracies on right and on wrong steps at threshold 0.5; `None` without right or without wrong
    /// steps.
    pub balanced_accuracy: Option<f64>,
    /// The fraction of right steps, the accuracy of a model that always predicts "right".
    pub right: f64,
    /// The number of labels other than one half, which are left out.
    pub labels: usize,
}

impl Judged {
    /// Computes the figures from the log-odds of each label; `None` if all labels are one half.
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
            // Log-odds below 0 are probabilities below one half, so the step is judged wrong.
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
            text: [0, 1],
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
