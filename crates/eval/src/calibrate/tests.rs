use super::*;

fn sample(score: f64, target: f64) -> Sample {
    Sample {
        score,
        target,
        weight: 1.0,
    }
}

/// Pseudo-random numbers in `[0, 1)`.
fn draws(seed: u64) -> impl FnMut() -> f64 {
    let mut draw = crate::draw::SplitMix::new(seed);
    move || draw.below(1 << 32) as f64 / 2f64.powi(32)
}

#[test]
fn isotonic_pools_what_falls() {
    let samples = [(0.1, 0.0), (0.2, 0.5), (0.3, 0.3), (0.4, 0.9), (0.4, 0.7)];
    let map = Isotonic::fit(&samples.map(|(s, t)| sample(s, t))).unwrap();
    for (score, value) in [(0.0, 0.0), (0.1, 0.0), (0.2, 0.4), (0.25, 0.4), (0.3, 0.4)] {
        assert!((map.apply(score) - value).abs() < 1e-6, "{score}");
    }
    // A line between the blocks, and flat ends.
    assert!((map.apply(0.35) - 0.6).abs() < 1e-6);
    assert!((map.apply(0.9) - 0.8).abs() < 1e-6);
    assert!(Isotonic::fit(&[]).is_none());
}

#[test]
fn a_line_on_the_logit_is_found_again() {
    let mut draw = draws(1);
    let truth = |score: f64| logistic::sigmoid(0.5 * logistic::logit(score) - 1.0);
    let samples: Vec<Sample> = (0..20_000)
        .map(|_| {
            let score = draw();
            sample(score, f64::from(u8::from(draw() < truth(score))))
        })
        .collect();
    let map = Method::Platt.fit(&samples).unwrap();
    for score in [0.05f32, 0.5, 0.95] {
        let (found, wanted) = (map.apply(score), truth(f64::from(score)));
        assert!((f64::from(found) - wanted).abs() < 0.02, "{score}: {found}");
    }
    // Without the offset the logit of one half stays.
    let map = Method::Temperature.fit(&samples).unwrap();
    assert_eq!(map.apply(0.5), 0.5);
}

#[test]
fn maps_make_scores_better_probabilities_and_never_fall() {
    let mut draw = draws(2);
    let samples: Vec<Sample> = (0..4000)
        .map(|_| {
            let score = draw();
            let truth = logistic::sigmoid(2.0 * logistic::logit(score));
            sample(score, f64::from(u8::from(draw() < truth)))
        })
        .collect();
    let brier = |map: Option<&ScoreMap>| {
        let each = samples.iter().map(|sample| {
            let score = sample.score as f32;
            let score = f64::from(map.map_or(score, |map| map.apply(score)));
            (score - sample.target).powi(2)
        });
        each.sum::<f64>()
    };
    for method in Method::ALL {
        let map = method.fit(&samples).unwrap();
        assert!(brier(Some(&map)) < brier(None), "{}", method.name());
        let values: Vec<f32> = (0..=100).map(|i| map.apply(i as f32 / 100.0)).collect();
        assert!(values.is_sorted(), "{}", method.name());
        let text = serde_json::to_string(&map).unwrap();
        assert_eq!(serde_json::from_str::<ScoreMap>(&text).unwrap(), map);
    }
}

#[test]
fn the_quantile_head_reads_what_the_score_does_not_tell() {
    let mut draw = draws(3);
    // The score is no help; the second hidden value is how likely success is.
    let samples: Vec<HeadSample> = (0..4000)
        .map(|at| {
            let hidden = [draw() as f32, draw() as f32];
            let target = (f64::from(hidden[1]) + 0.2 * (draw() - 0.5)).clamp(0.0, 1.0);
            HeadSample {
                hidden: hidden.to_vec(),
                score: 0.5,
                lowest: 0.5,
                target,
                weight: 1.0,
                problem: at / 8,
            }
        })
        .collect();
    let head = QuantileHead::fit(&samples).unwrap();
    for value in [0.2f32, 0.5, 0.8] {
        let [low, median, high] = head.apply(&[0.5, value], 0.5, 0.5);
        assert!(low <= median && median <= high);
        assert!((median - value).abs() < 0.1, "{value}: {median}");
        assert!(high - low < 0.4, "{value}: {low} to {high}");
    }
    let below = |at: usize| {
        let hits = samples.iter().filter(|sample| {
            sample.target <= f64::from(head.apply(&sample.hidden, sample.score, 0.5)[at])
        });
        hits.count() as f64 / samples.len() as f64
    };
    for (at, level) in LEVELS.into_iter().enumerate() {
        assert!((below(at) - level).abs() < 0.08, "{level}: {}", below(at));
    }
}

#[test]
fn the_quantile_head_knows_that_an_early_mistake_is_not_made_good() {
    let mut draw = draws(4);
    // Two of three chains have a bad step behind them; this one looks good in all.
    let samples: Vec<HeadSample> = (0..3000)
        .map(|at| {
            let lost = at % 3 != 0;
            let share = 0.6 + 0.3 * draw();
            HeadSample {
                hidden: vec![draw() as f32],
                score: 0.99,
                lowest: if lost { 0.02 } else { 0.9 },
                target: if lost { 0.0 } else { share },
                weight: 8.0,
                problem: at / 8,
            }
        })
        .collect();
    let head = QuantileHead::fit(&samples).unwrap();
    let [_, median, high] = head.apply(&[0.5], 0.99, 0.02);
    // Targets below 1/32 count as 0.
    assert!(median < 0.04 && high < 0.04, "{median} {high}");
    let [low, median, high] = head.apply(&[0.5], 0.99, 0.9);
    for (value, wanted) in [(low, 0.63), (median, 0.75), (high, 0.87)] {
        assert!((value - wanted).abs() < 0.04, "{value}, not {wanted}");
    }
}

#[test]
fn the_pinball_loss_is_least_at_the_quantile() {
    let targets: Vec<f64> = (0..=100).map(|i| f64::from(i) / 100.0).collect();
    let loss = |value: f64| targets.iter().map(|t| pinball(0.9, value, *t)).sum::<f64>();
    assert!(loss(0.9) < loss(0.8) && loss(0.9) < loss(0.97));
}

#[test]
fn a_threshold_keeps_the_error_with_one_answer_to_spare() {
    let answers = (0..100).map(|i| {
        let score = i as f32 / 100.0;
        // Wrong below a quarter, and one wrong one above.
        (i != 7).then_some((score, i >= 25 && i != 60))
    });
    let curve = RiskCurve::of("s".into(), answers);
    assert_eq!(curve.problems, 100);
    let point = curve.point(0.05).unwrap();
    assert!((point.wrong + 1) as f64 <= 0.05 * (point.given + 1) as f64);
    assert!(point.given > 70, "{point:?}");
    assert!(point.risk() <= 0.05);
    assert_eq!(curve.point(0.0001), None);
    // Equal scores are given or withheld together.
    let ties = RiskCurve::of("s".into(), [Some((0.5, true)), Some((0.5, false)), None]);
    assert_eq!(ties.points.len(), 1);
    assert_eq!((ties.points[0].given, ties.points[0].wrong), (2, 1));
}
