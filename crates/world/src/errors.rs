//! Mistakes of the kinds that people make, for the generator's noisy solutions and the PRM's
//! corrupted lines.

use super::{MAX_NUMBER, NAMES, Relation, WorldProblem};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// Probabilities of mistakes in a line of a noisy solution. Some kinds of line mislead more often
/// than others (people read "fewer" as "more"), so a problem has easy and hard lines, as real ones
/// do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRates {
    /// Any line: another person's number or fact, or a result that is off by a little.
    pub any: f64,
    /// "fewer" worked out as "more".
    pub fewer_as_more: f64,
    /// "half as many" doubled.
    pub half_as_double: f64,
    /// A product or sum whose carry was lost, so that the result is ten too small.
    pub lost_carry: f64,
    /// The person named just before, instead of the person that the fact names.
    pub nearest_person: f64,
    /// The answer given before the last person, spread over the lines of a solution.
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
    /// Returns the rates multiplied by `factor`, at most 1.
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

/// Writes a solution with mistakes at `rates`; after a mistake it continues with the wrong number.
/// It is as long as [`WorldProblem::solution`], or shorter (a premature answer).
pub fn noisy_solution(rng: &mut impl Rng, p: &WorldProblem, rates: &ErrorRates) -> Vec<String> {
    let mut values = p.values.clone();
    let mut out = Vec::new();
    for i in 0..p.facts.len() {
        // Only where a number is known and the last person is not next, so that the answer is
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

/// Somebody who makes mistakes and works out the line of fact `i`.
struct Pupil<'a> {
    p: &'a WorldProblem,
    i: usize,
    /// The numbers that the solution has so far, right or not.
    values: &'a [i64],
    rates: &'a ErrorRates,
}

impl Pupil<'_> {
    /// The line with the sum `values[a] op b = result`, and the result.
    fn sum(&self, a: usize, op: char, b: i64, result: i64) -> (String, i64) {
        let left = format!("{} {op} {b} = ", self.values[a]);
        (self.p.line_of(self.i, &left, result), result)
    }

    /// The person whose number is used where the fact names `person`.
    fn misread(&self, rng: &mut impl Rng, person: usize) -> usize {
        let i = self.i;
        // The person worked out last is the nearest mistake, if the fact names another.
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

    /// A result that may lose its carry, if the sum has one, before it is off.
    fn carry(&self, rng: &mut impl Rng, carries: bool, result: i64) -> i64 {
        let lost = carries && result > 10 && rng.random_bool(self.rates.lost_carry);
        self.off(rng, if lost { result - 10 } else { result })
    }
}

fn clamp(number: i64) -> i64 {
    number.clamp(1, MAX_NUMBER)
}

/// Writes the line of fact `i` with mistakes at `rates`; returns the result on it, too.
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

/// Returns a wrong version of the line after the first `done` lines of the right solution. It never
/// equals a right continuation.
pub fn corrupt(rng: &mut impl Rng, p: &WorldProblem, done: usize) -> String {
    let n = p.facts.len();
    // A random change can give the right line, or another right continuation: the checker decides.
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

/// Samples a number that looks plausible in place of `near`.
fn number(rng: &mut impl Rng, p: &WorldProblem, near: i64) -> i64 {
    if rng.random_bool(0.6) {
        clamp(near + [-20, -10, -10, -2, -1, 1, 2, 10, 10, 20][rng.random_range(0..10)])
    } else if rng.random_bool(0.5) {
        p.values[rng.random_range(0..p.values.len())]
    } else {
        rng.random_range(1..=MAX_NUMBER)
    }
}

/// Replaces the number in place `which` of the line, counted from its end.
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
            0 => p.line(rng.random_range(0..n)), // says again what is known
            _ => WorldProblem::answer_line(number(rng, p, p.answer())),
        };
    }
    match rng.random_range(0..10) {
        // The last number is the result of the line.
        0 | 1 => swap_number(rng, p, &p.line(i), 0),
        2 => {
            let which = rng.random_range(1..4);
            swap_number(rng, p, &p.line(i), which)
        }
        // The whole line is worked out with another person's number.
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
        // A wrong operation, with the result that belongs to it.
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
        // Another person's fact, under this person's name.
        6 => {
            let j = rng.random_range(0..n);
            let line = p.line(j);
            let rest = line.split_once(' ').map_or("", |(_, r)| r);
            format!("{} {rest}", p.name(i))
        }
        // This person's fact, under another name.
        7 => {
            let line = p.line(i);
            let rest = line.split_once(' ').map_or("", |(_, r)| r);
            format!("{} {rest}", NAMES[rng.random_range(0..NAMES.len())])
        }
        // A name is swapped inside the fact.
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
        // A premature answer, or a line that was there already.
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
