//! The compute-optimal allocation (Snell et al., arXiv 2408.03314): the best cell for each difficulty within a
//! budget, compared with the single cell that is best on all problems.

use beamgen::eval::difficulty::{Measures, best_by_bucket, best_single, bucket, held_out, members};
use serde::Serialize;

use super::measured::{BOOTSTRAP_SEED, Measured, mean, mean_over, paired};

/// The difficulties of a set and the choices within each budget.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Allocation {
    pub set: String,
    /// The label of the cell whose samples give the difficulty of each problem.
    pub pool: String,
    /// The number of samples of a problem in that cell.
    pub samples: usize,
    /// The number of problems in each bucket, the hardest bucket first.
    pub problems: Vec<usize>,
    pub budgets: Vec<Budget>,
}

/// The choices within a budget.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Budget {
    /// The label of the cell whose mean tokens are the budget.
    pub of: String,
    /// The budget: generated and scored tokens, as a mean over all problems.
    pub tokens: f64,
    /// The choice for each bucket, made on all problems together; `null` for an empty bucket.
    pub by_bucket: Vec<Option<Choice>>,
    /// The result of `by_bucket` on the problems from which the choice was made.
    pub chosen: Outcome,
    /// The best single cell, with its result on the problems from which it was chosen.
    pub single: Choice,
    /// The result of choices by bucket, measured on problems outside the choice.
    pub held_out: Outcome,
    /// The result of single choices, measured on problems outside the choice.
    pub held_out_single: Outcome,
    /// The accuracy of `held_out` minus that of `held_out_single`. `low` and `high` are the ends of the paired 95 %
    /// interval.
    pub difference: f64,
    pub low: f64,
    pub high: f64,
}

/// Accuracy and mean tokens a problem.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Outcome {
    pub accuracy: f64,
    pub tokens: f64,
}

/// A chosen cell, with its result on the problems of the choice.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Choice {
    pub name: String,
    pub accuracy: f64,
    pub tokens: f64,
}

/// Computes the choices within the mean tokens of each cell in `budgets`. A budget that no choice fits into is left
/// out.
pub(super) fn allocation(
    set: &str,
    pool: (String, usize),
    pass_rates: &[f64],
    cells: &[&Measured<'_>],
    budgets: &[&Measured<'_>],
) -> Allocation {
    let buckets: Vec<usize> = pass_rates.iter().map(|&rate| bucket(rate)).collect();
    let members = members(&buckets);
    let candidates: Vec<Measures> = cells
        .iter()
        .map(|cell| Measures {
            right: cell.right.clone(),
            tokens: cell.tokens.clone(),
        })
        .collect();
    let all: Vec<usize> = (0..buckets.len()).collect();
    Allocation {
        set: set.to_owned(),
        pool: pool.0,
        samples: pool.1,
        problems: members.iter().map(Vec::len).collect(),
        budgets: budgets
            .iter()
            .filter_map(|budget| {
                let tokens = &budget.tokens;
                // A budget below all costs has no choice and is skipped.
                let chosen = best_by_bucket(&candidates, tokens, &members)?;
                let held_out = held_out(&candidates, tokens, &buckets, BOOTSTRAP_SEED)?;
                // Both kinds of choices have a result for each problem, so the interval is paired.
                let difference = paired(&held_out.by_bucket.right, &held_out.single.right);
                let choices: Vec<Option<Choice>> = members
                    .iter()
                    .zip(chosen)
                    .map(|(problems, at)| at.map(|at| choice(cells[at], problems)))
                    .collect();
                Some(Budget {
                    of: budget.cell.label(),
                    tokens: mean(tokens),
                    chosen: together(&choices, &members),
                    by_bucket: choices,
                    single: choice(cells[best_single(&candidates, tokens, &members)?], &all),
                    held_out: outcome(&held_out.by_bucket),
                    held_out_single: outcome(&held_out.single),
                    difference: difference.mean,
                    low: difference.low,
                    high: difference.high,
                })
            })
            .collect(),
    }
}

/// Returns the result over all problems if each bucket uses its choice.
fn together(choices: &[Option<Choice>], members: &[Vec<usize>]) -> Outcome {
    Outcome {
        accuracy: weighed(choices, members, |choice| choice.accuracy),
        tokens: weighed(choices, members, |choice| choice.tokens),
    }
}

/// Returns the mean over buckets, weighted by their numbers of problems.
fn weighed(choices: &[Option<Choice>], members: &[Vec<usize>], value: fn(&Choice) -> f64) -> f64 {
    let problems: usize = members.iter().map(Vec::len).sum();
    choices
        .iter()
        .zip(members)
        // An empty bucket has no choice, and its weight is 0.
        .map(|(choice, members)| choice.as_ref().map_or(0.0, value) * members.len() as f64)
        .sum::<f64>()
        / problems as f64
}

fn choice(cell: &Measured<'_>, problems: &[usize]) -> Choice {
    Choice {
        name: cell.cell.label(),
        accuracy: mean_over(&cell.right, problems),
        tokens: mean_over(&cell.tokens, problems),
    }
}

fn outcome(measures: &Measures) -> Outcome {
    Outcome {
        accuracy: mean(&measures.right),
        tokens: mean(&measures.tokens),
    }
}
