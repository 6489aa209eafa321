//! Which strategy for which difficulty and budget: the compute-optimal choice of Snell et al.
//! (2024), beside the single strategy that is best on all problems.

use beamgen::eval::difficulty::{Measures, best_by_bucket, best_single, bucket, held_out, members};
use serde::Serialize;

use super::measured::{BOOTSTRAP_SEED, Measured, mean, mean_over, paired};

/// The difficulties of a set and the choices within each budget.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Allocation {
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
pub(super) struct Budget {
    /// The cell whose spending is the budget.
    pub of: String,
    /// Mean tokens a problem, generated and scored, over all problems.
    pub tokens: f64,
    /// The choice for each bucket, made on all problems together; `null` for an empty bucket.
    pub by_bucket: Vec<Option<Choice>>,
    /// What these choices come to on the problems that they were made on.
    pub chosen: Outcome,
    /// The best single cell, and what it comes to on the problems that it was chosen on.
    pub single: Choice,
    /// The choices by bucket on problems that they were not made on.
    pub held_out: Outcome,
    /// The single choice on problems that it was not made on.
    pub held_out_single: Outcome,
    /// The difference of the last two in accuracy with its paired 95 % interval.
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

/// A cell, and what it comes to on the problems that it was chosen for.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Choice {
    pub name: String,
    pub accuracy: f64,
    pub tokens: f64,
}

/// What each of `budgets` spends is a budget; those within which nothing runs are left out.
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
    let choice = |at: usize, problems: &[usize]| Choice {
        name: cells[at].cell.label(),
        accuracy: mean_over(&candidates[at].right, problems),
        tokens: mean_over(&candidates[at].tokens, problems),
    };
    let within = |budget: &&Measured<'_>| {
        let tokens = &budget.tokens;
        let chosen = best_by_bucket(&candidates, tokens, &members)?;
        let held_out = held_out(&candidates, tokens, &buckets, BOOTSTRAP_SEED)?;
        let difference = paired(&held_out.by_bucket.right, &held_out.single.right);
        let choices: Vec<Option<Choice>> = members
            .iter()
            .zip(chosen)
            .map(|(problems, at)| at.map(|at| choice(at, problems)))
            .collect();
        Some(Budget {
            of: budget.cell.label(),
            tokens: mean(tokens),
            chosen: together(&choices, &members),
            by_bucket: choices,
            single: choice(best_single(&candidates, tokens, &members)?, &all),
            held_out: outcome(&held_out.by_bucket),
            held_out_single: outcome(&held_out.single),
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

/// The mean over all problems of what was chosen for each bucket.
fn together(choices: &[Option<Choice>], members: &[Vec<usize>]) -> Outcome {
    let problems: usize = members.iter().map(Vec::len).sum();
    let mean = |value: fn(&Choice) -> f64| {
        let of = |(choice, members): (&Option<Choice>, &Vec<usize>)| {
            choice.as_ref().map_or(0.0, value) * members.len() as f64
        };
        choices.iter().zip(members).map(of).sum::<f64>() / problems as f64
    };
    Outcome {
        accuracy: mean(|choice| choice.accuracy),
        tokens: mean(|choice| choice.tokens),
    }
}

fn outcome(measures: &Measures) -> Outcome {
    Outcome {
        accuracy: mean(&measures.right),
        tokens: mean(&measures.tokens),
    }
}
