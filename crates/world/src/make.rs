//! Sampling problems, and the rule that keeps test problems out of training.

use super::{Fact, ITEMS, MAX_NUMBER, NAMES, Relation, WorldProblem};
use rand::{Rng, seq::SliceRandom};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::{Deserialize, Serialize};

/// The difficulty of problems: how many people they have, and how far back facts refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difficulty {
    /// The fewest people of a problem, which is the number of solution lines before the answer.
    pub min_people: usize,
    /// The most people of a problem.
    pub max_people: usize,
    /// The most people back that a fact may refer to: 1 is the person just before. A person further
    /// back has to be found by name, which models of the bundled size learn late or not at all.
    #[serde(alias = "reach")]
    pub dependency_distance: usize,
}

impl Difficulty {
    /// The problems that the bundled models are trained on.
    pub const BUNDLED: Self = Self {
        min_people: 3,
        max_people: 7,
        dependency_distance: 1,
    };

    /// Whether a problem is one that could be sampled at this difficulty.
    pub fn covers(self, problem: &WorldProblem) -> bool {
        let people = problem.facts.len();
        let mut facts = problem.facts.iter().enumerate();
        (self.min_people..=self.max_people).contains(&people)
            && facts.all(|(i, fact)| self.allows(i, fact))
    }

    /// Whether fact `i` refers to no person that is too far back.
    fn allows(self, i: usize, fact: &Fact) -> bool {
        let back = self.dependency_distance;
        match fact.relation {
            Relation::Given(_) => i == 0,
            Relation::More(_, p)
            | Relation::Fewer(_, p)
            | Relation::Times(_, p)
            | Relation::Half(p) => i - p <= back,
            Relation::Together(p, q) => p != q && i - p <= back && i - q <= back,
        }
    }
}

/// A part of the world's problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Problems that models are trained on.
    Train,
    /// Problems that models are measured on.
    Test,
}

/// Returns the split of a problem, from a hash of its text only. A quarter is held out, and
/// everybody who samples a problem agrees on whether it may be trained on.
pub fn split_of(text: &str) -> Split {
    // FNV-1a, 64 bit
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    // Not the lowest bits, which depend on few bits of the text's bytes.
    if (hash >> 20) % 4 == 0 {
        Split::Test
    } else {
        Split::Train
    }
}

/// Samples a problem of a split.
pub fn problem(rng: &mut impl Rng, difficulty: Difficulty, split: Split) -> WorldProblem {
    loop {
        let people = rng.random_range(difficulty.min_people..=difficulty.max_people);
        if let Some(p) = draw(rng, people, difficulty.dependency_distance)
            // Both splits are sampled alike and differ only in the hash.
            && split_of(&p.text()) == split
        {
            return p;
        }
    }
}

/// Returns endless problems of a split, the same for the same seed.
pub fn problems(
    seed: u64,
    difficulty: Difficulty,
    split: Split,
) -> impl Iterator<Item = WorldProblem> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    std::iter::repeat_with(move || problem(&mut rng, difficulty, split))
}

/// Returns the twin of a problem: the same people, things and relations with other numbers and
/// another answer, of the same split. `None` if none was found.
pub fn twin(rng: &mut impl Rng, problem: &WorldProblem) -> Option<WorldProblem> {
    // A twin of a test problem must not be a training problem.
    let split = split_of(&problem.text());
    let twins = (0..TRIES).filter_map(|_| renumbered(rng, problem));
    let mut fit =
        twins.filter(|twin| twin.answer() != problem.answer() && split_of(&twin.text()) == split);
    fit.next()
}

/// The most problems that are tried for a twin.
const TRIES: usize = 200_000;

fn between(rng: &mut impl Rng, least: i64, most: i64) -> Option<i64> {
    (least <= most).then(|| rng.random_range(least..=most))
}

/// Replaces the numbers of a problem by random ones, if its answer can then be worked out.
fn renumbered(rng: &mut impl Rng, problem: &WorldProblem) -> Option<WorldProblem> {
    let mut facts: Vec<Fact> = Vec::with_capacity(problem.facts.len());
    let mut values: Vec<i64> = Vec::with_capacity(problem.facts.len());
    for fact in &problem.facts {
        let relation = match fact.relation {
            Relation::Given(_) => Relation::Given(between(rng, 2, 50)?),
            Relation::More(_, p) => {
                Relation::More(between(rng, 1, (MAX_NUMBER - values[p]).min(12))?, p)
            }
            Relation::Fewer(_, p) => Relation::Fewer(between(rng, 1, (values[p] - 1).min(12))?, p),
            Relation::Times(_, p) => {
                Relation::Times(between(rng, 2, (MAX_NUMBER / values[p]).min(6))?, p)
            }
            plain @ (Relation::Half(_) | Relation::Together(..)) => plain,
        };
        facts.push(Fact { relation, ..*fact });
        values = WorldProblem::new(problem.item, facts.clone())?.values;
    }
    WorldProblem::new(problem.item, facts)
}

/// Returns the random numbers of one step of a stage. They do not depend on what other steps
/// sample.
pub fn rng(seed: u64, stage: u64, step: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ stage.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // A stream for each step: skipping or repeating steps leaves the others as they are.
    rng.set_stream(step as u64);
    rng
}

fn draw(rng: &mut impl Rng, people: usize, dependency_distance: usize) -> Option<WorldProblem> {
    let mut names: Vec<usize> = (0..NAMES.len()).collect();
    names.shuffle(rng);
    let mut facts = vec![Fact {
        person: names[0],
        relation: Relation::Given(rng.random_range(2..=50)),
    }];
    let item = rng.random_range(0..ITEMS.len());
    let mut values = WorldProblem::new(item, facts.clone())?.values;
    for &person in names.iter().take(people).skip(1) {
        let relation = relation(rng, &values, dependency_distance)?;
        facts.push(Fact { person, relation });
        values = WorldProblem::new(item, facts.clone())?.values;
    }
    WorldProblem::new(item, facts)
}

/// Samples a relation to people at most `dependency_distance` back that stays within the numbers.
/// Every kind is about equally frequent.
fn relation(rng: &mut impl Rng, values: &[i64], dependency_distance: usize) -> Option<Relation> {
    let (last, back) = (values.len() - 1, dependency_distance.min(values.len()));
    // Some kinds may be impossible from these numbers; a problem that finds none is given up.
    for _ in 0..20 {
        let p = last - rng.random_range(0..back);
        let v = values[p];
        let found = match rng.random_range(0..5) {
            0 if v < MAX_NUMBER => {
                Relation::More(rng.random_range(1..=(MAX_NUMBER - v).min(12)), p)
            }
            1 if v > 1 => Relation::Fewer(rng.random_range(1..=(v - 1).min(12)), p),
            2 if v * 2 <= MAX_NUMBER => {
                Relation::Times(rng.random_range(2..=(MAX_NUMBER / v).min(6)), p)
            }
            3 if v % 2 == 0 => Relation::Half(p),
            4 if dependency_distance > 1 => {
                let q = last - rng.random_range(0..back);
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

/// Samples a sum as solution lines have it: ` 34 + 8 = 42.`
pub fn sum(rng: &mut impl Rng) -> String {
    loop {
        let a = rng.random_range(1..=MAX_NUMBER);
        let (op, b, result) = match rng.random_range(0..8) {
            0..=2 => {
                let b = rng.random_range(1..=12);
                ('+', b, a + b)
            }
            3..=5 => {
                let b = rng.random_range(1..=12);
                ('-', b, a - b)
            }
            6 => {
                let b = rng.random_range(2..=6);
                ('*', b, a * b)
            }
            _ if a % 2 == 0 => ('/', 2, a / 2),
            _ => continue,
        };
        if (1..=MAX_NUMBER).contains(&result) {
            return format!(" {a} {op} {b} = {result}.");
        }
    }
}
