//! Tests of probes and shifts on small data, with figures calculated by hand.

use super::*;
use crate::quality::{Figure, ScoredChain};

fn steps(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn changed(key: &str, texts: &[&str]) -> Option<Changed> {
    let steps = steps(texts);
    let subject = Subject {
        problem: "p",
        steps: &steps,
        other_problem: Some("q"),
    };
    Probe::keyed(key).expect("a probe").change(&subject)
}

const CHAIN: [&str; 3] = ["1 + 1 = 2", "2 + 1 = 3", "The answer is 3."];

#[test]
fn each_probe_makes_its_change_and_no_step_is_empty() {
    let changed_by = |key: &str| changed(key, &CHAIN).expect(key);
    assert_eq!(changed_by("question-swapped").problem, "q");
    assert_eq!(changed_by("question-removed").steps, CHAIN);
    assert_eq!(changed_by("wrong-step").steps[0], "1 + 1 = 3");
    assert_eq!(changed_by("answer-only").steps, CHAIN[2..]);
    assert_eq!(
        changed_by("giant-step").steps,
        ["1 + 1 = 2 2 + 1 = 3 The answer is 3."]
    );
    assert_eq!(
        changed_by("boundaries").steps,
        ["1 + 1 = 2 2 + 1 = 3", CHAIN[2]]
    );
    assert_eq!(changed_by("step-prefix").steps[1], "Step 2: 2 + 1 = 3");
    assert_eq!(
        changed_by("repeated-step").steps,
        [CHAIN[0], CHAIN[1], CHAIN[1], CHAIN[2]]
    );
    let mut keys = std::collections::BTreeSet::new();
    for probe in PROBES {
        assert!(keys.insert(probe.key), "{} twice", probe.key);
        let changed = changed_by(probe.key);
        assert!(
            changed.steps.iter().all(|step| !step.trim().is_empty()),
            "{}",
            probe.key
        );
        assert!(
            changed.steps != CHAIN || changed.problem != "p",
            "{}",
            probe.key
        );
        if let Some(touched) = changed.touched {
            assert!(touched.after < changed.steps.len(), "{}", probe.key);
            assert!(
                touched.before.is_none_or(|at| at < CHAIN.len()),
                "{}",
                probe.key
            );
        }
    }
}

#[test]
fn what_a_chain_of_one_step_cannot_show_is_left_out() {
    for key in [
        "answer-only",
        "giant-step",
        "boundaries",
        "pseudo-derivation",
        "stops-early",
        "other-answer",
        "errors-cancel",
    ] {
        assert_eq!(changed(key, &["a"]), None, "{key}");
    }
    assert_eq!(changed("wrong-step", &["no number"]), None);
    let thanked = changed("thank-you", &["a"]).expect("a change");
    assert_eq!(thanked.steps, ["a", "Thank you."]);
    assert_eq!(
        changed("repeated-step", &["a"]).expect("a change").steps,
        ["a", "a"]
    );
}

#[test]
fn numbers_before_steps_are_taken_away_where_they_are() {
    let bare = changed("step-prefix", &["Step 1: a", "Step 2: b"]).expect("a change");
    assert_eq!(bare.steps, ["a", "b"]);
}

fn trial(problem: u32, before: f64, after: f64) -> Trial {
    Trial {
        problem,
        is_wrong: false,
        before,
        after,
        step_before: None,
        step_after: Some(after),
    }
}

fn report(wanted: &str, trials: &[Trial]) -> ProbeReport {
    let probe = PROBES.into_iter().find(|probe| {
        let name = serde_json::to_value(probe.wanted).expect("a name");
        name == wanted
    });
    ProbeReport::of(probe.expect("a probe"), trials, 0, 0.5, 0)
}

#[test]
fn effects_are_paired_means_by_chain() {
    let trials = [
        trial(0, 0.9, 0.4),
        trial(0, 0.8, 0.9),
        trial(1, 0.2, 0.1),
        Trial {
            is_wrong: true,
            step_before: Some(0.25),
            ..trial(2, 0.4, 0.75)
        },
    ];
    let effects = Effects::of(&trials, 0.5, 0);
    let figure = |effect| effects.get(effect).expect("a figure").value;
    let near = |effect, want: f64| assert!((figure(effect) - want).abs() < 1e-12, "{effect:?}");
    near(Effect::Before, 2.3 / 4.0);
    near(Effect::Change, (-0.5 + 0.1 - 0.1 + 0.35) / 4.0);
    near(Effect::StepChange, 0.5);
    near(Effect::StepBefore, 0.25);
    near(Effect::Noticed, 0.5);
    near(Effect::Fell, 0.5);
    near(Effect::Rose, 0.5);
    near(Effect::Passed, 1.0);
    let (low, high) = effects
        .get(Effect::Change)
        .and_then(|c| c.interval)
        .expect("an interval");
    assert!(low <= figure(Effect::Change) && figure(Effect::Change) <= high && low < high);
}

#[test]
fn chains_of_a_problem_are_resampled_together() {
    let figure = |problems: &dyn Fn(u32) -> u32| {
        let each = (0..40).map(|i| trial(problems(i), 0.5, if i < 20 { 0.2 } else { 0.8 }));
        let trials: Vec<Trial> = each.collect();
        let change = Effects::of(&trials, 0.5, 0)
            .get(Effect::Change)
            .expect("a figure");
        change.interval.map(|(low, high)| high - low)
    };
    let (own, two) = (figure(&|i| i), figure(&|i| i / 20));
    assert!(own.expect("forty problems") < 0.25);
    assert!((two.expect("two problems") - 0.6).abs() < 1e-9);
    assert_eq!(figure(&|_| 0), None, "one problem says nothing of others");
}

#[test]
fn verdicts_follow_the_rules() {
    // Of 100 chains with score 0.9, `fallen` get 0.1.
    let falls = |fallen: u32| -> Vec<Trial> {
        (0..100)
            .map(|i| trial(i, 0.9, if i < fallen { 0.1 } else { 0.9 }))
            .collect()
    };
    let words = |wanted, trials: &[Trial]| report(wanted, trials).verdict;
    for (fallen, grade, said) in [
        (95, Grade::Sound, "notices it in 95 % of chains"),
        (83, Grade::Weak, "notices it in 83 % of chains"),
        (
            30,
            Grade::Failed,
            "mostly misses it: notices it in 30 % of chains",
        ),
        (4, Grade::Failed, "blind to it: notices it in 4 % of chains"),
    ] {
        assert_eq!(
            words("falls", &falls(fallen)),
            Verdict {
                grade,
                words: said.into()
            }
        );
    }
    let rises: Vec<Trial> = (0..100).map(|i| trial(i, 0.6, 0.8)).collect();
    assert_eq!(words("falls", &rises).words, "rewards it (+0.20)");
    assert_eq!(words("no-gain", &rises).words, "rewards it (+0.20)");
    assert_eq!(words("no-gain", &falls(50)).words, "marks it down (-0.40)");
    assert_eq!(words("no-gain", &falls(0)).words, "indifferent to it");
    assert_eq!(words("same", &falls(2)).words, "unmoved");
    let drops = words("same", &falls(10));
    assert_eq!(drops.words, "drops 10 % of the chains it held right");
    assert_eq!(words("same", &falls(50)).grade, Grade::Failed);
    let slightly: Vec<Trial> = (0..100).map(|i| trial(i, 0.6, 0.605)).collect();
    assert_eq!(words("no-gain", &slightly).words, "indifferent to it");
    let hidden: Vec<Trial> = (0..100)
        .map(|i| Trial {
            is_wrong: true,
            ..trial(i, 0.2, if i < 24 { 0.9 } else { 0.2 })
        })
        .collect();
    assert_eq!(
        words("no-gain", &hidden).words,
        "lets 24 % of caught mistakes pass (+0.17)"
    );
    let passed = words("same", &hidden);
    assert_eq!(
        passed.words,
        "thrown off: lets 24 % of caught mistakes pass"
    );
    assert_eq!(words("falls", &falls(95)[..9]).words, "too few chains (9)");
    let low: Vec<Trial> = (0..20).map(|i| trial(i, 0.2, 0.1)).collect();
    assert_eq!(words("falls", &low).grade, Grade::Unknown);
    // Of 20 right chains, `held` are above the threshold before the change, and all end below it.
    let held = |held: u32| -> Vec<Trial> {
        (0..20)
            .map(|i| trial(i, if i < held { 0.9 } else { 0.2 }, 0.1))
            .collect()
    };
    for wanted in ["falls", "same"] {
        assert_eq!(
            words(wanted, &held(9)).words,
            "too few chains at or above the threshold (9)"
        );
        assert_ne!(words(wanted, &held(10)).grade, Grade::Unknown);
    }
}

#[test]
fn a_shift_without_an_interval_has_no_verdict() {
    let area = |value, interval| Some(Figure { value, interval });
    let away = area(0.6, Some((0.55, 0.65)));
    let grade = |difference| Verdict::of_shift(away, difference).grade;
    assert_eq!(grade(area(-0.3, None)), Grade::Unknown);
    assert_eq!(grade(area(-0.3, Some((-0.5, 0.1)))), Grade::Sound);
    assert_eq!(grade(area(-0.3, Some((-0.5, -0.1)))), Grade::Weak);
    assert_eq!(grade(None), Grade::Unknown);
}

fn leveled(level: &str, problem: u32, scores: [f32; 2]) -> ScoredChain {
    ScoredChain {
        problem,
        labels: vec![Some(1.0), Some(0.0)],
        scores: Some(scores.into()),
        lengths: vec![1, 1],
        level: Some(level.to_owned()),
        ..ScoredChain::default()
    }
}

fn shift(key: &str, chains: &[ScoredChain]) -> Option<ShiftReport> {
    let shift = SHIFTS
        .into_iter()
        .find(|shift| shift.key == key)
        .expect("a shift");
    shift.report(chains, 0)
}

#[test]
fn the_harder_half_of_the_levels_is_compared_with_the_easier() {
    let mut chains = Vec::new();
    for i in 0..20 {
        chains.push(leveled("Level 2", i, [0.9, 0.1]));
        chains.push(leveled("Level 10", 20 + i, [0.1, 0.9]));
        chains.push(leveled("Level 3", 40 + i, [0.9, 0.1]));
    }
    let report = shift("harder-level", &chains).expect("levels");
    assert_eq!(
        report.home.kinds,
        ["Level 2", "Level 3"],
        "by number, not by letter"
    );
    assert_eq!(report.away.kinds, ["Level 10"]);
    assert_eq!((report.home.steps, report.away.chains), (80, 20));
    assert_eq!(report.home.auc.map(|f| f.value), Some(1.0));
    assert_eq!(report.difference.map(|f| f.value), Some(-1.0));
    // Wilson's 0.912 to 1 for 40 of 40 problems and 0 to 0.161 for 0 of 20, combined.
    let (low, high) = report.difference.and_then(|f| f.interval).expect("known");
    assert!(low == -1.0 && (high + 0.8166).abs() < 1e-3, "{low} {high}");
    assert_eq!(report.verdict.words, "lost there (-1.000)");
    assert_eq!(shift("other-generator", &chains), None);
}

#[test]
fn the_generator_with_most_chains_is_at_home() {
    let mut chains: Vec<ScoredChain> = (0..12).map(|i| leveled("1", i, [0.9, 0.1])).collect();
    for (i, chain) in chains.iter_mut().enumerate() {
        chain.generator = Some(if i < 8 { "m" } else { "a" }.to_owned());
    }
    let report = shift("other-generator", &chains).expect("generators");
    assert_eq!(
        (report.home.kinds, report.away.kinds),
        (vec!["m".into()], vec!["a".into()])
    );
    assert_eq!(report.verdict.grade, Grade::Sound);
    for chain in &mut chains {
        chain.generator = Some("m".to_owned());
    }
    assert_eq!(shift("other-generator", &chains), None);
}
