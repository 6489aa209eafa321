//! Shifts: comparisons of a model's area under the ROC curve on two parts of the data. The parts are, for example,
//! chains of the usual generator and of other generators.

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
    /// The name in files, for example `harder-level`.
    pub key: &'static str,
    /// The name in tables of reports, a few plain words.
    pub name: &'static str,
    /// A description of the comparison for readers of a report, one sentence.
    pub about: &'static str,
    /// Splits the chains by generator or level; returns `None` if the data have fewer than two of them.
    parts: fn(&[ScoredChain]) -> Option<Parts>,
}

/// A split of the data. `kind` returns the generator or level of a chain, and the lists have the names in each part.
struct Parts {
    kind: fn(&ScoredChain) -> Option<&String>,
    home: Vec<String>,
    away: Vec<String>,
}

impl Parts {
    /// Returns whether a chain is in the part `away`; `None` if the chain is in neither part.
    fn is_away(&self, chain: &ScoredChain) -> Option<bool> {
        let kind = (self.kind)(chain)?;
        Some(self.away.contains(kind)).filter(|is_away| *is_away || self.home.contains(kind))
    }
}

/// The figures of one part of the data, familiar or unfamiliar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The names of the generators or levels in this part.
    pub kinds: Vec<String>,
    /// The number of chains in this part that the model did not refuse.
    pub chains: usize,
    /// The number of scored steps with a label other than one half.
    pub steps: usize,
    /// The area under the ROC curve over these steps; `None` if all are right or all are wrong.
    pub auc: Option<Figure>,
}

/// The result of one shift: the figures of both parts, and the verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShiftReport {
    /// The shift's [`Shift::key`].
    pub key: &'static str,
    /// The shift's [`Shift::name`].
    pub name: &'static str,
    /// The part on which the model is expected to work: the most frequent generator, or the lower levels.
    pub home: Side,
    /// The part that may be unfamiliar: the other generators, or the higher levels.
    pub away: Side,
    /// The area of `away` minus that of `home`. Both are resampled together, so the interval is paired.
    pub difference: Option<Figure>,
    /// The verdict on `difference` in plain words, by [`RULES`](super::RULES).
    pub verdict: Verdict,
}

struct Step {
    score: f32,
    is_right: bool,
    problem: usize,
    is_away: bool,
}

impl Shift {
    /// Compares the two parts. Returns `None` if the data have fewer than two generators or levels. `seed` is for the
    /// bootstrap.
    #[must_use]
    pub fn report(&self, chains: &[ScoredChain], seed: u64) -> Option<ShiftReport> {
        let parts = (self.parts)(chains)?;
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        let mut steps: Vec<Step> = Vec::new();
        let mut counts = [0, 0];
        for chain in chains {
            let (Some(is_away), Some(scores)) = (parts.is_away(chain), &chain.scores) else {
                continue;
            };
            counts[usize::from(is_away)] += 1;
            let next = numbers.len();
            let problem = *numbers.entry(chain.problem).or_insert(next);
            let labelled = scores.iter().zip(&chain.labels);
            steps.extend(labelled.filter_map(|(&score, label)| {
                // A label of one half does not say whether the step is right, so the step is left out.
                let label = label.filter(|&label| label != 0.5)?;
                Some(Step {
                    score,
                    is_right: label > 0.5,
                    problem,
                    is_away,
                })
            }));
        }
        // The area needs rising scores. One sort serves all bootstrap samples.
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
            // The bootstrap gives no interval if the difference is equal in all samples (both areas are 1, say) and
            // no problem has chains in both parts. The two areas are independent then.
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

/// Returns the interval of the difference of two independent figures, computed from their intervals by method 10 of
/// Newcombe, "Interval estimation for the difference between independent proportions" (1998).
fn newcombe(home: Figure, away: Figure) -> Option<(f64, f64)> {
    let (home_low, home_high) = home.interval?;
    let (away_low, away_high) = away.interval?;
    let difference = away.value - home.value;
    let below = (away.value - away_low).hypot(home_high - home.value);
    let above = (away_high - away.value).hypot(home.value - home_low);
    Some((difference - below, difference + above))
}

/// Counts the chains of each kind; chains without one are left out.
fn kinds(
    chains: &[ScoredChain],
    kind: fn(&ScoredChain) -> Option<&String>,
) -> BTreeMap<&String, usize> {
    let mut kinds = BTreeMap::new();
    for kind in chains.iter().filter_map(kind) {
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

fn by_generator(chains: &[ScoredChain]) -> Option<Parts> {
    fn kind(chain: &ScoredChain) -> Option<&String> {
        chain.generator.as_ref()
    }
    let mut kinds: Vec<(&String, usize)> = kinds(chains, kind).into_iter().collect();
    // The map is sorted by name and the sort is stable, so in a tie the first name is `home`.
    kinds.sort_by_key(|&(_, count)| Reverse(count));
    let mut names = kinds.into_iter().map(|(name, _)| name.clone());
    let home = vec![names.next()?];
    let away: Vec<String> = names.collect();
    (!away.is_empty()).then_some(Parts { kind, home, away })
}

fn by_level(chains: &[ScoredChain]) -> Option<Parts> {
    fn kind(chain: &ScoredChain) -> Option<&String> {
        chain.level.as_ref()
    }
    let mut levels: Vec<&String> = kinds(chains, kind).into_keys().collect();
    // Levels are sorted by number, since as text "Level 10" precedes "Level 2".
    levels.sort_by_key(|level| (number(level), *level));
    let lower = levels.len().div_ceil(2);
    let mut home: Vec<String> = levels.into_iter().cloned().collect();
    let away = home.split_off(lower);
    (!away.is_empty()).then_some(Parts { kind, home, away })
}

/// Returns the first number in the name of a level. `None` sorts first, so levels without a number count as the
/// lowest.
fn number(level: &str) -> Option<u64> {
    let from = level.find(|c: char| c.is_ascii_digit())?;
    let digits = level[from..].split(|c: char| !c.is_ascii_digit()).next();
    digits?.parse().ok()
}
