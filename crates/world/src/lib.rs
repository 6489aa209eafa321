//! The bundled problem world: who has how many of something.
//!
//! A problem is a list of facts and a question. Each fact is about one person and refers only to
//! people before; the question is about the last person. A solution has one line per person and an
//! answer line. Every line has one right form, so a step can be checked exactly.
//!
//! The bundled models are trained on problems of this world ([`Split::Train`]). The bundled sample
//! and `beamgen problems` use the other problems ([`Split::Test`]).

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

/// The names that people in problems can have; at most one person per name.
pub const NAMES: [&str; 16] = [
    "Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo", "Iris", "Jack", "Kim", "Leo",
    "Mia", "Nora", "Omar", "Tom",
];
/// The things that people count; a problem has one kind.
pub const ITEMS: [&str; 8] = [
    "pens", "books", "coins", "cards", "shells", "apples", "stamps", "marbles",
];
/// The largest number in problems and solutions. The bundled tokenizer has a token for each number.
pub const MAX_NUMBER: i64 = 99;

/// The way in which a person's number follows from the numbers of people before. People are indices
/// into the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The number is stated.
    Given(i64),
    /// `More(n, p)`: person `p`'s number plus `n`.
    More(i64, usize),
    /// `Fewer(n, p)`: person `p`'s number minus `n`.
    Fewer(i64, usize),
    /// `Times(n, p)`: person `p`'s number times `n`.
    Times(i64, usize),
    /// Half of what the person has.
    Half(usize),
    /// The sum of two people's numbers.
    Together(usize, usize),
}

impl Relation {
    /// Computes the number from the `values` of people before; half an odd number is rounded down.
    /// `None` if the relation refers to a person without a value.
    fn result(self, values: &[i64]) -> Option<i64> {
        Some(match self {
            Self::Given(n) => n,
            Self::More(c, p) => values.get(p)? + c,
            Self::Fewer(c, p) => values.get(p)? - c,
            Self::Times(c, p) => values.get(p)? * c,
            Self::Half(p) => values.get(p)? / 2,
            Self::Together(p, q) => values.get(p)? + values.get(q)?,
        })
    }
}

/// One sentence of a problem: a person and how many things that person has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Index into [`NAMES`].
    pub person: usize,
    /// The rule for the person's number.
    pub relation: Relation,
}

/// A problem and its truth: `values[i]` is the number that follows from `facts[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldProblem {
    /// Index into [`ITEMS`].
    pub item: usize,
    /// The facts; each refers only to facts before, and the question is about the last one.
    pub facts: Vec<Fact>,
    /// The right number for each fact, from 1 to [`MAX_NUMBER`].
    pub values: Vec<i64>,
}

impl WorldProblem {
    /// Computes the values of `facts`; `None` if a relation refers forward, halves an odd number
    /// or leaves 1..=[`MAX_NUMBER`].
    pub fn new(item: usize, facts: Vec<Fact>) -> Option<Self> {
        let mut values: Vec<i64> = Vec::with_capacity(facts.len());
        for fact in &facts {
            let value = fact.relation.result(&values)?;
            // `result` rounds down for wrong solutions, which may halve odd numbers. A problem must
            // not.
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

    /// Returns the name of the person whom fact `fact` is about.
    pub fn name(&self, fact: usize) -> &'static str {
        NAMES[self.facts[fact].person]
    }

    /// Returns the number of the person whom the question is about.
    pub fn answer(&self) -> i64 {
        self.values[self.values.len() - 1]
    }

    /// Writes the problem as it is given to models: all facts and the question, in one paragraph.
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

    /// Writes a fact as a sentence without the full stop: `Leo has 8 more pens than Mia`.
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

    /// Writes a person's line of a solution, calculated from `values`, without a newline: `Leo has
    /// 8 more pens than Mia: 34 + 8 = 42.`
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

    /// Joins a fact, the left side of its sum and a result; the sum and the result may be wrong.
    fn line_of(&self, i: usize, sum: &str, result: i64) -> String {
        format!("{}: {sum}{result}.", self.fact_text(i))
    }

    /// Writes the one right line of a person, without a newline.
    pub fn line(&self, i: usize) -> String {
        self.line_with(i, &self.values, self.values[i])
    }

    /// Writes the last line of a solution, without a newline; the answer may be wrong.
    pub fn answer_line(answer: i64) -> String {
        format!("The answer is {answer}.")
    }

    /// Returns the lines of the right solution, without newlines; the last one is the answer line.
    pub fn solution(&self) -> Vec<String> {
        (0..self.facts.len())
            .map(|i| self.line(i))
            .chain([Self::answer_line(self.answer())])
            .collect()
    }
}
