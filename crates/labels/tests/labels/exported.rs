//! Tests that records which were exported are read back unchanged.

use std::collections::BTreeMap;

use beamgen_labels::{
    Checked, FORMATS, Format, LabelRule, LabelledChain, LabelledStep, Neutral, Policy, Rated,
    RolloutLabel, Rollouts, Source, parse,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Exports chains. Returns the records, and the reasons why some chains have none.
fn written(format: &str, chains: &[LabelledChain], rule: &LabelRule) -> (Vec<Value>, Vec<String>) {
    let format = Format::named(format).unwrap();
    let (mut records, mut refused) = (Vec::new(), Vec::new());
    for record in format.export(chains, rule).unwrap() {
        match record {
            Ok(record) => records.push(record),
            Err(reason) => refused.push(reason.to_string()),
        }
    }
    (records, refused)
}

fn again(records: &[Value]) -> Vec<LabelledChain> {
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    let read = parse(lines.as_bytes(), "f", None).unwrap();
    assert_eq!(read.rejected, []);
    read.chains
}

fn text() -> impl Strategy<Value = String> {
    // Texts are made of pieces, among them the tags and marks of the formats. One piece is not
    // blank.
    let piece = prop::sample::select(vec![
        "a",
        "+",
        "-",
        "\n",
        " ",
        "ä",
        "\"",
        "Step",
        ": ",
        "4.",
        "[",
        "\\frac{1}{2}",
    ]);
    prop::collection::vec(piece, 0..6).prop_map(|pieces| format!("x{}", pieces.concat()))
}

fn share() -> impl Strategy<Value = f64> {
    (0..=1000u32).prop_map(|n| f64::from(n) / 1000.0)
}

fn people() -> impl Strategy<Value = BTreeMap<String, Rated>> {
    let rated = (prop::option::of(-1i8..=1), prop::option::of(text()));
    let rated = rated.prop_map(|(rating, comment)| Rated { rating, comment });
    prop::collection::btree_map(text(), rated, 0..3)
}

fn verdicts() -> impl Strategy<Value = BTreeMap<String, Checked>> {
    let verdict = prop::option::of(text());
    let verdict = verdict.prop_map(|reason| reason.map_or(Checked::Pass, Checked::Fail));
    prop::collection::btree_map(text(), verdict, 0..3)
}

fn opinions() -> impl Strategy<Value = BTreeMap<String, f64>> {
    prop::collection::btree_map(text(), share(), 0..3)
}

fn step(alternatives: bool) -> BoxedStrategy<LabelledStep> {
    let rollouts = (
        0u32..9,
        0u32..9,
        0u32..3,
        prop::option::of(any::<u64>()),
        prop::option::of(policy()),
    )
        .prop_map(|(k, more, truncated, seed, policy)| Rollouts {
            n: k + more,
            k,
            truncated,
            seed,
            policy,
        });
    let others = if alternatives {
        prop::collection::vec(step(false), 0..3).boxed()
    } else {
        Just(Vec::new()).boxed()
    };
    let right = prop::option::of(any::<bool>());
    let share = || prop::option::of(self::share());
    (
        text(),
        prop::option::of(-1i8..=1),
        right,
        (share(), people(), verdicts(), opinions()),
        prop::option::of(rollouts),
        others,
    )
        .prop_map(
            |(text, rating, right, (soft, ratings, verdicts, opinions), rollouts, alternatives)| {
                LabelledStep {
                    text,
                    rating,
                    ratings,
                    right,
                    soft,
                    rollouts,
                    verdicts,
                    opinions,
                    alternatives,
                }
            },
        )
        .boxed()
}

fn policy() -> impl Strategy<Value = Policy> {
    let temperature = prop::option::of((0..200u32).prop_map(|t| f64::from(t) / 100.0));
    (text(), temperature).prop_map(|(generator, temperature)| Policy {
        generator,
        temperature,
    })
}

prop_compose! {
    fn chain()(
        steps in prop::collection::vec(step(true), 1..6),
        names in prop::collection::vec(prop::option::of(text()), 6),
        problem in text(),
        first_error in prop::option::of(-1i64..1),
        outcome in prop::option::of(any::<bool>()),
        policy in prop::option::of(policy()),
    ) -> LabelledChain {
        let name = |i: usize| names[i].clone();
        LabelledChain {
            id: name(0), problem, steps, first_error, outcome, answer: name(1), source: name(2),
            level: name(3), class: name(4), policy,
            rule: name(5).map(|name| Source::Rating(Some(name))).into_iter().collect(),
        }
    }
}

proptest! {
    #[test]
    fn the_own_format_is_read_as_it_was_written(chains in prop::collection::vec(chain(), 1..5)) {
        let (records, refused) = written("beamgen", &chains, &LabelRule::default());
        prop_assert!(refused.is_empty());
        prop_assert_eq!(again(&records), chains);
    }

    #[test]
    fn hard_labels_come_back_from_every_format(
        chains in prop::collection::vec(chain(), 1..5),
        first_error_only in any::<bool>(),
    ) {
        let rule = LabelRule { neutral: Neutral::Negative, rollouts: RolloutLabel::Hard, first_error_only, ..LabelRule::default() };
        // Every step gets a hard label here; another test is about soft labels.
        let chains: Vec<LabelledChain> = chains.into_iter().map(|mut chain| {
            chain.rule.clear();
            for step in &mut chain.steps {
                step.soft = None;
                step.ratings.clear();
                step.right = step.right.or(Some(false));
            }
            chain
        }).collect();
        for format in FORMATS.iter().filter(|format| format.writes()) {
            let (records, refused) = written(format.name, &chains, &rule);
            prop_assert!(refused.is_empty(), "{}: {:?}", format.name, refused);
            let read = again(&records);
            prop_assert_eq!(read.len(), chains.len());
            for (chain, read) in chains.iter().zip(&read) {
                let mut labels = rule.labels(chain);
                let last = labels.iter().rposition(Option::is_some).unwrap();
                labels.truncate(last + 1);
                let mut found = rule.labels(read);
                found.truncate(last + 1);
                prop_assert_eq!(&found, &labels, "{}", format.name);
                prop_assert_eq!(read.problem.trim(), chain.problem.trim());
            }
        }
    }
}

proptest! {
    /// Texts include blank lines, numbers of steps, tags, and white space at both ends.
    #[test]
    fn texts_come_back_from_every_format(
        problem in awkward(),
        texts in prop::collection::vec(awkward(), 1..5),
        numbered in any::<bool>(),
    ) {
        let text = |(i, text): (usize, &String)| if numbered { format!("Step {}: {text}", i + 1) } else { text.clone() };
        let texts: Vec<String> = texts.iter().enumerate().map(text).collect();
        let step = |text: &String| LabelledStep {
            right: Some(true),
            ..LabelledStep::unlabelled(text.clone())
        };
        let chain = LabelledChain {
            problem,
            steps: texts.iter().map(step).collect(),
            ..LabelledChain::default()
        };
        for format in FORMATS.iter().filter(|format| format.writes()) {
            let (records, refused) = written(format.name, std::slice::from_ref(&chain), &LabelRule::default());
            if let [reason] = &refused[..] {
                let cannot = reason.contains("has the tag") || reason.contains("exactly once");
                prop_assert!(format.name == "math-shepherd" && cannot, "{}: {reason}", format.name);
                continue;
            }
            let read = &again(&records)[0];
            let found: Vec<&str> = read.steps.iter().map(|step| step.text.as_str()).collect();
            prop_assert_eq!(&found, &texts, "{}", format.name);
            prop_assert_eq!(&read.problem, &chain.problem, "{}", format.name);
        }
    }
}

fn awkward() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "x", " ", "\n\n", "\n", "Step 1: ", "Step 2: ", "Step 3:", " ки", "ки", "+", "-",
    ]);
    let pieces = prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat());
    pieces.prop_filter("blank", |text| !text.trim().is_empty())
}

/// A file that another program wrote is exported byte by byte.
#[test]
fn a_foreign_file_of_numbered_steps_comes_back() {
    let input = "Two and two? Step 1: 2 + 2 = 4. ки\nStep 2: The answer is: 5 ки";
    let label = "Two and two? Step 1: 2 + 2 = 4. +\nStep 2: The answer is: 5 -";
    let chains = again(&[json!({"input": input, "label": label})]);
    assert_eq!(chains[0].steps[1].text, "The answer is: 5");
    let (records, _) = written("math-shepherd", &chains, &LabelRule::default());
    assert_eq!(
        (&records[0]["input"], &records[0]["label"]),
        (&json!(input), &json!(label))
    );
    // Numbers that belong to the texts are not doubled.
    let turns = json!([
        {"role": "user", "content": "Two? Step 1: a"}, {"role": "assistant", "content": "+"},
        {"role": "user", "content": "Step 2: b"}, {"role": "assistant", "content": "-"},
    ]);
    let chains = again(&[json!({"conversations": turns})]);
    let (records, _) = written("math-shepherd", &chains, &LabelRule::default());
    assert_eq!(
        records[0]["input"],
        json!("Two? Step 1: a ки\nStep 2: b ки")
    );
    assert_eq!(again(&records)[0].steps, chains[0].steps);
}

fn rated(ratings: &[Option<i8>]) -> LabelledChain {
    let steps = ratings.iter().map(|&rating| LabelledStep {
        rating,
        ..LabelledStep::unlabelled("a".to_owned())
    });
    LabelledChain {
        problem: "p".to_owned(),
        steps: steps.collect(),
        ..LabelledChain::default()
    }
}

#[test]
fn the_labels_of_a_trl_file_are_all_of_one_type() {
    let full = rated(&[Some(1), Some(0), Some(-1)]);
    let gap = rated(&[None, Some(-1), None]);
    let labels = |chains: &[LabelledChain], neutral| {
        let rule = LabelRule {
            neutral,
            ..LabelRule::default()
        };
        let (records, refused) = written("trl", chains, &rule);
        assert!(refused.is_empty());
        records
            .iter()
            .map(|record| record["labels"].clone())
            .collect::<Vec<_>>()
    };
    let alone = std::slice::from_ref(&full);
    assert_eq!(
        labels(alone, Neutral::Positive),
        [json!([true, true, false])]
    );
    assert_eq!(labels(alone, Neutral::Drop), [json!([1, -100, 0])]);
    assert_eq!(labels(alone, Neutral::Half), [json!([1.0, 0.5, 0.0])]);
    // The steps after the last label are not exported.
    let both = labels(&[full, gap], Neutral::Positive);
    assert_eq!(both, [json!([1, 1, 0]), json!([-100, 0])]);
}

#[test]
fn what_a_format_cannot_hold_is_said() {
    let half = LabelRule {
        neutral: Neutral::Half,
        ..LabelRule::default()
    };
    let why = |format: &str, chain: LabelledChain| {
        let (_, refused) = written(format, &[chain], &half);
        refused.concat()
    };
    for format in ["math-shepherd", "rlhflow"] {
        assert!(
            why(format, rated(&[None, Some(1)])).contains("a step has no label"),
            "{format}"
        );
        assert!(
            why(format, rated(&[Some(0)])).contains("between right and wrong"),
            "{format}"
        );
        assert!(
            why(format, rated(&[None])).contains("no step has a label"),
            "{format}"
        );
    }
    let mut tagged = rated(&[Some(1)]);
    tagged.steps[0].text = "a ки b".to_owned();
    assert!(why("math-shepherd", tagged).contains("has the tag"));
    let mut twice = rated(&[Some(1)]);
    twice.problem = "Step 1: p".to_owned();
    assert!(why("math-shepherd", twice).contains("exactly once"));
    assert!(
        Format::named("ratings")
            .unwrap()
            .export(&[], &half)
            .is_none()
    );
}
