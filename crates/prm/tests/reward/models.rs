//! Models and chains for the tests of this folder.

use beamgen_engine::{DeviceChoice, EngineConfig};
use beamgen_prm::{Head, PrmSpec, RewardModel};
use beamgen_search::*;

use crate::tiny;

/// The defaults of an engine, on the CPU. A test that leaves the choice of the device open may get
/// the small emulated device that another test of this process has loaded.
pub(crate) fn on_cpu() -> EngineConfig {
    EngineConfig {
        device: DeviceChoice::Cpu,
        // A test that reads the same tokens twice compares two computations.
        prefix_cache: false,
        ..EngineConfig::default()
    }
}

/// The bundled models' format with another step token, and a prompt without chat template.
pub(crate) fn spec(step_token: &str) -> PrmSpec {
    let mut spec = PrmSpec::named("step-token").unwrap();
    spec.step.separator = Some(step_token.into());
    spec.step.tag = Some(step_token.into());
    spec.prompt.text = Some("<|begin|>{{ problem }}\n".into());
    spec
}

pub(crate) fn head(width: usize) -> Head {
    Head::linear(tiny::random::noise(width, 3), 0.1)
}

/// A reward model with `pages` pages of 4 tokens and the generator's tokenizer.
pub(crate) fn reward_model(pages: usize) -> RewardModel {
    let mut prm = with_spec(&spec("\n"), pages);
    prm.share_tokens(true);
    prm
}

pub(crate) fn with_spec(spec: &PrmSpec, pages: usize) -> RewardModel {
    with_cache(spec, pages, false)
}

/// A reward model like [`with_spec`]; `prefix_cache` says whether chains reuse prefixes of others.
pub(crate) fn with_cache(spec: &PrmSpec, pages: usize, prefix_cache: bool) -> RewardModel {
    let model = tiny::model(400);
    let engine = tiny::engine_with(&model, pages, prefix_cache);
    let head = head(model.config().hidden_size);
    RewardModel::new(engine, None, tiny::tokenizer(), spec, Some(head)).unwrap()
}

/// Tokens of a text, as a generator with the same tokenizer would have sampled them.
pub(crate) fn ids(text: &str) -> Vec<u32> {
    tiny::tokenizer().encode(text, false).unwrap()
}

pub(crate) fn problem(text: &str) -> Problem {
    Problem {
        id: "p".into(),
        text: text.into(),
        answer: None,
        ..Problem::default()
    }
}

/// A step with its tokens.
pub(crate) struct Step {
    pub text: String,
    pub tokens: Vec<u32>,
    pub finish: Option<Finish>,
}

impl Step {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            tokens: ids(text),
            finish: None,
        }
    }

    pub(crate) fn ended(text: &str) -> Self {
        let mut step = Self::new(text);
        step.tokens.push(tiny::END);
        step.finish = Some(Finish::EndOfText);
        step
    }

    pub(crate) fn as_ref(&self) -> StepRef<'_> {
        StepRef {
            text: &self.text,
            tokens: &self.tokens,
            finish: self.finish,
        }
    }
}

/// Scores the steps of one chain in one item.
pub(crate) fn score(
    prm: &mut RewardModel,
    id: ScoreId,
    steps: &[Step],
) -> Result<Scored, ScoreError> {
    let item = ScoreItem {
        id,
        steps: steps.iter().map(Step::as_ref).collect(),
    };
    prm.score(&[item]).unwrap().remove(0)
}
