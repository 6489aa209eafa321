//! Each measure against a plain reference, and what the bootstrap resamples.

use proptest::prelude::*;

use super::*;

/// A chain of problem `problem`: label and score of each step; lengths are 1, 2, 3...
fn chain(problem: u32, steps: &[(f64, f32)]) -> ScoredChain {
    ScoredChain {
        id: "c".to_owned(),
        problem,
        labels: steps.iter().map(|&(label, _)| Some(label)).collect(),
        scores: Some(steps.iter().map(|&(_, score)| score).collect()),
        lengths: (1..=steps.len() as u32).collect(),
        ..ScoredChain::default()
    }
}

fn value(chains: &[ScoredChain], of: Measure) -> Option<f64> {
    View::new(chains, 0.5, |_| true).values_once()[of as usize]
}

fn close(got: Option<f64>, want: f64) {
    assert!(
        got.is_some_and(|got| (got - want).abs() < 1e-9),
        "{got:?}, wanted {want}"
    );
}

/// Two problems: one with a chain of which the second step is wrong and found, one with a right
/// chain that is flagged at its last step.
fn two() -> Vec<ScoredChain> {
    vec![
        chain(0, &[(1.0, 0.9), (0.0, 0.2), (1.0, 0.6)]),
        chain(1, &[(1.0, 0.7), (1.0, 0.4)]),
    ]
}

#[test]
fn every_measure_of_two_chains_is_that_computed_by_hand() {
    let figure = |measure| value(&two(), measure);
    close(figure(Measure::OnWrong), 1.0);
    close(figure(Measure::OnRight), 0.0);
    close(figure(Measure::FirstErrorF1), 0.0);
    close(figure(Measure::FirstErrorFlagged), 1.0);
    // Right steps: 3 of 4 kept, none wrongly. Wrong: the one of 1 flagged, 1 flagged wrongly.
    close(figure(Measure::F1Right), 2.0 * 3.0 / (2.0 * 3.0 + 1.0));
    close(figure(Measure::F1Wrong), 2.0 / 3.0);
    close(figure(Measure::PrmScore), 0.5 * (6.0 / 7.0 + 2.0 / 3.0));
    close(figure(Measure::BalancedAccuracy), 0.5 * (0.75 + 1.0));
    close(figure(Measure::Auc), 1.0);
    let squares = [0.1, 0.2, 0.4, 0.3, 0.6_f64].map(|apart| apart * apart);
    let near = |got: Option<f64>, want: f64| {
        // The scores are f32.
        assert!(
            got.is_some_and(|got| (got - want).abs() < 1e-6),
            "{got:?}, wanted {want}"
        );
    };
    near(figure(Measure::Brier), squares.iter().sum::<f64>() / 5.0);
    // Every score is alone in its bin, of either kind.
    near(
        figure(Measure::EceWidth),
        (0.1 + 0.2 + 0.4 + 0.3 + 0.6) / 5.0,
    );
    near(
        figure(Measure::EceMass),
        (0.1 + 0.2 + 0.4 + 0.3 + 0.6) / 5.0,
    );
    near(
        figure(Measure::Certainty),
        (0.4 + 0.3 + 0.1 + 0.2 + 0.1) / 5.0,
    );
    let entropy = |p: f64| -p * p.log2() - (1.0 - p) * (1.0 - p).log2();
    let bits = [0.9, 0.2, 0.6, 0.7, 0.4].map(entropy).iter().sum::<f64>() / 5.0;
    near(figure(Measure::Entropy), bits);
    close(figure(Measure::OutcomeDrift), 0.5);
    // Right steps: scores 0.9, 0.6, 0.7, 0.4 of lengths 1, 3, 1, 2, about their means 0.65 and
    // 1.75.
    let xy = 0.25 * -0.75 + -0.05 * 1.25 + 0.05 * -0.75 + -0.25 * 0.25;
    let xx: f64 = 0.25 * 0.25 + 0.05 * 0.05 + 0.05 * 0.05 + 0.25 * 0.25;
    let yy: f64 = 0.75 * 0.75 + 1.25 * 1.25 + 0.75 * 0.75 + 0.25 * 0.25;
    near(figure(Measure::LengthRight), xy / (xx * yy).sqrt());
    assert_eq!(figure(Measure::LengthWrong), None, "a single wrong step");
}

#[test]
fn equal_scores_count_half_and_equal_minima_are_no_drift() {
    let tied = [chain(0, &[(1.0, 0.5), (0.0, 0.5)])];
    close(value(&tied, Measure::Auc), 0.5);
    close(value(&tied, Measure::OutcomeDrift), 0.0);
    // Of the four pairs two are in order, one is tied, one is the wrong way round.
    let some = [chain(0, &[(1.0, 0.5), (0.0, 0.5), (1.0, 0.3), (0.0, 0.2)])];
    close(value(&some, Measure::Auc), 2.5 / 4.0);
}

#[test]
fn with_one_class_missing_its_figures_have_no_value() {
    let right = [chain(0, &[(1.0, 0.9), (1.0, 0.2)]), chain(1, &[(1.0, 0.8)])];
    for of in [
        Measure::Auc,
        Measure::F1Wrong,
        Measure::PrmScore,
        Measure::BalancedAccuracy,
        Measure::OnWrong,
        Measure::FirstErrorF1,
        Measure::FirstErrorFlagged,
        Measure::LengthWrong,
    ] {
        assert_eq!(value(&right, of), None, "{of:?}");
    }
    close(value(&right, Measure::OnRight), 0.5);
    close(
        value(&right, Measure::F1Right),
        2.0 * 2.0 / (2.0 * 2.0 + 1.0),
    );
    assert!(View::new(&right, 0.5, |_| true).roc().is_empty());
    let nothing: [ScoredChain; 0] = [];
    assert!(Measure::ALL.iter().all(|&of| value(&nothing, of).is_none()));
}

#[test]
fn one_chain_alone_has_figures_and_no_interval() {
    let figures = measure(&two()[..1], 0.5, 0);
    let auc = figures.get(Measure::Auc).unwrap();
    assert_eq!((auc.value, auc.interval), (1.0, None));
}

#[test]
fn steps_without_a_class_count_for_what_needs_none() {
    let mut half = chain(0, &[(1.0, 0.9), (0.5, 0.5), (0.0, 0.1)]);
    assert_eq!(half.first_error(), None);
    let counts = View::new([&half], 0.5, |_| true).counts();
    assert_eq!(
        (
            counts.steps,
            counts.right,
            counts.wrong,
            counts.first_errors
        ),
        (3, 1, 1, 0)
    );
    half.labels[1] = None;
    let view = View::new([&half], 0.5, |_| true);
    assert_eq!(view.counts().steps, 2);
    half.labels = vec![Some(1.0), Some(0.0), None];
    assert_eq!(half.first_error(), Some(Some(1)));
    half.labels = vec![Some(1.0), Some(0.75), Some(1.0)];
    assert_eq!(half.first_error(), Some(None));
}

/// `PRMBench` asks whether the first wrong step is flagged, `ProcessBench` whether it is the first one
/// flagged. A refused chain is a miss of both, on either side, and has no scored step.
#[test]
fn refused_chains_and_early_flags_are_misses() {
    let mut chains = vec![
        chain(0, &[(1.0, 0.1), (0.0, 0.1)]),
        chain(1, &[(0.0, 0.1)]),
        chain(2, &[(1.0, 0.9)]),
    ];
    close(value(&chains, Measure::OnWrong), 0.5);
    close(value(&chains, Measure::FirstErrorFlagged), 1.0);
    for at in [1, 2] {
        chains[at].scores = None;
    }
    close(value(&chains, Measure::OnWrong), 0.0);
    close(value(&chains, Measure::FirstErrorFlagged), 0.5);
    close(value(&chains, Measure::OnRight), 0.0);
    let counts = View::new(&chains, 0.5, |_| true).counts();
    assert_eq!((counts.chains, counts.refused, counts.steps), (3, 2, 2));
}

/// Ten copies of a chain under its problem's number say no more than one; under ten numbers they
/// say more.
#[test]
fn chains_of_one_problem_are_drawn_together() {
    let once: Vec<ScoredChain> = (0..40)
        .map(|at| chain(at, &[(1.0, 0.9), (f64::from(at % 3 % 2), 0.6)]))
        .collect();
    let again = |number: &dyn Fn(u32, u32) -> u32| -> Vec<ScoredChain> {
        let copies = (0..10).flat_map(|copy| once.iter().map(move |chain| (copy, chain.clone())));
        copies
            .map(|(copy, chain)| ScoredChain {
                problem: number(copy, chain.problem),
                ..chain
            })
            .collect()
    };
    let width = |chains: &[ScoredChain]| {
        let brier = measure(chains, 0.5, 7).get(Measure::Brier).unwrap();
        let (low, high) = brier.interval.unwrap();
        (brier.value, high - low)
    };
    let (value, alone) = width(&once);
    let (of_copies, together) = width(&again(&|_, problem| problem));
    assert!((value - of_copies).abs() < 1e-12 && (alone - together).abs() < 1e-12);
    let (_, apart) = width(&again(&|copy, problem| 100 * copy + problem));
    assert!(apart < 0.5 * alone, "{apart} {alone}");
}

#[test]
fn bins_hold_equal_widths_or_equal_numbers() {
    let scores = [0.0, 0.05, 0.1, 0.95, 1.0];
    assert_eq!(Binning::EqualWidth.bins(&scores), [0, 0, 1, 9, 9]);
    let rising: Vec<f32> = (0..20_u8).map(|i| f32::from(i) / 40.0).collect();
    let pairs: Vec<u8> = (0..20).map(|i| i / 2).collect();
    assert_eq!(Binning::EqualMass.bins(&rising), pairs);
    // Equal scores are not torn apart.
    assert_eq!(Binning::EqualMass.bins(&[0.2; 7]), [0; 7]);
    let chains = [
        chain(0, &[(1.0, 0.2), (0.0, 0.2), (1.0, 0.8)]),
        chain(1, &[(0.0, 0.8)]),
    ];
    let bins = View::new(&chains, 0.5, |_| true).calibration(Binning::EqualWidth, 0);
    let of: Vec<(usize, f64)> = bins
        .iter()
        .map(|bin| (bin.steps, bin.label.value))
        .collect();
    assert_eq!(of, [(2, 0.5), (2, 0.5)]);
    let wide = value(&chains, Measure::EceWidth);
    assert!(wide.is_some_and(|ece| (ece - 0.3).abs() < 1e-6), "{wide:?}");
}

#[test]
fn baselines_know_the_prior_the_length_and_the_position() {
    let mut chains = vec![
        chain(0, &[(1.0, 0.0), (0.0, 0.0)]),
        chain(1, &[(1.0, 0.0), (1.0, 0.0)]),
    ];
    let scores = |baseline: Baseline, chains: &[ScoredChain]| -> Vec<Vec<f32>> {
        let scored = baseline.score(chains);
        scored
            .into_iter()
            .filter_map(|chain| chain.scores)
            .collect()
    };
    assert_eq!(scores(Baseline::Prior, &chains), [[0.75; 2], [0.75; 2]]);
    assert_eq!(
        scores(Baseline::Position, &chains),
        [[1.0, 0.5], [1.0, 0.5]]
    );
    // Lengths are 1 and 2 in both, so they tell the same.
    assert_eq!(scores(Baseline::Length, &chains), [[1.0, 0.5], [1.0, 0.5]]);
    chains[1].scores = None;
    assert_eq!(scores(Baseline::Prior, &chains), [[0.5; 2]]);
    let prior = Baseline::Prior.score(&two());
    close(value(&prior, Measure::Auc), 0.5);
    close(value(&prior, Measure::F1Wrong), 0.0);
    assert!(value(&prior, Measure::EceWidth).is_some_and(|ece| ece < 1e-6));
}

#[test]
fn f1_is_the_harmonic_mean_of_the_two_shares() {
    let (right, wrong) = ([(1.0, 0.9)], [(0.0, 0.1)]);
    let (flagged, missed) = ([(1.0, 0.1)], [(0.0, 0.9)]);
    let chains_of_kinds = |kinds: &[&[(f64, f32)]]| -> Vec<ScoredChain> {
        (0..)
            .zip(kinds)
            .map(|(at, steps)| chain(at, steps))
            .collect()
    };
    let chains = chains_of_kinds(&[
        &wrong, &missed, &wrong, &missed, &right, &flagged, &right, &right,
    ]);
    close(value(&chains, Measure::OnWrong), 0.5);
    close(value(&chains, Measure::OnRight), 0.75);
    close(value(&chains, Measure::FirstErrorF1), 0.6);
    let none = chains_of_kinds(&[&missed, &flagged]);
    close(value(&none, Measure::FirstErrorF1), 0.0);
    assert_eq!(
        value(&chains_of_kinds(&[&right]), Measure::FirstErrorF1),
        None
    );
}

#[test]
fn the_best_threshold_is_the_lowest_of_the_best() {
    let chains = [chain(0, &[(0.0, 0.205)]), chain(1, &[(1.0, 0.405)])];
    let best = Best::first_error_f1(&chains).unwrap();
    assert_eq!((best.threshold, best.value), (0.21, 1.0));
    let best = View::new(&chains, 0.5, |_| true).best_f1_wrong().unwrap();
    assert_eq!((best.threshold, best.value), (0.21, 1.0));
    assert_eq!(Best::first_error_f1(&chains[..1]), None);
}

#[test]
fn the_curve_runs_from_corner_to_corner_through_every_score() {
    let view = View::new(
        &[chain(0, &[(0.0, 0.1), (1.0, 0.1), (0.0, 0.3), (1.0, 0.9)])],
        0.5,
        |_| true,
    );
    let points: Vec<(f64, f64)> = view
        .roc()
        .iter()
        .map(|p| (p.false_alarms, p.found))
        .collect();
    assert_eq!(points, [(0.0, 0.0), (0.5, 0.5), (0.5, 1.0), (1.0, 1.0)]);
    assert_eq!(view.histogram(10)[1], (1, 1));
}

#[test]
fn rows_that_do_not_fit_together_are_told() {
    let good = chain(0, &[(1.0, 0.5)]);
    assert_eq!(good.check(), Ok(()));
    let faulty = |change: &dyn Fn(&mut ScoredChain)| {
        let mut chain = good.clone();
        change(&mut chain);
        chain.check().unwrap_err().to_string()
    };
    assert!(faulty(&|c| c.lengths.clear()).contains("lengths"));
    assert!(faulty(&|c| c.scores = Some(vec![])).contains("scores"));
    assert!(faulty(&|c| c.labels[0] = Some(f64::NAN)).contains("labels"));
    assert!(faulty(&|c| c.scores = Some(vec![1.5])).contains("scores"));
}

fn chains() -> impl Strategy<Value = Vec<ScoredChain>> {
    let label = prop_oneof![
        2 => Just(None), 6 => Just(Some(1.0)), 4 => Just(Some(0.0)), 1 => Just(Some(0.5)),
        2 => (0.0..=1.0_f64).prop_map(Some)
    ];
    // Some scores are equal, and some are 0 or 1.
    let score = prop_oneof![(0..=4_u8).prop_map(|i| f32::from(i) / 4.0), 0.0..=1.0_f32];
    let steps = proptest::collection::vec((label, score, 1..40_u32), 1..6);
    let chain = (0..5_u32, steps, any::<Option<bool>>()).prop_map(|(problem, steps, refused)| {
        let scores = steps.iter().map(|&(_, score, _)| score).collect();
        ScoredChain {
            problem,
            labels: steps.iter().map(|&(label, _, _)| label).collect(),
            scores: (refused != Some(true)).then_some(scores),
            lengths: steps.iter().map(|&(_, _, length)| length).collect(),
            ..ScoredChain::default()
        }
    });
    proptest::collection::vec(chain, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn figures_are_finite_and_within_their_intervals(chains in chains()) {
        for scored in [chains.clone(), Baseline::Length.score(&chains), Baseline::Prior.score(&chains)] {
            for chain in &scored {
                prop_assert_eq!(chain.check(), Ok(()));
            }
            let figures = measure(&scored, 0.5, 3);
            for of in Measure::ALL {
                let Some(figure) = figures.get(of) else { continue };
                prop_assert!((-1.0..=1.0).contains(&figure.value), "{of:?} {figure:?}");
                let Some((low, high)) = figure.interval else { continue };
                prop_assert!(low <= figure.value && figure.value <= high, "{of:?} {figure:?}");
                prop_assert!(low.is_finite() && high.is_finite());
            }
        }
    }

}

proptest! {
    /// Every pair of a right and a wrong step, as the definition says.
    #[test]
    fn the_area_is_the_share_of_pairs_in_order(chains in chains()) {
        let steps: Vec<(f32, f64)> = chains
            .iter()
            .flat_map(|chain| chain.scores.iter().flatten().copied().zip(&chain.labels))
            .filter_map(|(score, &label)| Some((score, label?)))
            .collect();
        let right = steps.iter().filter(|step| step.1 > 0.5);
        let (mut pairs, mut in_order) = (0.0, 0.0);
        for above in right {
            for below in steps.iter().filter(|step| step.1 < 0.5) {
                pairs += 1.0;
                in_order += match above.0.total_cmp(&below.0) {
                    std::cmp::Ordering::Greater => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Less => 0.0,
                };
            }
        }
        if let Some(auc) = value(&chains, Measure::Auc) { prop_assert!((auc - in_order / pairs).abs() < 1e-9) } else { prop_assert_eq!(pairs, 0.0) }
    }
}
