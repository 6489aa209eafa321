//! Profiles of searches without their texts: histograms and counts, and the drift between two profiles.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::Record;

/// A number that each search has, and the buckets in which a [`Profile`] counts it.
#[derive(Debug)]
pub struct Quantity {
    /// The name in files, metrics and tables.
    pub name: &'static str,
    /// The meaning in a few words.
    pub help: &'static str,
    /// The upper bounds of the buckets, each inclusive; a last bucket has no bound.
    pub bounds: &'static [f64],
    /// Returns the number of a search; `None` if it has none.
    value: fn(&Record) -> Option<f64>,
}

const SHARES: &[f64] = &[
    0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99,
    0.999,
];
const STEPS: &[f64] = &[
    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0, 48.0,
];

/// All quantities of a profile. One more is one more row.
pub const QUANTITIES: &[Quantity] = &[
    Quantity {
        name: "score",
        help: "score of the chosen chain",
        bounds: SHARES,
        value: |record| record.score.map(f64::from),
    },
    Quantity {
        name: "margin",
        help: "weight of the chosen answer less that of the second, as a share of all weights",
        bounds: SHARES,
        value: margin,
    },
    Quantity {
        name: "agreement",
        help: "share of the votes that the chosen answer has",
        bounds: SHARES,
        value: agreement,
    },
    Quantity {
        name: "steps",
        help: "steps of the chosen chain",
        bounds: STEPS,
        value: |record| Some(record.steps.len() as f64),
    },
    Quantity {
        name: "low_steps",
        help: "share of the chosen chain's steps that score below 0.5",
        bounds: SHARES,
        value: low_steps,
    },
];

/// A property that a search has or has not.
#[derive(Debug)]
pub struct Flag {
    /// The name in files, metrics and tables.
    pub name: &'static str,
    /// The meaning in a few words.
    pub help: &'static str,
    is_set: fn(&Record) -> bool,
}

/// All flags of a profile. One more is one more row.
pub const FLAGS: &[Flag] = &[
    Flag {
        name: "withheld_score",
        help: "answer withheld because its chain scores below the threshold",
        is_set: |record| record.withheld.is_some() && record.unsound.is_none(),
    },
    Flag {
        name: "withheld_unsound",
        help: "answer withheld because its chain is unsound",
        is_set: |record| record.withheld.is_some() && record.unsound.is_some(),
    },
    Flag {
        name: "no_answer",
        help: "no finished chain has an answer",
        is_set: |record| {
            record.answer.is_none() && record.withheld.is_none() && record.error.is_none()
        },
    },
    Flag {
        name: "failed",
        help: "the search failed",
        is_set: |record| record.error.is_some(),
    },
    Flag {
        name: "guess",
        help: "nothing marks the answer as the answer",
        is_set: |record| record.guess,
    },
    Flag {
        name: "unfinished",
        help: "the chosen chain was cut off at a limit",
        is_set: |record| {
            let ended = ["answer", "end-of-text", "stop"];
            record.error.is_none() && !ended.contains(&record.finish.as_str())
        },
    },
    Flag {
        name: "unsound",
        help: "the chosen chain has a step that is known to be wrong",
        is_set: |record| record.unsound.is_some(),
    },
];

fn margin(record: &Record) -> Option<f64> {
    let weights = record.answers.iter().map(|answer| answer.weight);
    let all: f64 = weights.clone().sum();
    let chosen = record.answers.first()?.weight;
    let second = weights.skip(1).fold(0.0, f64::max);
    (all > 0.0).then(|| ((chosen - second) / all).max(0.0))
}

fn agreement(record: &Record) -> Option<f64> {
    let all: usize = record.answers.iter().map(|answer| answer.votes).sum();
    let chosen = record.answers.first()?.votes;
    (all > 0).then(|| chosen as f64 / all as f64)
}

fn low_steps(record: &Record) -> Option<f64> {
    let scores = record.steps.iter().filter_map(|step| step.score);
    let low = scores.clone().filter(|&score| score < 0.5).count();
    let all = scores.count();
    (all > 0).then(|| low as f64 / all as f64)
}

/// The counts of many searches: for each of [`QUANTITIES`] a histogram, for each of [`FLAGS`] a number. It has no texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The number of searches.
    pub searches: u64,
    /// The count of each bucket, by the name of the quantity.
    pub histograms: BTreeMap<String, Vec<u64>>,
    /// The sum of the values, by the name of the quantity.
    pub sums: BTreeMap<String, f64>,
    /// The number of searches with each flag, by its name; flags that no search has are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: BTreeMap<String, u64>,
}

impl Profile {
    /// Counts a search.
    pub fn add(&mut self, record: &Record) {
        self.searches += 1;
        for quantity in QUANTITIES {
            if let Some(value) = (quantity.value)(record) {
                let counts = self.histograms.entry(quantity.name.to_owned()).or_default();
                counts.resize(quantity.bounds.len() + 1, 0);
                counts[quantity.bounds.partition_point(|&bound| bound < value)] += 1;
                *self.sums.entry(quantity.name.to_owned()).or_default() += value;
            }
        }
        for flag in FLAGS.iter().filter(|flag| (flag.is_set)(record)) {
            *self.flags.entry(flag.name.to_owned()).or_default() += 1;
        }
    }

    /// Adds the searches of another profile.
    pub fn merge(&mut self, other: &Self) {
        self.searches += other.searches;
        for (name, counts) in &other.histograms {
            let own = self.histograms.entry(name.clone()).or_default();
            own.resize(own.len().max(counts.len()), 0);
            for (own, count) in own.iter_mut().zip(counts) {
                *own += count;
            }
        }
        for (name, sum) in &other.sums {
            *self.sums.entry(name.clone()).or_default() += sum;
        }
        for (name, count) in &other.flags {
            *self.flags.entry(name.clone()).or_default() += count;
        }
    }

    /// Returns the count of each bucket of a quantity; zeros if no search has a value.
    pub fn counts(&self, quantity: &Quantity) -> Vec<u64> {
        let mut counts = self
            .histograms
            .get(quantity.name)
            .cloned()
            .unwrap_or_default();
        counts.resize(quantity.bounds.len() + 1, 0);
        counts
    }

    /// Returns the sum of a quantity's values.
    pub fn sum(&self, quantity: &Quantity) -> f64 {
        self.sums.get(quantity.name).copied().unwrap_or(0.0)
    }

    /// Returns the mean of a quantity; `None` if no search has a value.
    pub fn mean(&self, quantity: &Quantity) -> Option<f64> {
        let count: u64 = self.counts(quantity).iter().sum();
        (count > 0).then(|| self.sum(quantity) / count as f64)
    }

    /// Returns the share of the searches with a flag; 0 without searches.
    pub fn share(&self, flag: &Flag) -> f64 {
        let count = self.flags.get(flag.name).copied().unwrap_or(0);
        count as f64 / self.searches.max(1) as f64
    }

    /// Compares the searches of `self` with those of `reference`: one drift for each quantity and flag that both can
    /// be compared by.
    pub fn drift_from(&self, reference: &Self) -> Vec<Drift> {
        let of_quantities = QUANTITIES.iter().map(|quantity| {
            (
                quantity.name,
                reference.counts(quantity),
                self.counts(quantity),
            )
        });
        let two = |profile: &Self, flag: &Flag| {
            let count = profile.flags.get(flag.name).copied().unwrap_or(0);
            vec![profile.searches.saturating_sub(count), count]
        };
        let of_flags = FLAGS
            .iter()
            .map(|flag| (flag.name, two(reference, flag), two(self, flag)));
        of_quantities
            .chain(of_flags)
            .filter_map(|(name, before, now)| Drift::of(name, &before, &now))
            .collect()
    }
}

/// The distance between a quantity's distributions in two profiles, with the bounds above which it is no accident.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// The name of the quantity or of the flag.
    pub name: &'static str,
    /// The population stability index: the sum over buckets of (now - before) ln(now / before) of the shares, each
    /// count raised by one half so that no share is 0.
    pub psi: f64,
    /// The bound for `psi`: 0.25, the usual one for a major shift, or the value that two samples of one distribution
    /// exceed once in 1,000 times, if that is larger. Times n m / (n + m), `psi` is then distributed as chi-squared with
    /// a degree of freedom less than there are buckets (Yurdakul and Naranjo, *Statistical properties of the
    /// population stability index*, 2020).
    pub psi_bound: f64,
    /// The Kolmogorov-Smirnov statistic: the largest difference between the cumulative shares at a bucket's bound.
    pub ks: f64,
    /// The bound for `ks`: the value that two samples of one distribution exceed at most once in 1,000 times, and at
    /// least 0.1, since in large samples the smallest difference is significant.
    pub ks_bound: f64,
}

impl Drift {
    /// The number of searches that both profiles need.
    pub const LEAST: u64 = 30;

    /// Compares two histograms with the same buckets; `None` if one of them has fewer than [`LEAST`](Self::LEAST)
    /// values.
    fn of(name: &'static str, before: &[u64], now: &[u64]) -> Option<Self> {
        let (n, m): (u64, u64) = (before.iter().sum(), now.iter().sum());
        if n.min(m) < Self::LEAST {
            return None;
        }
        // Buckets that are empty in both samples say nothing, and would raise the bound.
        let buckets = || {
            before
                .iter()
                .zip(now)
                .filter(|(before, now)| **before + **now > 0)
        };
        let used = buckets().count() as f64;
        let share = |count: u64, all: u64| (count as f64 + 0.5) / (all as f64 + used / 2.0);
        let psi = buckets()
            .map(|(&before, &now)| (share(before, n), share(now, m)))
            .map(|(before, now)| (now - before) * (now / before).ln())
            .sum();
        let (mut ks, mut below) = (0f64, (0, 0));
        for (&before, &now) in buckets() {
            below = (below.0 + before, below.1 + now);
            ks = ks.max((below.0 as f64 / n as f64 - below.1 as f64 / m as f64).abs());
        }
        let spread = 1.0 / n as f64 + 1.0 / m as f64;
        Some(Self {
            name,
            psi,
            psi_bound: (chi_squared_999(used - 1.0) * spread).max(0.25),
            ks,
            // The 0.999 quantile of Kolmogorov's distribution.
            ks_bound: (1.949 * spread.sqrt()).max(0.1),
        })
    }

    /// Whether a statistic exceeds its bound.
    pub fn is_alarm(&self) -> bool {
        self.psi > self.psi_bound || self.ks > self.ks_bound
    }
}

/// Returns the 0.999 quantile of chi-squared with `degrees` degrees of freedom, by the approximation of Wilson and
/// Hilferty (1931), which is off by less than 3 % for 2 degrees or more; 10.83 for one; 0 for none.
fn chi_squared_999(degrees: f64) -> f64 {
    if degrees < 1.0 {
        return 0.0;
    }
    if degrees < 2.0 {
        return 10.83;
    }
    let nine = 2.0 / (9.0 * degrees);
    degrees * (1.0 - nine + 3.0902 * nine.sqrt()).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::SplitMix;

    fn record(line: serde_json::Value) -> Record {
        serde_json::from_value(line).unwrap()
    }

    fn searched(score: f64, votes: [u64; 2]) -> Record {
        let answer = |answer: &str, votes: u64| serde_json::json!({"answer": answer, "votes": votes, "weight": votes as f64 * score, "score": score, "node": 1});
        record(serde_json::json!({
            "id": "1", "answer": "7", "correct": null, "score": score, "finish": "answer",
            "steps": [{"text": "a", "score": score}, {"text": "b", "score": 0.4}],
            "answers": [answer("7", votes[0]), answer("8", votes[1])],
            "ledger": {"prompt_tokens": 0, "generated_tokens": 1, "scored_tokens": 1, "reused_tokens": 0,
                "forward_passes": 1, "peak_kv_bytes": 0, "seconds": 0.0},
        }))
    }

    #[test]
    fn a_search_falls_into_its_buckets() {
        let mut profile = Profile::default();
        profile.add(&searched(0.9, [7, 1]));
        let mut withheld = searched(0.3, [2, 2]);
        withheld.withheld = withheld.answer.take();
        withheld.guess = true;
        withheld.finish = "step-cap".to_owned();
        profile.add(&withheld);
        let bucket = |name: &str| {
            let quantity = QUANTITIES.iter().find(|of| of.name == name).unwrap();
            let counts = profile.counts(quantity);
            let bounds = quantity.bounds.iter().chain(&[f64::INFINITY]);
            let used = counts.iter().zip(bounds).filter(|(count, _)| **count > 0);
            used.map(|(&count, &bound)| (count, bound))
                .collect::<Vec<_>>()
        };
        assert_eq!(bucket("score"), [(1, 0.4), (1, 0.9)]);
        assert_eq!(bucket("margin"), [(1, 0.01), (1, 0.8)]);
        assert_eq!(bucket("agreement"), [(1, 0.5), (1, 0.9)]);
        assert_eq!(bucket("steps"), [(2, 2.0)]);
        assert_eq!(bucket("low_steps"), [(1, 0.5), (1, f64::INFINITY)]);
        let flags: Vec<_> = profile
            .flags
            .iter()
            .map(|(name, &count)| (name.as_str(), count))
            .collect();
        assert_eq!(
            flags,
            [("guess", 1), ("unfinished", 1), ("withheld_score", 1)]
        );
        let mut twice = profile.clone();
        twice.merge(&profile);
        assert_eq!((twice.searches, twice.flags["guess"]), (4, 2));
        let text = serde_json::to_string(&twice).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), twice);
    }

    #[test]
    fn statistics_have_the_values_of_their_formulas() {
        // Shares with the half added: 10.5/41, 30.5/41 before and 30.5/41, 10.5/41 now.
        let drift = Drift::of("x", &[10, 0, 30], &[30, 0, 10]).unwrap();
        let (low, high) = (10.5f64 / 41.0, 30.5f64 / 41.0);
        let psi = (high - low) * (high / low).ln() + (low - high) * (low / high).ln();
        assert!((drift.psi - psi).abs() < 1e-12, "{drift:?}");
        assert_eq!(drift.ks, 0.5);
        assert!((drift.psi_bound - 10.83 * (1.0 / 20.0)).abs() < 1e-9);
        assert!((drift.ks_bound - 1.949 * (1.0f64 / 20.0).sqrt()).abs() < 1e-9);
        assert!(drift.is_alarm());
        assert_eq!(Drift::of("x", &[29], &[1000]), None);
        // Tables give 13.82, 29.59 and 59.70 for 2, 10 and 30 degrees.
        for (degrees, quantile) in [(2.0, 13.816), (10.0, 29.588), (30.0, 59.703)] {
            let approximate = chi_squared_999(degrees);
            assert!((approximate / quantile - 1.0).abs() < 0.03, "{approximate}");
        }
    }

    #[test]
    fn samples_of_one_distribution_raise_no_alarm_and_shifted_ones_do() {
        let mut random = SplitMix::new(7);
        let mut sample = |searches: usize, power: f64| {
            let mut profile = Profile::default();
            for _ in 0..searches {
                let score = (random.below(1 << 20) as f64 / f64::from(1 << 20)).powf(power);
                profile.add(&searched(score, [1 + (score * 15.0) as u64, 1]));
            }
            profile
        };
        let mut alarms = 0;
        for searches in [40, 500, 5000] {
            for _ in 0..40 {
                let (reference, now) = (sample(500, 0.3), sample(searches, 0.3));
                let drifts = now.drift_from(&reference);
                alarms += usize::from(drifts.iter().any(Drift::is_alarm));
            }
        }
        // 120 comparisons of five quantities: two exceed a bound of one in 1,000 with a chance of 12 %.
        assert!(alarms <= 2, "{alarms} false alarms");
        let drifts = sample(300, 1.0).drift_from(&sample(500, 0.3));
        let score = drifts.iter().find(|drift| drift.name == "score").unwrap();
        assert!(score.is_alarm(), "{score:?}");
    }
}
