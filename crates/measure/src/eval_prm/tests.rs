//! Tests of whole reports on random rows, for example that no figure is outside its interval.

use beamgen::eval::calibrate::{Method, PolicyName, Sample};
use beamgen::eval::quality::ScoredChain;
use proptest::prelude::*;

use super::markdown;
use super::outline::{Calibrated, Outline, SetOutline};
use super::results::SetReport;
use crate::report::about::tests::this;
use crate::report::markdown::figures;

fn text(rows: &[ScoredChain]) -> String {
    let samples = [(0.9, 1.0), (0.8, 0.0), (0.1, 0.0)].map(|(score, target)| Sample {
        score,
        target,
        weight: 1.0,
    });
    let map = Method::Platt.fit(&samples);
    let calibration = Calibrated {
        name: "`c|`".to_owned(),
        policy: PolicyName::default(),
        aggregation: beamgen::Aggregation::Min,
        map: map.expect("samples"),
    };
    let outline = Outline {
        model: "m|_<b>".to_owned(),
        threshold: 0.5,
        rule: beamgen_labels::LabelRule::default(),
        probes: None,
        sets: vec![SetOutline {
            name: "a|b".to_owned(),
            source: "`a|b`.jsonl".to_owned(),
            format: "own".to_owned(),
            rejected: 0,
        }],
        calibration: Some(calibration),
    };
    let map = outline.calibration.as_ref();
    let map = map.map(|of| (&of.map, of.aggregation));
    let set = SetReport::of("a|b", rows, 0.5, map);
    markdown::text(&this(), &outline, &[set], &[])
}

fn rows() -> impl Strategy<Value = Vec<ScoredChain>> {
    let label = prop_oneof![
        Just(None),
        Just(Some(1.0)),
        Just(Some(0.0)),
        Just(Some(0.25))
    ];
    let score = prop_oneof![(0..=4_u8).prop_map(|i| f32::from(i) / 4.0), 0.0..=1.0_f32];
    let steps = proptest::collection::vec((label, score, 1..40_u32), 1..4);
    let chain = (0..4_u32, steps, 0..5_u8, 0..3_u8).prop_map(|(problem, steps, refused, level)| {
        let scores = steps.iter().map(|&(_, score, _)| score).collect();
        ScoredChain {
            problem,
            labels: steps.iter().map(|&(label, _, _)| label).collect(),
            scores: (refused > 0).then_some(scores),
            lengths: steps.iter().map(|&(_, _, length)| length).collect(),
            level: (level > 0).then(|| format!("{level}|")),
            ..ScoredChain::default()
        }
    });
    proptest::collection::vec(chain, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn no_figure_is_printed_outside_its_own_interval(rows in rows()) {
        let text = text(&rows);
        for word in ["NaN", "inf)", "inf ", "null"] {
            prop_assert!(!text.contains(word), "{word} in {text}");
        }
        for (figure, low, high) in figures(&text) {
            prop_assert!(low <= figure && figure <= high, "{figure} {low} {high}: {text}");
        }
        // Every row of a table has as many cells as its head.
        let mut columns = None;
        for line in text.lines() {
            let cells = line.starts_with('|').then(|| line.matches(" | ").count());
            if let (Some(head), Some(cells)) = (columns, cells) {
                prop_assert!(line.starts_with("|---") || head == cells, "{line}");
            }
            columns = cells.filter(|_| !line.starts_with("|---")).or(columns.filter(|_| cells.is_some()));
        }
    }
}

#[test]
fn rows_without_any_score_make_a_report_of_dashes() {
    let row = ScoredChain {
        labels: vec![Some(1.0), Some(0.0)],
        lengths: vec![3, 4],
        ..ScoredChain::default()
    };
    let text = text(&[row]);
    assert!(text.contains("| ROC area | - | - | - | - |"), "{text}");
    assert!(
        text.contains("| on wrong, % | 0.0 | 0.0 | 0.0 | 0.0 |"),
        "{text}"
    );
    assert!(figures(&text).is_empty(), "{text}");
}
