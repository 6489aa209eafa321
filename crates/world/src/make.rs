//! Sampling of problems, and the rule that separates training and test problems.

use super::{Fact, ITEMS, MAX_NUMBER, NAMES, Relation, WorldProblem};
use rand::{Rng, seq::SliceRandom};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::{Deserialize, Serialize};

/// The difficulty of problems: the number of people, and how far back a fact may refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difficulty {
    /// The minimum number of people, who have one solution line each.
    pub min_people: usize,
    /// The maximum number of people, at most 16 ([`NAMES`]).
    pub max_people: usize,
    /// How many people back a fact may refer; 1 is the person just before. To use someone further
    /// back a model has to find the name, which small models learn late or not at all.
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

    /// Whether a problem could be sampled at this difficulty.
    pub fn covers(self, problem: &WorldProblem) -> bool {
        let people = problem.facts.len();
        let mut facts = problem.facts.iter().enumerate();
        (self.min_people..=self.max_people).contains(&people)
            && facts.all(|(i, fact)| self.allows(i, fact))
    }

    /// Whether fact `i` refers only to people who are near enough.
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

/// A set of problems; every problem of the world is in exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Problems that may be trained on.
    Train,
    /// Problems that are kept for measuring.
    Test,
}

/// Returns the split of a problem, which depends on its text only. One problem in four is a test
/// problem. Every program that samples problems therefore agrees on what may be trained on.
pub fn split_of(text: &str) -> Split {
    // FNV-1a, 64 bit
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    // The lowest bits of the hash depend on few bits of the text, so higher bits are used.
    if (hash >> 20) % 4 == 0 {
        Split::Test
    } else {
        Split::Train
    }
}

/// Samples a problem until one is in `split`.
pub fn problem(rng: &mut impl Rng, difficulty: Difficulty, split: Split) -> WorldProblem {
    loop {
        let people = rng.random_range(difficulty.min_people..=difficulty.max_people);
        if let Some(p) = draw(rng, people, difficulty.dependency_distance)
            // The splits differ only in the hash, not in the distribution of problems.
            && split_of(&p.text()) == split
        {
            return p;
        }
    }
}

/// Samples problems of a split without end; the seed determines the sequence.
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
    // Same split: a twin of a test problem must not be a training problem.
    let split = split_of(&problem.text());
    let twins = (0..TRIES).filter_map(|_| renumbered(rng, problem));
    let mut fit =
        twins.filter(|twin| twin.answer() != problem.answer() && split_of(&twin.text()) == split);
    fit.next()
}

/// The number of attempts after which [`twin`] gives up.
const TRIES: usize = 200_000;

fn between(rng: &mut impl Rng, least: i64, most: i64) -> Option<i64> {
    (least <= most).then(|| rng.random_range(least..=most))
}

/// Replaces the numbers of a problem by random ones; `None` if no valid problem results.
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

/// Returns the random numbers for one step of a stage. Other steps do not affect them.
pub fn rng(seed: u64, stage: u64, step: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ stage.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // Each step has its own stream, so skipping or repeating steps does not change other steps.
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

/// Samples a relation to people at most `dependency_distance` back whose result is from 1 to
/// [`MAX_NUMBER`]. The kinds are about equally frequent.
fn relation(rng: &mut impl Rng, values: &[i64], dependency_distance: usize) -> Option<Relation> {
    let (last, back) = (values.len() - 1, dependency_distance.min(values.len()));
    // A kind may be impossible for the sampled person; after 20 attempts the problem is dropped.
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

/// Samples a sum as it is written in solutions: ` 34 + 8 = 42.`
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
