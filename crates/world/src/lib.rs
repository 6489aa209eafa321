//! The bundled problem world: who has how many of something.
//!
//! A problem is a list of facts, each about one person, in the order in which they can be
//! worked out, and a question about the last person. A solution has one line per person and an
//! answer line. Every line has exactly one right form, so the truth of a step is known exactly.
//!
//! The bundled models are trained on problems of this world ([`Split::Train`]); the bundled sample
//! and `beamgen problems` draw from the rest ([`Split::Test`]).

#![forbid(unsafe_code)]

mod check;
mod errors;
mod make;
mod parse;

#[cfg(test)]
mod tests;

pub use check::{Checker, Verdict, mistake};
pub use errors::{ErrorRates, corrupt, noisy_solution};
pub use make::{Difficulty, Split, problem, problems, rng, split_of, sum, twin};
pub use parse::parse;

/// Names a problem draws its people from.
pub const NAMES: [&str; 16] = [
    "Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Iris", "Jack", "Kim", "Leo",
    "Mia", "Nora", "Omar", "Tom",
];
/// Things people have; one kind per problem.
pub const ITEMS: [&str; 8] = [
    "pens", "books", "coins", "cards", "shells", "apples", "stamps", "marbles",
];
/// The largest number that may appear anywhere; each is one token.
pub const MAX_NUMBER: i64 = 99;

/// How one person's number follows from earlier persons' numbers (indices into the facts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The number itself.
    Given(i64),
    /// So many more than the person has.
    More(i64, usize),
    /// So many fewer than the person has.
    Fewer(i64, usize),
    /// So many times what the person has.
    Times(i64, usize),
    /// Half of what the person has.
    Half(usize),
    /// What two persons have together.
    Together(usize, usize),
}

impl Relation {
    /// The number that follows from these of earlier persons, a half rounded down; `None` if the
    /// relation refers to none of them.
    fn result(self, values: &[i64]) -> Option<i64> {
        let v = |i: usize| values.get(i).copied();
        Some(match self {
            Self::Given(n) => n,
            Self::More(c, p) => v(p)? + c,
            Self::Fewer(c, p) => v(p)? - c,
            Self::Times(c, p) => v(p)? * c,
            Self::Half(p) => v(p)? / 2,
            Self::Together(p, q) => v(p)? + v(q)?,
        })
    }
}

/// What is said of one person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Index into [`NAMES`].
    pub person: usize,
    /// How the person's number follows.
    pub relation: Relation,
}

/// A problem and its truth: `values[i]` is the number that follows from `facts[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldProblem {
    /// Index into [`ITEMS`].
    pub item: usize,
    /// In the order in which they can be worked out; the last is asked for.
    pub facts: Vec<Fact>,
    /// In `1..=MAX_NUMBER`, one a fact.
    pub values: Vec<i64>,
}

impl WorldProblem {
    /// Computes the values of `facts`; `None` if a relation refers forward, halves an odd number
    /// or leaves 1..=[`MAX_NUMBER`].
    pub fn new(item: usize, facts: Vec<Fact>) -> Option<Self> {
        let mut values: Vec<i64> = Vec::with_capacity(facts.len());
        for fact in &facts {
            let value = fact.relation.result(&values)?;
            let halves_odd = matches!(fact.relation, Relation::Half(p) if values[p] % 2 != 0);
            if halves_odd || !(1..=MAX_NUMBER).contains(&value) {
                return None;
            }
            values.push(value);
        }
        (!facts.is_empty()).then_some(Self {
            item,
            facts,
            values,
        })
    }

    /// The name of the person whom a fact is about.
    pub fn name(&self, fact: usize) -> &'static str {
        NAMES[self.facts[fact].person]
    }

    /// The asked number: that of the last person.
    pub fn answer(&self) -> i64 {
        self.values[self.values.len() - 1]
    }

    /// The problem as a person would write it, one paragraph.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for i in 0..self.facts.len() {
            out += &self.fact_text(i);
            out += ". ";
        }
        out += &format!(
            "How many {} does {} have?",
            ITEMS[self.item],
            self.name(self.facts.len() - 1)
        );
        out
    }

    /// One fact without its full stop: `Leo has 8 more pens than Mia`.
    pub fn fact_text(&self, i: usize) -> String {
        let (who, item) = (self.name(i), ITEMS[self.item]);
        match self.facts[i].relation {
            Relation::Given(n) => format!("{who} has {n} {item}"),
            Relation::More(c, p) => format!("{who} has {c} more {item} than {}", self.name(p)),
            Relation::Fewer(c, p) => format!("{who} has {c} fewer {item} than {}", self.name(p)),
            Relation::Times(c, p) => {
                format!("{who} has {c} times as many {item} as {}", self.name(p))
            }
            Relation::Half(p) => format!("{who} has half as many {item} as {}", self.name(p)),
            Relation::Together(p, q) => format!(
                "{who} has as many {item} as {} and {} together",
                self.name(p),
                self.name(q)
            ),
        }
    }

    /// A solution line of a person, without its newline, from the given values:
    /// `Leo has 8 more pens than Mia: 34 + 8 = 42.`
    pub fn line_with(&self, i: usize, values: &[i64], result: i64) -> String {
        let sum = match self.facts[i].relation {
            Relation::Given(_) => String::new(),
            Relation::More(c, p) => format!("{} + {c} = ", values[p]),
            Relation::Fewer(c, p) => format!("{} - {c} = ", values[p]),
            Relation::Times(c, p) => format!("{} * {c} = ", values[p]),
            Relation::Half(p) => format!("{} / 2 = ", values[p]),
            Relation::Together(p, q) => format!("{} + {} = ", values[p], values[q]),
        };
        self.line_of(i, &sum, result)
    }

    /// The fact, the left side of its sum, the result: each on its own may be wrong.
    fn line_of(&self, i: usize, sum: &str, result: i64) -> String {
        format!("{}: {sum}{result}.", self.fact_text(i))
    }

    /// The one right line of a fact, without a newline.
    pub fn line(&self, i: usize) -> String {
        self.line_with(i, &self.values, self.values[i])
    }

    /// The line that gives an answer, without a newline.
    pub fn answer_line(answer: i64) -> String {
        format!("The answer is {answer}.")
    }

    /// All lines of the right solution, the answer line last; none has its newline.
    pub fn solution(&self) -> Vec<String> {
        (0..self.facts.len())
            .map(|i| self.line(i))
            .chain([Self::answer_line(self.answer())])
            .collect()
    }
}
