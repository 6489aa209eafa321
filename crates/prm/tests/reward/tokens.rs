//! Tests of the tokens that the reward model reads for steps.

use beamgen_prm::{Head, RewardModel};
use beamgen_search::*;

use crate::models::*;
use crate::tiny;

fn whole(prm: &mut RewardModel, steps: &[Step]) -> Scored {
    let id = prm.open(&problem("ab?"), 0).unwrap();
    let scored = score(prm, id, steps).unwrap();
    prm.release(id);
    scored
}

/// Pitfall 8: a blank text after the last boundary, or between two, is no step.
#[test]
fn p08_empty_steps_are_not_scored() {
    let mut prm = reward_model(400);
    let scores = prm.whole_chain("ab?", &["a\n", "b\n"]).unwrap();
    for steps in [
        &["a\n", "b\n", ""][..],
        &["a\n", "b\n", "\n", "  "],
        &["\n", "a\n", "", "b\n"],
        &["a", "b"],
    ] {
        assert_eq!(prm.whole_chain("ab?", steps).unwrap(), scores, "{steps:?}");
    }
    assert_eq!(prm.whole_chain("ab?", &["\n"]).unwrap(), [0f32; 0]);
    assert_eq!(prm.whole_chain("ab?", &[]).unwrap(), [0f32; 0]);

    let id = prm.open(&problem("ab?"), 0).unwrap();
    assert!(score(&mut prm, id, &[Step::new("\n")]).is_err());
}

/// Pitfall 9: a score of 0 counts; steps are found by position, not by `score != 0`.
#[test]
fn p09_a_probability_of_zero_is_a_score_at_its_place() {
    let model = tiny::model(400);
    let direction = tiny::random::noise(model.config().hidden_size, 3);
    let with_head = |scale: f32, bias: f32| {
        let head = Head::linear(direction.iter().map(|x| scale * x).collect(), bias);
        let engine = tiny::engine(&model, 400);
        let spec = spec("\n");
        RewardModel::new(engine, None, tiny::tokenizer(), &spec, Some(head)).unwrap()
    };
    let texts: Vec<String> = (0..20).map(|i| format!("a {i} b\n")).collect();
    let steps: Vec<&str> = texts.iter().map(String::as_str).collect();
    let soft = with_head(0.1, 0.0).whole_chain("ab?", &steps).unwrap();
    let logits = soft.iter().map(|p| 10.0 * (p / (1.0 - p)).ln());
    let middle = logits.sum::<f32>() / soft.len() as f32;

    // The head is so steep that every probability is exactly 0 or 1.
    let mut prm = with_head(1e6, -1e6 * middle);
    let scores = prm.whole_chain("ab?", &steps).unwrap();
    assert_eq!(scores.len(), steps.len());
    assert!(scores.contains(&0.0) && scores.contains(&1.0));
    for (i, score) in scores.iter().enumerate() {
        assert_eq!(prm.whole_chain("ab?", &steps[..=i]).unwrap()[i], *score);
    }
}

#[test]
fn the_generators_tokens_are_read_as_they_are() {
    let mut prm = reward_model(400);
    // `a` and `b` sampled apart, where the tokenizer would have made one token of them.
    let unusual = Step {
        text: "ab\n".into(),
        tokens: [ids("a"), ids("b"), ids("\n")].concat(),
        finish: None,
    };
    assert_eq!(unusual.tokens.len(), 3);
    let as_sampled = whole(&mut prm, &[unusual]);
    let usual = whole(&mut prm, &[Step::new("ab\n")]);
    assert_ne!(as_sampled.probabilities, usual.probabilities);
    assert_eq!(as_sampled.read_tokens, usual.read_tokens + 1);
}

#[test]
fn with_another_tokenizer_the_text_is_read() {
    let mut prm = reward_model(400);
    let usual = whole(&mut prm, &[Step::new("ab\n")]);
    prm.share_tokens(false);
    let foreign = Step {
        text: "ab\n".into(),
        tokens: vec![9999; 7],
        finish: None,
    };
    assert_eq!(whole(&mut prm, &[foreign]), usual);
}

/// Models of one family pad their vocabularies to different sizes, so a generator can sample an id
/// that the reward model does not have.
#[test]
fn an_id_outside_the_vocabulary_does_not_end_the_run() {
    let mut prm = reward_model(400);
    let usual = whole(&mut prm, &[Step::new("ab\n")]);
    let padded = Step {
        text: "ab\n".into(),
        tokens: [vec![9999], ids("ab\n")].concat(),
        finish: None,
    };
    assert_eq!(whole(&mut prm, &[padded]), usual);
}

#[test]
fn a_step_without_boundary_gets_the_step_token() {
    let mut prm = reward_model(400);
    let usual = whole(&mut prm, &[Step::new("a = 3\n")]);
    assert_eq!(whole(&mut prm, &[Step::ended("a = 3")]), usual);
    let cut = Step {
        finish: Some(Finish::ChainCap),
        ..Step::new("a = 3")
    };
    assert_eq!(whole(&mut prm, &[cut]), usual);
}

/// `.` and the newline are one token, which is not the step token.
#[test]
fn a_boundary_inside_a_token_is_still_read_at_the_step_token() {
    let mut prm = reward_model(400);
    let merged = Step::new("a = 3.\n");
    assert_ne!(merged.tokens.last(), Some(&ids("\n")[0]));
    let apart = Step {
        text: "a = 3.\n".into(),
        tokens: [ids("a = 3."), ids("\n")].concat(),
        finish: None,
    };
    assert_eq!(whole(&mut prm, &[merged]), whole(&mut prm, &[apart]));
}

#[test]
fn what_is_too_long_is_refused_alone() {
    let mut prm = reward_model(4000);
    let long = "a ".repeat(150);
    assert!(matches!(
        prm.open(&problem(&"ab ".repeat(500)), 0),
        Err(ScoreError::TooLong { context: 400, .. })
    ));
    let results = prm
        .whole_chains(&[("ab?", &[&long, &long]), ("ab?", &["a\n"])])
        .unwrap();
    assert!(matches!(results[0], Err(ScoreError::TooLong { .. })));
    assert_eq!(results[1].as_ref().unwrap().len(), 1);
    assert!(prm.engine().is_empty());
}

/// The problem's last character and the step's first would be one token of the text as a whole. The
/// prompt is read by then: the step's tokens are its own.
#[test]
fn a_step_that_clings_to_the_prompt_is_read_apart() {
    let mut spec = spec("\n");
    spec.prompt.text = Some("<|begin|>{{ problem }}".into());
    spec.step = Default::default();
    spec.step.text = "{{ step }}\n".into();
    let mut prm = with_spec(&spec, 400);
    assert_eq!(ids("ab").len(), 1);
    let written = prm.written("?a", &["b", "ab"]).unwrap();
    let apart = [vec![tiny::BEGIN], ids("?a"), ids("b\n"), ids("ab\n")].concat();
    assert_eq!(written.tokens, apart);
    assert_eq!(prm.whole_chain("?a", &["b", "ab"]).unwrap().len(), 2);
}
