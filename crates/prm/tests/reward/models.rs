//! Shorthands.

use beamgen_prm::{Format, Head, HeadKind, PrmSpec, Renderer, RewardModel};
use beamgen_search::*;

use crate::tiny;

pub fn spec(step_token: &str) -> PrmSpec {
    PrmSpec {
        format: Format::StepToken,
        step_token: step_token.into(),
        head: HeadKind::LinearSigmoid,
        weight: "score.weight".into(),
        bias: Some("score.bias".into()),
    }
}

pub fn renderer() -> Renderer {
    Renderer::new(|text| Ok(format!("<|begin|>{text}\n")), true)
}

/// A reward model with `pages` pages of 4 tokens and the generator's tokenizer.
pub fn reward_model(pages: usize) -> RewardModel {
    let model = tiny::model(400);
    let head = Head::new(tiny::random::noise(model.config().hidden_size, 3), 0.1);
    let engine = tiny::engine(&model, pages);
    let mut prm =
        RewardModel::new(engine, tiny::tokenizer(), &spec("\n"), head, renderer()).unwrap();
    prm.share_tokens(true);
    prm
}

/// Tokens of a text, as a generator with the same tokenizer would have sampled them.
pub fn ids(text: &str) -> Vec<u32> {
    tiny::tokenizer().encode(text, false).unwrap()
}

pub fn problem(text: &str) -> Problem {
    Problem {
        id: "p".into(),
        text: text.into(),
        answer: None,
    }
}

/// A step with its tokens.
pub struct Step {
    pub text: String,
    pub tokens: Vec<u32>,
    pub finish: Option<Finish>,
}

impl Step {
    pub fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            tokens: ids(text),
            finish: None,
        }
    }

    pub fn ended(text: &str) -> Self {
        let mut step = Self::new(text);
        step.tokens.push(tiny::END);
        step.finish = Some(Finish::EndOfText);
        step
    }

    pub fn as_ref(&self) -> StepRef<'_> {
        StepRef {
            text: &self.text,
            tokens: &self.tokens,
            finish: self.finish,
        }
    }
}

/// Scores the steps of one chain in one item.
pub fn score(prm: &mut RewardModel, id: ScoreId, steps: &[Step]) -> Result<Scored, ScoreError> {
    let item = ScoreItem {
        id,
        steps: steps.iter().map(Step::as_ref).collect(),
    };
    prm.score(&[item]).unwrap().remove(0)
}
