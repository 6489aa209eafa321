//! The numbers of a bench's report, computed from the rows.

use beamgen::scorer::ScorerKind;
use serde::Serialize;

use super::against::{Answer, answers};
use super::allocation::{Allocation, allocation};
use super::compare::{Difference, difference};
use super::headline::Headline;
use super::measured::Measured;
use super::outline::Outline;
use super::over_n::OverN;
use super::pools::{PoolCurve, Pools};
use super::soundness::summary;
use super::summary::Summary;
use crate::rerank::Aggregated;

/// The numbers of a report in the form of `results.json`.
#[derive(Default, Serialize)]
pub(super) struct Report {
    /// The result of each set in short.
    pub headline: Vec<Headline>,
    pub summary: Vec<Summary>,
    pub against: Vec<Answer>,
    pub compare: Vec<Difference>,
    /// Accuracy and reward over N, for runs with several N.
    pub over_n: Vec<OverN>,
    pub pools: Vec<PoolCurve>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregated: Vec<Aggregated>,
    /// The curves of `pools` if right answers by unsound chains count as wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sound_pools: Vec<PoolCurve>,
    pub difficulty: Vec<Allocation>,
}

impl Report {
    pub(super) fn of(outline: &Outline, measured: &[Measured<'_>]) -> Self {
        let mut report = Self {
            summary: measured.iter().map(|cell| summary(cell, outline)).collect(),
            ..Self::default()
        };
        for (set, of) in outline.sets.iter().enumerate() {
            let cells: Vec<&Measured<'_>> =
                measured.iter().filter(|cell| cell.set == set).collect();
            report.add_set(outline, &of.name, &cells);
        }
        report
    }

    /// Adds the numbers of a set. `cells` has all cells of the outline in order, since `compare` indexes it.
    fn add_set(&mut self, outline: &Outline, set: &str, cells: &[&Measured<'_>]) {
        let (mut baseline, others): (Vec<&Measured<'_>>, Vec<&Measured<'_>>) = cells
            .iter()
            .copied()
            .partition(|cell: &&Measured<'_>| Some(&cell.cell.run) == outline.baseline.as_ref());
        self.headline.extend(Headline::of(set, cells));
        // The comparisons need the baseline's points sorted by N.
        baseline.sort_by_key(|cell| cell.n());
        self.against.extend(answers(set, &baseline, &others));
        for &(a, b) in &outline.compare {
            self.compare.push(difference(set, cells[a], cells[b]));
        }
        self.over_n.extend(OverN::all(set, cells));
        // The pools are built once for three tables: over k, aggregations, and soundness.
        let pools: Vec<Pools<'_, '_>> = cells.iter().filter_map(|cell| Pools::of(cell)).collect();
        self.pools.extend(pools.iter().map(|pool| pool.curve(set)));
        let aggregated = pools.iter().flat_map(|pool| pool.aggregated(set));
        self.aggregated.extend(aggregated);
        let sound = pools.iter().filter_map(Pools::sound);
        self.sound_pools.extend(sound.map(|pool| pool.curve(set)));
        // The difficulty of a problem is its pass rate, which the largest pool estimates best.
        if let Some(pool) = pools.iter().max_by_key(|pool| pool.samples_a_problem()) {
            let of = (pool.name(), pool.samples_a_problem());
            // The exact checker knows the answers, so it is an upper bound and not a choice.
            let choices: Vec<&Measured<'_>> = cells
                .iter()
                .filter(|cell| cell.cell.config.models.scorer != ScorerKind::Exact)
                .copied()
                .collect();
            self.difficulty
                .push(allocation(set, of, &pool.pass_rates(), &choices, &baseline));
        }
    }
}

#[cfg(test)]
mod tests {
    use beamgen::result::Ledger;
    use beamgen::{Choose, Config, StrategyKind};
    use proptest::prelude::*;

    use super::*;
    use crate::bench::markdown;
    use crate::bench::measured::measured;
    use crate::bench::outline::{Cell, SetOutline};
    use crate::bench::row::{Chains, Depths, Row};
    use crate::report::about::tests::this;
    use crate::report::markdown::figures;

    const PROBLEMS: std::ops::Range<usize> = 1..9;

    fn cell(run: &str, strategy: StrategyKind, choose: Choose, n: usize) -> Cell {
        let mut config = Config::default();
        config.search.strategy = strategy;
        config.search.choose = Some(choose);
        config.search.n = n;
        Cell {
            run: run.to_owned(),
            config,
        }
    }

    fn outline(problems: usize, seeds: u64) -> Outline {
        let (beam, best_of_n) = (StrategyKind::BEAM, StrategyKind::BEST_OF_N);
        let set = SetOutline {
            name: "set".to_owned(),
            source: "here".to_owned(),
            fingerprint: String::new(),
            ids: (0..problems).map(|i| i.to_string()).collect(),
        };
        Outline {
            seeds,
            sets: vec![set],
            cells: vec![
                cell("best", best_of_n, Choose::Best, 1),
                cell("best", best_of_n, Choose::Best, 4),
                cell("vote", best_of_n, Choose::Majority, 4),
                cell("beam", beam, Choose::Best, 4),
                cell("beam", beam, Choose::Best, 8),
            ],
            baseline: Some("best".to_owned()),
            compare: vec![(3, 1)],
            plots: Vec::new(),
        }
    }

    /// The random values of a row: whether it is right, its generated and scored tokens, and four bits for the right
    /// samples. 0 tokens mean a search that failed at once.
    type Values = (bool, u16, u16, u8);

    fn row(outline: &Outline, cell: usize, seed: u64, id: &str, values: Values) -> Row {
        let (correct, generated, scored, samples) = values;
        let of = &outline.cells[cell];
        let mut ledger = Ledger {
            generated_tokens: u64::from(generated),
            scored_tokens: u64::from(scored),
            ..Ledger::default()
        };
        ledger.seconds.generate = f64::from(generated) / 1000.0;
        let right = |i: u8| samples >> i & 1 == 1;
        let chains = Chains {
            right: (0..4).map(|i| if right(i) { '1' } else { '0' }).collect(),
            class: (0..4).map(|i| Some(u32::from(right(i)))).collect(),
            guess: String::new(),
            score: (0..4_u8).map(|i| Some(f32::from(i) / 4.0)).collect(),
            tokens: vec![u32::from(generated) / 4; 4],
            steps: (0..4_u8).map(|i| vec![f32::from(i) / 4.0, 0.5]).collect(),
            audit: String::new(),
        };
        Row {
            set: "set".to_owned(),
            run: of.run.clone(),
            n: of.n(),
            m: 1,
            scorer: of.config.models.scorer,
            seed,
            id: id.to_owned(),
            correct,
            any_right: Some(correct || samples & 15 > 0),
            answer: None,
            score: (samples > 9).then(|| f32::from(samples) / 255.0),
            finish: "answer".to_owned(),
            wall: ledger.seconds.generate,
            ledger,
            without_scores: false,
            audit: None,
            lost_verdicts: None,
            part: 0,
            depths: Depths::default(),
            chains: (cell == 1).then_some(chains),
        }
    }

    fn bench() -> impl Strategy<Value = (Outline, Vec<Row>)> {
        (PROBLEMS, 1..3_u64).prop_flat_map(|(problems, seeds)| {
            let outline = outline(problems, seeds);
            let count = outline.cells.len() * problems * seeds as usize;
            let tokens = || prop_oneof![1 => Just(0), 9 => 1..5000_u16];
            let values = (any::<bool>(), tokens(), tokens(), any::<u8>());
            proptest::collection::vec(values, count).prop_map(move |values| {
                let mut values = values.into_iter();
                let mut rows = Vec::new();
                for cell in 0..outline.cells.len() {
                    for id in &outline.sets[0].ids {
                        for seed in 0..seeds {
                            let values = values.next().unwrap();
                            rows.push(row(&outline, cell, seed, id, values));
                        }
                    }
                }
                (outline.clone(), rows)
            })
        })
    }

    /// If all searches fail at once, all costs are 0 and ratios of costs are not defined.
    #[test]
    fn a_bench_that_spent_nothing_has_no_shares_of_its_cost() {
        let outline = outline(1, 1);
        let rows: Vec<Row> = (0..outline.cells.len())
            .map(|cell| row(&outline, cell, 0, "0", (false, 0, 0, 0)))
            .collect();
        let measured = measured(&outline, &rows, "rows".as_ref()).unwrap();
        let report = Report::of(&outline, &measured);
        let text = markdown::text(&this(), &outline, &report, &[]);
        assert!(
            text.contains("| -79.3 to +79.3 | - | - | - |") && !text.contains("NaN"),
            "{text}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn no_figure_is_printed_outside_its_own_interval((outline, rows) in bench()) {
            let measured = measured(&outline, &rows, "rows".as_ref()).unwrap();
            let report = Report::of(&outline, &measured);
            let text = markdown::text(&this(), &outline, &report, &[]);
            for word in ["\u{221e}", "NaN", "inf)", "inf ", "null"] {
                prop_assert!(!text.contains(word), "{word} in {text}");
            }
            let figures = figures(&text);
            // The table of the pool has twelve figures, even if all costs are 0.
            prop_assert!(figures.len() >= 12, "{text}");
            for (figure, low, high) in figures {
                prop_assert!(low <= figure && figure <= high, "{figure} {low} {high}: {text}");
            }
            for row in &report.summary {
                prop_assert!((row.accuracy_low..=row.accuracy_high).contains(&row.accuracy));
            }
            for fewer in report.against.iter().flat_map(|answer| &answer.fewer) {
                prop_assert!((fewer.low..=fewer.high).contains(&fewer.factor), "{fewer:?}");
                prop_assert!(fewer.factor.is_finite() && fewer.low.is_finite(), "{fewer:?}");
            }
            for budget in report.difficulty.iter().flat_map(|one| &one.budgets) {
                let (chosen, single) = (budget.chosen.accuracy, budget.single.accuracy);
                prop_assert!(chosen > single - 1e-9, "{budget:?}");
                for tokens in [budget.chosen.tokens, budget.single.tokens] {
                    prop_assert!(tokens < budget.tokens + 1e-6, "{budget:?}");
                }
            }
        }
    }
}
