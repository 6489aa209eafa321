//! Paired differences between two cells on the same problems.

use serde::Serialize;

use super::measured::{Measured, mean, paired};

/// The accuracy and the costs of cell `a` compared with those of cell `b`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Difference {
    pub set: String,
    pub a: String,
    pub b: String,
    pub accuracy_a: f64,
    pub accuracy_b: f64,
    /// The accuracy of `a` minus that of `b`. `low` and `high` are the ends of the paired 95 % interval over
    /// problems.
    pub difference: f64,
    pub low: f64,
    pub high: f64,
    /// The cost of `a` divided by that of `b`, `None` if the latter is 0; the next two fields are the same for other
    /// costs.
    pub generated_ratio: Option<f64>,
    pub tokens_ratio: Option<f64>,
    pub seconds_ratio: Option<f64>,
    pub flops_ratio: Option<f64>,
}

pub(super) fn difference(set: &str, a: &Measured<'_>, b: &Measured<'_>) -> Difference {
    let interval = paired(&a.right, &b.right);
    Difference {
        set: set.to_owned(),
        a: a.cell.label(),
        b: b.cell.label(),
        accuracy_a: mean(&a.right),
        accuracy_b: mean(&b.right),
        difference: interval.mean,
        low: interval.low,
        high: interval.high,
        generated_ratio: ratio(&a.generated, &b.generated),
        tokens_ratio: ratio(&a.tokens, &b.tokens),
        seconds_ratio: ratio(&a.seconds, &b.seconds),
        flops_ratio: ratio(&a.flops, &b.flops).filter(|&ratio| ratio > 0.0),
    }
}

fn ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    let cost = mean(b);
    (cost > 0.0).then(|| mean(a) / cost)
}
