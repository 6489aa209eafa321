//! Mistakes as people make them: noisy solutions for training the generator, and corrupted lines
//! for training the reward model.

use super::{MAX_NUMBER, NAMES, Relation, WorldProblem};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The probabilities of mistakes in a line of a noisy solution. Some relations mislead more often
/// than others: people read "fewer" as "more". A problem therefore has easy and hard lines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRates {
    /// Any line: the number or fact of another person is used, or the result is off by 1, 2 or 10.
    pub any: f64,
    /// "fewer" worked out as "more".
    pub fewer_as_more: f64,
    /// "half as many" doubled.
    pub half_as_double: f64,
    /// A carry is lost in a product or sum, so the result is 10 too small.
    pub lost_carry: f64,
    /// The number of the latest person is used instead of the number of the named person.
    pub nearest_person: f64,
    /// The answer is given before the last person's line; the rate is per solution, not per line.
    pub premature: f64,
}

impl Default for ErrorRates {
    fn default() -> Self {
        Self {
            any: 0.06,
            fewer_as_more: 0.55,
            half_as_double: 0.35,
            lost_carry: 0.3,
            nearest_person: 0.45,
            premature: 0.05,
        }
    }
}

impl ErrorRates {
    /// Returns the rates times `factor`; no rate exceeds 1.
    pub fn scaled(&self, factor: f64) -> Self {
        let scaled = |rate: f64| (rate * factor).min(1.0);
        Self {
            any: scaled(self.any),
            fewer_as_more: scaled(self.fewer_as_more),
            half_as_double: scaled(self.half_as_double),
            lost_carry: scaled(self.lost_carry),
            nearest_person: scaled(self.nearest_person),
            premature: scaled(self.premature),
        }
    }
}

/// Writes a solution with mistakes. Lines after a mistake use the wrong number. A premature answer
/// makes the solution shorter; otherwise it has as many lines as [`WorldProblem::solution`].
pub fn noisy_solution(rng: &mut impl Rng, p: &WorldProblem, rates: &ErrorRates) -> Vec<String> {
    let mut values = p.values.clone();
    let mut out = Vec::new();
    for i in 0..p.facts.len() {
        // At least two numbers are known, and more than one person is left: the answer would be
        // premature.
        if i > 1 && i + 1 < p.facts.len() && rng.random_bool(rates.premature / p.facts.len() as f64)
        {
            out.push(WorldProblem::answer_line(values[i - 1]));
            return out;
        }
        let (line, result) = pupil_line(rng, p, i, &values, rates);
        values[i] = result;
        out.push(line);
    }
    out.push(WorldProblem::answer_line(values[values.len() - 1]));
    out
}

/// A person who makes mistakes while working out the line of fact `i`.
struct Pupil<'a> {
    p: &'a WorldProblem,
    i: usize,
    /// The numbers of all people; those before `i` are as the solution has them, right or wrong.
    values: &'a [i64],
    rates: &'a ErrorRates,
}

impl Pupil<'_> {
    /// Returns the line with the sum `values[a] op b = result`, and the result.
    fn sum(&self, a: usize, op: char, b: i64, result: i64) -> (String, i64) {
        let left = format!("{} {op} {b} = ", self.values[a]);
        (self.p.line_of(self.i, &left, result), result)
    }

    /// Returns the person whose number is used in place of `person`'s; often the same person.
    fn misread(&self, rng: &mut impl Rng, person: usize) -> usize {
        let i = self.i;
        // The latest person is the likeliest mistake, unless the fact names that person.
        if i >= 2 && person + 1 != i && rng.random_bool(self.rates.nearest_person) {
            i - 1
        } else if i >= 2 && rng.random_bool(self.rates.any / 2.0) {
            rng.random_range(0..i)
        } else {
            person
        }
    }

    fn off(&self, rng: &mut impl Rng, result: i64) -> i64 {
        if rng.random_bool(self.rates.any / 2.0) {
            clamp(result + [-10, -2, -1, 1, 2, 10][rng.random_range(0..6)])
        } else {
            result
        }
    }

    /// Returns the result after possible mistakes: a lost carry if the sum has one, then a small
    /// error.
    fn carry(&self, rng: &mut impl Rng, carries: bool, result: i64) -> i64 {
        let lost = carries && result > 10 && rng.random_bool(self.rates.lost_carry);
        self.off(rng, if lost { result - 10 } else { result })
    }
}

fn clamp(number: i64) -> i64 {
    number.clamp(1, MAX_NUMBER)
}

/// Writes the line of fact `i`, with mistakes at `rates`, and returns it with its result.
fn pupil_line(
    rng: &mut impl Rng,
    p: &WorldProblem,
    i: usize,
    values: &[i64],
    rates: &ErrorRates,
) -> (String, i64) {
    let pupil = Pupil {
        p,
        i,
        values,
        rates,
    };
    match p.facts[i].relation {
        Relation::Given(n) => (p.line(i), n),
        Relation::More(c, q) => {
            let who = pupil.misread(rng, q);
            let a = values[who];
            let r = pupil.carry(rng, a % 10 + c % 10 >= 10, clamp(a + c));
            pupil.sum(who, '+', c, r)
        }
        Relation::Fewer(c, q) => {
            let who = pupil.misread(rng, q);
            let a = values[who];
            if rng.random_bool(rates.fewer_as_more) {
                let r = pupil.off(rng, clamp(a + c));
                pupil.sum(who, '+', c, r)
            } else {
                let r = pupil.off(rng, clamp(a - c));
                pupil.sum(who, '-', c, r)
            }
        }
        Relation::Times(c, q) => {
            let who = pupil.misread(rng, q);
            let a = values[who];
            let r = pupil.carry(rng, (a % 10) * c >= 10, clamp(a * c));
            pupil.sum(who, '*', c, r)
        }
        Relation::Half(q) => {
            let who = pupil.misread(rng, q);
            let a = values[who];
            if rng.random_bool(rates.half_as_double) {
                let r = pupil.off(rng, clamp(a * 2));
                pupil.sum(who, '*', 2, r)
            } else {
                let r = pupil.off(rng, clamp(a / 2));
                pupil.sum(who, '/', 2, r)
            }
        }
        Relation::Together(q, s) => {
            let (who, other) = (pupil.misread(rng, q), pupil.misread(rng, s));
            let (a, b) = (values[who], values[other]);
            let r = pupil.carry(rng, a % 10 + b % 10 >= 10, clamp(a + b));
            pupil.sum(who, '+', b, r)
        }
    }
}

/// Returns a wrong line to follow the first `done` lines of the right solution. No right
/// continuation equals this line.
pub fn corrupt(rng: &mut impl Rng, p: &WorldProblem, done: usize) -> String {
    let n = p.facts.len();
    // A random change may give a right line by chance, so the checker decides.
    let mut right = super::Checker::new(p);
    for line in p.solution().iter().take(done) {
        right.next(line);
    }
    loop {
        let line = candidate(rng, p, done.min(n), n);
        if right.clone().next(&line) != super::Verdict::Right {
            return line;
        }
    }
}

/// Samples a wrong number that is plausible in place of `near`.
fn number(rng: &mut impl Rng, p: &WorldProblem, near: i64) -> i64 {
    if rng.random_bool(0.6) {
        clamp(near + [-20, -10, -10, -2, -1, 1, 2, 10, 10, 20][rng.random_range(0..10)])
    } else if rng.random_bool(0.5) {
        p.values[rng.random_range(0..p.values.len())]
    } else {
        rng.random_range(1..=MAX_NUMBER)
    }
}

/// Replaces one number of the line; `which` counts from the end of the line, from 0.
fn swap_number(rng: &mut impl Rng, p: &WorldProblem, line: &str, which: usize) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let at: Vec<usize> = (0..words.len())
        .filter(|&k| words[k].trim_end_matches('.').parse::<i64>().is_ok())
        .collect();
    if let Some(&k) = at.len().checked_sub(1 + which).and_then(|j| at.get(j)) {
        let stop = if words[k].ends_with('.') { "." } else { "" };
        let old: i64 = words[k].trim_end_matches('.').parse().unwrap_or(1);
        words[k] = format!("{}{stop}", number(rng, p, old));
    }
    words.join(" ")
}

fn candidate(rng: &mut impl Rng, p: &WorldProblem, i: usize, n: usize) -> String {
    if i == n {
        return match rng.random_range(0..4) {
            0 => p.line(rng.random_range(0..n)), // a fact that the chain may have stated before
            _ => WorldProblem::answer_line(number(rng, p, p.answer())),
        };
    }
    match rng.random_range(0..10) {
        // Number 0 from the end is the result.
        0 | 1 => swap_number(rng, p, &p.line(i), 0),
        2 => {
            let which = rng.random_range(1..4);
            swap_number(rng, p, &p.line(i), which)
        }
        // The line is calculated from the number of another person.
        3 => {
            let mut values = p.values.clone();
            let other = values[rng.random_range(0..n)];
            for v in values.iter_mut().take(i) {
                if rng.random_bool(0.5) {
                    *v = other;
                }
            }
            let result = p.facts[i].relation.result(&values).unwrap_or(p.values[i]);
            p.line_with(i, &values, result.clamp(1, MAX_NUMBER))
        }
        // The operation may be wrong, and the result fits the wrong operation.
        4 | 5 => {
            let rates = ErrorRates {
                any: 0.3,
                fewer_as_more: 1.0,
                half_as_double: 1.0,
                lost_carry: 1.0,
                nearest_person: 0.5,
                premature: 0.0,
            };
            pupil_line(rng, p, i, &p.values, &rates).0
        }
        // The fact of another person with this person's name.
        6 => {
            let j = rng.random_range(0..n);
            let line = p.line(j);
            let rest = line.split_once(' ').map_or("", |(_, r)| r);
            format!("{} {rest}", p.name(i))
        }
        // The fact of this person with a random name.
        7 => {
            let line = p.line(i);
            let rest = line.split_once(' ').map_or("", |(_, r)| r);
            format!("{} {rest}", NAMES[rng.random_range(0..NAMES.len())])
        }
        // One name inside the fact is replaced by another person of the problem.
        8 => {
            let line = p.line(i);
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let at: Vec<usize> = (1..words.len())
                .filter(|&k| NAMES.contains(&words[k].trim_end_matches([':', '.'])))
                .collect();
            if !at.is_empty() {
                let k = at[rng.random_range(0..at.len())];
                let end = words[k].trim_start_matches(char::is_alphabetic).to_owned();
                words[k] = format!("{}{end}", p.name(rng.random_range(0..n)));
            }
            words.join(" ")
        }
        // An answer that comes too early, or a repeated line.
        _ => {
            if i > 0 && rng.random_bool(0.4) {
                p.line(rng.random_range(0..i))
            } else {
                let known = p.values[rng.random_range(0..n)];
                WorldProblem::answer_line(known)
            }
        }
    }
}
