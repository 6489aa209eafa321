//! Shifts: a model's ROC area on two parts of the data, such as chains of the usual generator and
//! of other generators. Nothing is changed.

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
    /// The name in files, such as `harder-level`.
    pub key: &'static str,
    /// The name in tables, in plain words.
    pub name: &'static str,
    /// The comparison in one sentence, for the reader of a report.
    pub about: &'static str,
    /// Splits the data; returns `None` if the data name fewer than two kinds.
    parts: fn(&[ScoredChain]) -> Option<Parts>,
}

/// Two parts of the data: the kind of a chain, and the kinds on either side.
struct Parts {
    kind: fn(&ScoredChain) -> Option<&String>,
    home: Vec<String>,
    away: Vec<String>,
}

impl Parts {
    /// Whether a chain is in the part away from home; `None` if it is in neither part.
    fn is_away(&self, chain: &ScoredChain) -> Option<bool> {
        let kind = (self.kind)(chain)?;
        Some(self.away.contains(kind)).filter(|is_away| *is_away || self.home.contains(kind))
    }
}

/// One part of the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The names of the generators or levels in this part.
    pub kinds: Vec<String>,
    /// The number of scored chains.
    pub chains: usize,
    /// The number of scored steps whose label is right or wrong.
    pub steps: usize,
    /// The ROC area over the steps; `None` if the steps are all right or all wrong.
    pub auc: Option<Figure>,
}

/// The report on one shift.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShiftReport {
    /// The shift's [`Shift::key`].
    pub key: &'static str,
    /// The shift's [`Shift::name`].
    pub name: &'static str,
    /// The part that the model is presumed to know: the usual generator, the lower levels.
    pub home: Side,
    /// The other part.
    pub away: Side,
    /// The ROC area away less the ROC area at home, on the same bootstrap samples of problems.
    pub difference: Option<Figure>,
    /// The verdict on the difference, by [`RULES`](super::RULES).
    pub verdict: Verdict,
}

struct Step {
    score: f32,
    is_right: bool,
    problem: usize,
    is_away: bool,
}

impl Shift {
    /// Compares the two parts; returns `None` if the data name fewer than two kinds. `seed` is the
    /// seed of the bootstrap.
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
                // A label of one half is undecided: it would count half for either class.
                let label = label.filter(|&label| label != 0.5)?;
                Some(Step {
                    score,
                    is_right: label > 0.5,
                    problem,
                    is_away,
                })
            }));
        }
        // Sorted once: the ROC area needs rising scores in each of the many bootstrap samples.
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
            // The bootstrap gives no interval if the difference is equal in all samples (both areas
            // are 1, say) and no problem has chains on both sides, as with levels.
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

/// Computes the interval of the difference of two independent figures from their own intervals:
/// method 10 of Newcombe, "Interval estimation for the difference between independent proportions"
/// (1998).
fn newcombe(home: Figure, away: Figure) -> Option<(f64, f64)> {
    let (home_low, home_high) = home.interval?;
    let (away_low, away_high) = away.interval?;
    let difference = away.value - home.value;
    let below = (away.value - away_low).hypot(home_high - home.value);
    let above = (away_high - away.value).hypot(home.value - home_low);
    Some((difference - below, difference + above))
}

/// Counts the chains of each kind.
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
    // The sort is stable and the map is sorted by name, so a tie goes to the first name.
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
    // By number first: as texts, "Level 10" would come before "Level 2".
    levels.sort_by_key(|level| (number(level), *level));
    let lower = levels.len().div_ceil(2);
    let mut home: Vec<String> = levels.into_iter().cloned().collect();
    let away = home.split_off(lower);
    (!away.is_empty()).then_some(Parts { kind, home, away })
}

/// Returns the first number in a level's name. `None` sorts first, so levels without a number are
/// the lowest.
fn number(level: &str) -> Option<u64> {
    let from = level.find(|c: char| c.is_ascii_digit())?;
    let digits = level[from..].split(|c: char| !c.is_ascii_digit()).next();
    digits?.parse().ok()
}
