//! Drawing problems, and the rule that keeps test problems out of training.

use super::{Fact, ITEMS, MAX_NUMBER, NAMES, Relation, WorldProblem};
use rand::{Rng, seq::SliceRandom};
use serde::{Deserialize, Serialize};

/// Dials of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difficulty {
    /// People (= solution lines before the answer), smallest and largest.
    pub min_people: usize,
    pub max_people: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    Train,
    Test,
}

/// Which side a problem belongs to, from a hash of its text alone: a quarter is held out, so
/// whoever draws a problem, whenever, agrees on whether it may be trained on.
pub fn split_of(text: &str) -> Split {
    // FNV-1a, 64 bit
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    if (hash >> 20) % 4 == 0 {
        Split::Test
    } else {
        Split::Train
    }
}

/// Draws one problem of the wanted split.
pub fn problem(rng: &mut impl Rng, difficulty: Difficulty, split: Split) -> WorldProblem {
    loop {
        let people = rng.random_range(difficulty.min_people..=difficulty.max_people);
        if let Some(p) = draw(rng, people)
            && split_of(&p.text()) == split
        {
            return p;
        }
    }
}

fn draw(rng: &mut impl Rng, people: usize) -> Option<WorldProblem> {
    let mut names: Vec<usize> = (0..NAMES.len()).collect();
    names.shuffle(rng);
    let mut facts = vec![Fact {
        person: names[0],
        relation: Relation::Given(rng.random_range(2..=50)),
    }];
    let item = rng.random_range(0..ITEMS.len());
    let mut values = WorldProblem::new(item, facts.clone())?.values;
    for (i, &person) in names.iter().enumerate().take(people).skip(1) {
        // The last person must need somebody; the one just before is the likeliest.
        let p = if rng.random_bool(0.4) {
            i - 1
        } else {
            rng.random_range(0..i)
        };
        let relation = relation(rng, &values, p)?;
        facts.push(Fact { person, relation });
        values = WorldProblem::new(item, facts.clone())?.values;
    }
    WorldProblem::new(item, facts)
}

/// A relation to person `p` that stays within the numbers; every kind about equally often.
fn relation(rng: &mut impl Rng, values: &[i64], p: usize) -> Option<Relation> {
    let v = values[p];
    for _ in 0..20 {
        let found = match rng.random_range(0..5) {
            0 if v < MAX_NUMBER => {
                Relation::More(rng.random_range(1..=(MAX_NUMBER - v).min(12)), p)
            }
            1 if v > 1 => Relation::Fewer(rng.random_range(1..=(v - 1).min(12)), p),
            2 if v * 2 <= MAX_NUMBER => {
                Relation::Times(rng.random_range(2..=(MAX_NUMBER / v).min(6)), p)
            }
            3 if v % 2 == 0 => Relation::Half(p),
            4 if values.len() > 1 => {
                let q = rng.random_range(0..values.len());
                if q == p || v + values[q] > MAX_NUMBER {
                    continue;
                }
                Relation::Together(p, q)
            }
            _ => continue,
        };
        return Some(found);
    }
    None
}

/// A chain of sums as they stand in solution lines, without the facts: ` Mia 34 + 8 = Leo 42.`
/// Left sides mostly take up people of earlier sums, near and far; every result is somebody new's.
pub fn sums(rng: &mut impl Rng, count: usize) -> Vec<String> {
    let mut fresh: Vec<usize> = (0..NAMES.len()).collect();
    fresh.shuffle(rng);
    let mut known: Vec<(usize, i64)> = Vec::new();
    let mut out = Vec::new();
    while out.len() < count && fresh.len() >= 2 {
        let new = known.is_empty() || rng.random_bool(0.15);
        let (who, a) = if new {
            (fresh[0], rng.random_range(1..=MAX_NUMBER))
        } else {
            known[rng.random_range(0..known.len())]
        };
        let (other, v) = *known.get(rng.random_range(0..=known.len())).unwrap_or(&(who, a));
        let (op, b, result) = match rng.random_range(0..10) {
            0..=2 => {
                let b = rng.random_range(1..=12);
                ('+', b.to_string(), a + b)
            }
            3..=5 => {
                let b = rng.random_range(1..=12);
                ('-', b.to_string(), a - b)
            }
            6 | 7 if other != who => ('+', format!("{} {v}", NAMES[other]), a + v),
            8 => {
                let b = rng.random_range(2..=6);
                ('*', b.to_string(), a * b)
            }
            9 if a % 2 == 0 => ('/', 2.to_string(), a / 2),
            _ => continue,
        };
        if !(1..=MAX_NUMBER).contains(&result) {
            continue;
        }
        if new {
            fresh.remove(0);
            known.push((who, a));
        }
        let Some(owner) = fresh.pop() else { break };
        known.push((owner, result));
        out.push(format!(" {} {a} {op} {b} = {} {result}.", NAMES[who], NAMES[owner]));
    }
    out
}
