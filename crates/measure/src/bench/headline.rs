//! The result of a bench in a sentence for each set: the most accurate cell, and the best one of another run.

use std::cmp::Ordering;

use beamgen::scorer::ScorerKind;
use serde::Serialize;

use super::compare::{Difference, difference};
use super::measured::{Measured, mean};
use crate::percent;
use crate::report::markdown::points;

/// The most accurate cell of a set.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Headline {
    pub set: String,
    pub best: String,
    pub accuracy: f64,
    /// The paired difference to the most accurate cell of another run; `None` if there is only one run.
    pub over: Option<Difference>,
}

impl Headline {
    /// Returns the headline of a set; `None` if nothing was measured on it. The exact checker knows
    /// the answers, so its cells are left out.
    pub(super) fn of(set: &str, cells: &[&Measured<'_>]) -> Option<Self> {
        let choices = || {
            cells
                .iter()
                .filter(|cell| cell.cell.config.models.scorer != ScorerKind::Exact)
        };
        let best = choices().max_by(|a, b| by_accuracy(a, b))?;
        let others = choices().filter(|cell| cell.cell.run != best.cell.run);
        let next = others.max_by(|a, b| by_accuracy(a, b));
        Some(Self {
            set: set.to_owned(),
            best: best.cell.label(),
            accuracy: mean(&best.right),
            over: next.map(|next| difference(set, best, next)),
        })
    }

    pub(super) fn sentence(&self) -> String {
        let Self { set, best, .. } = self;
        let accuracy = percent(self.accuracy);
        let Some(pair) = &self.over else {
            return format!("On {set}, **{best}** is right on {accuracy}.");
        };
        let (next, other) = (&pair.b, percent(pair.accuracy_b));
        let interval = format!("{} to {}", points(pair.low), points(pair.high));
        let cost = pair.tokens_ratio.map_or_else(String::new, |ratio| {
            format!(", with {ratio:.2} times the tokens (generated and scored)")
        });
        if pair.low > 0.0 {
            format!(
                "On {set}, **{best}** is right most often: {accuracy}, against {other} of {next} ({} points, 95 % interval {interval}){cost}.",
                points(pair.difference)
            )
        } else {
            format!(
                "On {set}, **{best}** ({accuracy}) and **{next}** ({other}) cannot be told apart: {} points, 95 % interval {interval}{cost}.",
                points(pair.difference)
            )
        }
    }
}

/// Orders cells by accuracy; of equal ones the cheaper one is the greater.
fn by_accuracy(a: &Measured<'_>, b: &Measured<'_>) -> Ordering {
    let accuracy = mean(&a.right).total_cmp(&mean(&b.right));
    accuracy.then_with(|| mean(&b.tokens).total_cmp(&mean(&a.tokens)))
}

#[cfg(test)]
mod tests {
    use beamgen::Config;

    use super::*;
    use crate::bench::outline::Cell;

    /// A cell of one chain on 100 problems, of which the first `right` are right.
    fn headline(rights: &[(&str, usize, f64)]) -> String {
        let cells: Vec<Cell> = rights
            .iter()
            .map(|(run, ..)| {
                let mut config = Config::default();
                config.search.n = 1;
                let run = (*run).to_owned();
                Cell { run, config }
            })
            .collect();
        let measured: Vec<Measured<'_>> = cells
            .iter()
            .zip(rights)
            .map(|(cell, &(_, right, cost))| Measured {
                set: 0,
                cell,
                rows: Vec::new(),
                right: (0..100).map(|at| f64::from(u8::from(at < right))).collect(),
                generated: vec![cost; 100],
                tokens: vec![cost; 100],
                seconds: vec![1.0; 100],
                flops: vec![1e6 * cost; 100],
            })
            .collect();
        let measured: Vec<&Measured<'_>> = measured.iter().collect();
        Headline::of("s", &measured).expect("a result").sentence()
    }

    #[test]
    fn a_result_names_the_winner_or_says_that_there_is_none() {
        let clear = headline(&[("a", 20, 10.0), ("b", 90, 30.0), ("a", 40, 60.0)]);
        assert!(
            clear.starts_with(
                "On s, **b@1** is right most often: 90.0 %, against 40.0 % of a@1 (+50.0 points"
            ),
            "{clear}"
        );
        assert!(clear.contains("with 0.50 times the tokens"), "{clear}");
        // The cheaper of two equal cells is named first.
        let even = headline(&[("a", 50, 20.0), ("b", 50, 10.0)]);
        assert!(
            even.starts_with("On s, **b@1** (50.0 %) and **a@1** (50.0 %) cannot be told apart: "),
            "{even}"
        );
        let single = headline(&[("a", 50, 20.0)]);
        assert_eq!(single, "On s, **a@1** is right on 50.0 %.");
    }
}
