//! Which strategy for which difficulty and budget: the compute-optimal choice of Snell et al.
//! (2024), beside the single strategy that is best on all problems.

use beamgen::eval::difficulty::{BUCKETS, Candidate, best_within, bucket, held_out};
use serde::Serialize;

use super::measured::{BOOTSTRAP_SEED, Measured, interval, mean};

/// The difficulties of a set and the choices within each budget.
#[derive(Clone, Debug, Serialize)]
pub struct Allocation {
    pub set: String,
    /// Cell and number of the samples that the difficulty was measured with.
    pub pool: String,
    pub samples: usize,
    /// Problems in each bucket, hardest first.
    pub problems: Vec<usize>,
    pub budgets: Vec<Budget>,
}

/// The choices within a budget.
#[derive(Clone, Debug, Serialize)]
pub struct Budget {
    /// Mean tokens a problem, generated and scored.
    pub tokens: f64,
    /// The choice of each bucket on all its problems; `null` for an empty bucket, or if nothing is
    /// within the budget.
    pub by_bucket: Vec<Option<Choice>>,
    /// The best single cell on all problems.
    pub single: Choice,
    /// Accuracy of the choices by bucket on problems they were not made on.
    pub held_out: f64,
    /// Accuracy of the single choice on problems it was not made on.
    pub held_out_single: f64,
    /// The difference of the two with its paired 95 % bootstrap interval.
    pub difference: f64,
    pub low: f64,
    pub high: f64,
}

/// A cell and its accuracy on the problems it was chosen for.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    pub name: String,
    pub accuracy: f64,
}

/// `budgets` are mean tokens a problem; those within which nothing runs are left out.
pub fn allocation(
    set: &str,
    pool: (String, usize),
    pass_rates: &[f64],
    cells: &[&Measured<'_>],
    budgets: &[f64],
) -> Allocation {
    let buckets: Vec<usize> = pass_rates.iter().map(|&rate| bucket(rate)).collect();
    let members: Vec<Vec<usize>> = (0..BUCKETS.len())
        .map(|wanted| {
            (0..buckets.len())
                .filter(|&i| buckets[i] == wanted)
                .collect()
        })
        .collect();
    let candidates: Vec<Candidate> = cells
        .iter()
        .map(|cell| Candidate {
            right: cell.right.clone(),
            tokens: cell.tokens.clone(),
        })
        .collect();
    let all: Vec<usize> = (0..buckets.len()).collect();
    let choice = |problems: &[usize], budget: f64| {
        best_within(&candidates, problems, budget).map(|at| Choice {
            name: cells[at].cell.label(),
            accuracy: problems
                .iter()
                .map(|&i| candidates[at].right[i])
                .sum::<f64>()
                / problems.len() as f64,
        })
    };
    let within = |&tokens: &f64| {
        let held_out = held_out(&candidates, &buckets, tokens, BOOTSTRAP_SEED)?;
        let pairs = held_out.by_bucket.iter().zip(&held_out.single);
        let difference = interval(&pairs.map(|(a, b)| a - b).collect::<Vec<f64>>());
        Some(Budget {
            tokens,
            by_bucket: members
                .iter()
                .map(|problems| choice(problems, tokens))
                .collect(),
            single: choice(&all, tokens)?,
            held_out: mean(&held_out.by_bucket),
            held_out_single: mean(&held_out.single),
            difference: difference.mean,
            low: difference.low,
            high: difference.high,
        })
    };
    Allocation {
        set: set.to_owned(),
        pool: pool.0,
        samples: pool.1,
        problems: members.iter().map(Vec::len).collect(),
        budgets: budgets.iter().filter_map(within).collect(),
    }
}
