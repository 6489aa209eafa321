//! Mistakes: the kinds people make, for the generator's noisy solutions and the PRM's
//! corrupted lines.

use super::{MAX_NUMBER, NAMES, Relation, WorldProblem};
use rand::Rng;
use serde::{Deserialize, Serialize};

/// How often a line of a noisy solution goes wrong. Some kinds of line mislead more often than
/// others (people read "fewer" as "more"), so a problem has easy and hard lines, as real ones do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRates {
    /// Any line: another person's number, a result that is off, another person's fact.
    pub any: f64,
    /// "fewer" worked out as "more".
    pub fewer_as_more: f64,
    /// "half as many" doubled.
    pub half_as_double: f64,
    /// A product or sum whose carry was lost: the result ten too small.
    pub lost_carry: f64,
    /// The person named just before, instead of the one the fact names.
    pub nearest_person: f64,
    /// The answer given one person too early.
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
    /// The same mistakes, `factor` times as often.
    pub fn scaled(&self, factor: f64) -> Self {
        let f = |x: f64| (x * factor).min(1.0);
        Self {
            any: f(self.any),
            fewer_as_more: f(self.fewer_as_more),
            half_as_double: f(self.half_as_double),
            lost_carry: f(self.lost_carry),
            nearest_person: f(self.nearest_person),
            premature: f(self.premature),
        }
    }
}

/// A solution with errors injected at `rates`: after an error it goes on from the wrong number.
/// Same length as [`WorldProblem::solution`] or shorter (a premature answer).
pub fn noisy_solution(rng: &mut impl Rng, p: &WorldProblem, rates: &ErrorRates) -> Vec<String> {
    let mut values = p.values.clone();
    let mut out = Vec::new();
    for i in 0..p.facts.len() {
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

fn pupil_line(
    rng: &mut impl Rng,
    p: &WorldProblem,
    i: usize,
    values: &[i64],
    rates: &ErrorRates,
) -> (String, i64) {
    let clamp = |v: i64| v.clamp(1, MAX_NUMBER);
    // person, operator, the other side, result
    let sum = |a: usize, op: char, b: String, result: i64| {
        let left = format!("{} {op} {b} = ", values[a]);
        (p.line_of(i, &left, result), result)
    };
    // The person worked out last, if the fact names another.
    let misread = |rng: &mut _, q: usize| {
        if i >= 2 && q + 1 != i && Rng::random_bool(rng, rates.nearest_person) {
            i - 1
        } else if i >= 2 && Rng::random_bool(rng, rates.any / 2.0) {
            Rng::random_range(rng, 0..i)
        } else {
            q
        }
    };
    let off = |rng: &mut _, v: i64| {
        if Rng::random_bool(rng, rates.any / 2.0) {
            clamp(v + [-10, -2, -1, 1, 2, 10][Rng::random_range(rng, 0..6)])
        } else {
            v
        }
    };
    let carried = |rng: &mut _, carries: bool, r: i64| {
        let lost = carries && r > 10 && Rng::random_bool(rng, rates.lost_carry);
        off(rng, if lost { r - 10 } else { r })
    };
    match p.facts[i].relation {
        Relation::Given(n) => (p.line(i), n),
        Relation::More(c, q) => {
            let who = misread(rng, q);
            let a = values[who];
            let r = carried(rng, a % 10 + c % 10 >= 10, clamp(a + c));
            sum(who, '+', c.to_string(), r)
        }
        Relation::Fewer(c, q) => {
            let who = misread(rng, q);
            let a = values[who];
            if rng.random_bool(rates.fewer_as_more) {
                let r = off(rng, clamp(a + c));
                sum(who, '+', c.to_string(), r)
            } else {
                let r = off(rng, clamp(a - c));
                sum(who, '-', c.to_string(), r)
            }
        }
        Relation::Times(c, q) => {
            let who = misread(rng, q);
            let a = values[who];
            let r = carried(rng, (a % 10) * c >= 10, clamp(a * c));
            sum(who, '*', c.to_string(), r)
        }
        Relation::Half(q) => {
            let who = misread(rng, q);
            let a = values[who];
            if rng.random_bool(rates.half_as_double) {
                let r = off(rng, clamp(a * 2));
                sum(who, '*', 2.to_string(), r)
            } else {
                let r = off(rng, clamp(a / 2));
                sum(who, '/', 2.to_string(), r)
            }
        }
        Relation::Together(q, s) => {
            let (who, other) = (misread(rng, q), misread(rng, s));
            let (a, b) = (values[who], values[other]);
            let r = carried(rng, a % 10 + b % 10 >= 10, clamp(a + b));
            sum(who, '+', b.to_string(), r)
        }
    }
}

/// One wrong version of the line that comes after the first `done` right lines (line `done` of
/// the right solution); never equal to a right continuation.
pub fn corrupt(rng: &mut impl Rng, p: &WorldProblem, done: usize) -> String {
    let n = p.facts.len();
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

fn candidate(rng: &mut impl Rng, p: &WorldProblem, i: usize, n: usize) -> String {
    let number = |rng: &mut _, near: i64| {
        if Rng::random_bool(rng, 0.6) {
            (near + [-20, -10, -10, -2, -1, 1, 2, 10, 10, 20][Rng::random_range(rng, 0..10)])
                .clamp(1, MAX_NUMBER)
        } else if Rng::random_bool(rng, 0.5) {
            p.values[Rng::random_range(rng, 0..n)]
        } else {
            Rng::random_range(rng, 1..=MAX_NUMBER)
        }
    };
    if i == n {
        return match rng.random_range(0..4) {
            0 => p.line(rng.random_range(0..n)), // says again what is known
            _ => WorldProblem::answer_line(number(rng, p.answer())),
        };
    }
    let swap_number = |rng: &mut _, line: &str, which: usize| {
        // Replaces the `which`-th number from the end.
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let at: Vec<usize> = (0..words.len())
            .filter(|&k| words[k].trim_end_matches('.').parse::<i64>().is_ok())
            .collect();
        if let Some(&k) = at.len().checked_sub(1 + which).and_then(|j| at.get(j)) {
            let stop = if words[k].ends_with('.') { "." } else { "" };
            let old: i64 = words[k].trim_end_matches('.').parse().unwrap_or(1);
            words[k] = format!("{}{stop}", number(rng, old));
        }
        words.join(" ")
    };
    match rng.random_range(0..10) {
        0 | 1 => swap_number(rng, &p.line(i), 0),
        2 => {
            let which = rng.random_range(1..4);
            swap_number(rng, &p.line(i), which)
        }
        // the whole line worked out with another person's number
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
        // the wrong operation, carried through
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
        // another person's fact under this person's name
        6 => {
            let j = rng.random_range(0..n);
            let line = p.line(j);
            let rest = line.split_once(' ').map_or("", |(_, r)| r);
            format!("{} {rest}", p.name(i))
        }
        // this person's fact under another name
        7 => {
            let line = p.line(i);
            let rest = line.split_once(' ').map_or("", |(_, r)| r);
            format!("{} {rest}", NAMES[rng.random_range(0..NAMES.len())])
        }
        // a name swapped inside the fact
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
        // a premature answer, or a line said again
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
