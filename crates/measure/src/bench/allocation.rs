//! The best strategy for each difficulty within a budget: the compute-optimal allocation of Snell
//! et al. (2408.03314), compared with the single strategy that is best on all problems.

use beamgen::eval::difficulty::{Measures, best_by_bucket, best_single, bucket, held_out, members};
use serde::Serialize;

use super::measured::{BOOTSTRAP_SEED, Measured, mean, mean_over, paired};

/// The difficulties of a set and the choices within each budget.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Allocation {
    pub set: String,
    /// The cell whose samples measured the difficulty.
    pub pool: String,
    /// The number of these samples for each problem.
    pub samples: usize,
    /// The number of problems in each bucket, hardest first.
    pub problems: Vec<usize>,
    pub budgets: Vec<Budget>,
}

/// The choices within a budget.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Budget {
    /// The cell whose mean spending is the budget.
    pub of: String,
    /// The mean tokens of a problem, generated and scored, over all problems.
    pub tokens: f64,
    /// The choice for each bucket, made on all problems together; `null` for an empty bucket.
    pub by_bucket: Vec<Option<Choice>>,
    /// The result of these choices on the problems that they were made on.
    pub chosen: Outcome,
    /// The best single cell, with its result on the problems that it was chosen on.
    pub single: Choice,
    /// The result of choices by bucket on problems that they were not made on.
    pub held_out: Outcome,
    /// The result of the single choice on problems that it was not made on.
    pub held_out_single: Outcome,
    /// The accuracy of `held_out` minus that of `held_out_single`; `low` and `high` are the ends of
    /// its paired 95 % interval.
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

/// A cell with its result on the problems that it was chosen for.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Choice {
    pub name: String,
    pub accuracy: f64,
    pub tokens: f64,
}

/// Computes the choices within the mean spending of each cell of `budgets`. Budgets that no cell
/// keeps to are left out.
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
                // `None` if no cell keeps to the budget.
                let chosen = best_by_bucket(&candidates, tokens, &members)?;
                let held_out = held_out(&candidates, tokens, &buckets, BOOTSTRAP_SEED)?;
                // Paired, because both kinds of choices are measured on the same problems.
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

/// Returns the mean over all problems of the choices for each bucket.
fn together(choices: &[Option<Choice>], members: &[Vec<usize>]) -> Outcome {
    Outcome {
        accuracy: weighed(choices, members, |choice| choice.accuracy),
        tokens: weighed(choices, members, |choice| choice.tokens),
    }
}

/// Returns the mean of a value over buckets, each weighed by its number of problems.
fn weighed(choices: &[Option<Choice>], members: &[Vec<usize>], value: fn(&Choice) -> f64) -> f64 {
    let problems: usize = members.iter().map(Vec::len).sum();
    choices
        .iter()
        .zip(members)
        // An empty bucket has neither a choice nor problems, so it adds nothing.
        .map(|(choice, members)| choice.as_ref().map_or(0.0, value) * members.len() as f64)
        .sum::<f64>()
        / problems as f64
}

/// Returns a cell with its result on some problems.
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
