//! Chains of another kind than those that a model is at home with: nothing is changed, two parts of
//! the data are compared.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::Verdict;
use crate::metrics::Range;
use crate::quality::{Figure, ScoredChain, auc, resample};

/// All shifts, in the order of reports.
pub static SHIFTS: [&Shift; 2] = [
    &Shift {
        key: "other-generator",
        name: "other generator",
        about: "Chains of the generator that wrote most of them, and those of all others.",
        parts: by_generator,
    },
    &Shift {
        key: "harder-level",
        name: "harder level",
        about: "Chains of the lower half of the levels that the data name (with an odd number of them, the middle one too), and \
                those of the upper half.",
        parts: by_level,
    },
];

/// A comparison of two parts of the data.
#[derive(Debug)]
pub struct Shift {
    /// As files name it.
    pub key: &'static str,
    /// As tables name it.
    pub name: &'static str,
    /// What is compared: one sentence.
    pub about: &'static str,
    /// How the data are parted; `None` if they do not name two kinds.
    parts: fn(&[ScoredChain]) -> Option<Parts>,
}

/// Two parts of the data: what a chain's kind is called, and which kinds are on either side.
struct Parts {
    of: fn(&ScoredChain) -> Option<&String>,
    home: Vec<String>,
    away: Vec<String>,
}

/// One of the two parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// What is in it.
    pub kinds: Vec<String>,
    /// Chains.
    pub chains: usize,
    /// Scored steps with a label that is right or wrong.
    pub steps: usize,
    /// The ROC area over its steps.
    pub auc: Option<Figure>,
}

/// What is reported of a shift.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShiftReport {
    /// The shift's [`Shift::key`].
    pub key: &'static str,
    /// The shift's [`Shift::name`].
    pub name: &'static str,
    /// What is compared with.
    pub home: Side,
    /// What is compared.
    pub away: Side,
    /// The ROC area away less that at home, on the same draws of problems.
    pub difference: Option<Figure>,
    /// What it means.
    pub verdict: Verdict,
}

/// A scored step.
struct Step {
    score: f32,
    is_right: bool,
    problem: usize,
    is_away: bool,
}

impl Shift {
    /// Compares the two parts; `None` if the data do not name two kinds. The draws of the bootstrap
    /// come from `seed`.
    #[must_use]
    pub fn report(&self, chains: &[ScoredChain], seed: u64) -> Option<ShiftReport> {
        let parts = (self.parts)(chains)?;
        let side_of = |chain: &ScoredChain| {
            let kind = (parts.of)(chain)?;
            Some(parts.away.contains(kind)).filter(|is_away| *is_away || parts.home.contains(kind))
        };
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        let mut steps: Vec<Step> = Vec::new();
        let mut counts = [0, 0];
        for chain in chains {
            let (Some(is_away), Some(scores)) = (side_of(chain), &chain.scores) else {
                continue;
            };
            counts[usize::from(is_away)] += 1;
            let next = numbers.len();
            let problem = *numbers.entry(chain.problem).or_insert(next);
            let labelled = scores.iter().zip(&chain.labels);
            steps.extend(labelled.filter_map(|(&score, label)| {
                let label = label.filter(|&label| label != 0.5)?;
                Some(Step {
                    score,
                    is_right: label > 0.5,
                    problem,
                    is_away,
                })
            }));
        }
        steps.sort_by(|a, b| a.score.total_cmp(&b.score));
        let area = |side: bool, counts: &[u32]| {
            let of_side = steps.iter().filter(|step| step.is_away == side);
            auc(of_side.map(|step| (step.score, step.is_right, f64::from(counts[step.problem]))))
        };
        let ranges = [Range::Unit, Range::Unit, Range::Signed];
        let [home, away, difference] = resample(numbers.len(), ranges, seed, |counts| {
            let (home, away) = (area(false, counts), area(true, counts));
            [home, away, home.zip(away).map(|(home, away)| away - home)]
        });
        let difference = difference.map(|difference| Figure {
            interval: difference.interval.or_else(|| newcombe(home?, away?)),
            ..difference
        });
        let side = |is_away: bool, kinds: Vec<String>, auc| Side {
            kinds,
            chains: counts[usize::from(is_away)],
            steps: steps.iter().filter(|step| step.is_away == is_away).count(),
            auc,
        };
        Some(ShiftReport {
            key: self.key,
            name: self.name,
            home: side(false, parts.home, home),
            away: side(true, parts.away, away),
            difference,
            verdict: Verdict::of_shift(away, difference),
        })
    }
}

/// The interval of the difference of two independent figures from their own intervals: method 10 of
/// Newcombe, "Interval estimation for the difference between independent proportions" (1998).
fn newcombe(home: Figure, away: Figure) -> Option<(f64, f64)> {
    let (home_low, home_high) = home.interval?;
    let (away_low, away_high) = away.interval?;
    let difference = away.value - home.value;
    let below = (away.value - away_low).hypot(home_high - home.value);
    let above = (away_high - away.value).hypot(home.value - home_low);
    Some((difference - below, difference + above))
}

/// The distinct names that `of` finds, with the number of their chains.
fn kinds(
    chains: &[ScoredChain],
    of: fn(&ScoredChain) -> Option<&String>,
) -> BTreeMap<&String, usize> {
    let mut kinds = BTreeMap::new();
    for kind in chains.iter().filter_map(of) {
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

fn by_generator(chains: &[ScoredChain]) -> Option<Parts> {
    fn of(chain: &ScoredChain) -> Option<&String> {
        chain.generator.as_ref()
    }
    let mut kinds: Vec<(&String, usize)> = kinds(chains, of).into_iter().collect();
    // Of several with as many chains, the first by name.
    kinds.sort_by_key(|&(_, count)| Reverse(count));
    let mut names = kinds.into_iter().map(|(name, _)| name.clone());
    let home = vec![names.next()?];
    let away: Vec<String> = names.collect();
    (!away.is_empty()).then_some(Parts { of, home, away })
}

fn by_level(chains: &[ScoredChain]) -> Option<Parts> {
    fn of(chain: &ScoredChain) -> Option<&String> {
        chain.level.as_ref()
    }
    let mut levels: Vec<&String> = kinds(chains, of).into_keys().collect();
    levels.sort_by_key(|level| (number(level), *level));
    let lower = levels.len().div_ceil(2);
    let names = |levels: &[&String]| levels.iter().map(|&level| level.clone()).collect();
    (levels.len() > 1).then(|| Parts {
        of,
        home: names(&levels[..lower]),
        away: names(&levels[lower..]),
    })
}

/// The first number in a level's name: levels without one come first.
fn number(level: &str) -> Option<u64> {
    let from = level.find(|c: char| c.is_ascii_digit())?;
    let digits = level[from..].split(|c: char| !c.is_ascii_digit()).next();
    digits?.parse().ok()
}
