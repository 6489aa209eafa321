//! Problems that are learnt from, and those that are only measured.

use beamgen_search::Problem;

use crate::tune::work;

/// Takes a `part` of the problems, 0 to 1, to be measured: those of the same text on one side, by a
/// hash of the text and the seed. Returns those to learn from, then the others.
#[must_use]
pub fn hold_out(problems: Vec<Problem>, part: f64, seed: u64) -> (Vec<Problem>, Vec<Problem>) {
    let texts: Vec<String> = problems.iter().map(|p| p.text.clone()).collect();
    let (train, held_out) = work::split(&texts, part, seed);
    let of = |which: &[usize]| which.iter().map(|&i| problems[i].clone()).collect();
    (of(&train), of(&held_out))
}
