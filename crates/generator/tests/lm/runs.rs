//! Shorthands: runs of the tiny generator under the real scheduler.

use std::ops::ControlFlow;

use beamgen_generator::{GeneratorConfig, LmGenerator};
use beamgen_search::*;

use crate::tiny;

/// A scorer whose scores depend only on the text of the step.
struct TextScorer {
    next: u64,
}

impl Scorer for TextScorer {
    fn open(&mut self, _: &Problem, _: u64) -> Result<ScoreId, ScoreError> {
        self.next += 1;
        Ok(ScoreId(self.next))
    }

    fn fork(&mut self, _: ScoreId) -> ScoreId {
        self.next += 1;
        ScoreId(self.next)
    }

    fn release(&mut self, _: ScoreId) {}

    fn score(
        &mut self,
        items: &[ScoreItem<'_>],
    ) -> Result<Vec<Result<Scored, ScoreError>>, ScoreError> {
        let scored = items.iter().map(|item| {
            let scores = item.steps.iter().map(|step| {
                let bytes = step.text.bytes();
                let hash = bytes.fold(7u32, |h, b| h.wrapping_mul(31) + u32::from(b));
                (hash % 997) as f32 / 997.0
            });
            Ok(Scored::of(scores))
        });
        Ok(scored.collect())
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

struct NoAnswers;

impl Answers for NoAnswers {
    fn extract(&self, text: &str) -> Option<Answer> {
        Some(Answer::stated(text))
    }

    fn class(&self, answer: &str) -> String {
        answer.to_owned()
    }
}

pub(crate) fn problems(count: usize) -> Vec<Problem> {
    (0..count)
        .map(|i| Problem {
            id: i.to_string(),
            text: format!("{}+{i}=?", "ab c".repeat(i % 3)),
            answer: None,
            ..Problem::default()
        })
        .collect()
}

pub(crate) fn settings() -> GeneratorConfig {
    GeneratorConfig {
        seed: 5,
        max_step_tokens: 12,
        max_chain_tokens: 60,
        answer_markers: vec!["=".into()],
        ..GeneratorConfig::default()
    }
}

pub(crate) fn generator(pages: usize, config: GeneratorConfig) -> LmGenerator {
    let engine = tiny::engine(&tiny::model(200), pages);
    LmGenerator::new(engine, tiny::tokenizer(), config).unwrap()
}

/// Results without their share of the passes, the only cost that depends on other problems.
pub(crate) fn without_shares(mut results: Vec<ProblemResult>) -> Vec<ProblemResult> {
    for result in &mut results {
        result.ledger.executed = Flops::default();
    }
    results
}

pub(crate) fn solve(
    generator: &mut LmGenerator,
    config: &SearchConfig,
    problems: Vec<Problem>,
) -> (Vec<ProblemResult>, RunSummary) {
    let mut scorer = TextScorer { next: 0 };
    let settings = Settings {
        search: config.clone(),
        generator: generator.config().clone(),
    };
    let models = Models {
        verifier: None,
        generator,
        scorer: Some(&mut scorer),
        answers: &NoAnswers,
        clock: &StoppedClock,
    };
    let mut results = Vec::new();
    let summary = run(models, settings, problems, &mut |_| (), &mut |result| {
        results.push(result);
        ControlFlow::Continue(())
    })
    .unwrap();
    results.sort_by_key(|result| result.index);
    (results, summary)
}

pub(crate) fn beam(n: usize, m: usize, in_flight: usize) -> SearchConfig {
    SearchConfig {
        n,
        m,
        in_flight,
        max_steps: 6,
        ..SearchConfig::default()
    }
}

pub(crate) fn best_of(n: usize, in_flight: usize) -> SearchConfig {
    SearchConfig {
        strategy: StrategyKind::BEST_OF_N,
        ..beam(n, 1, in_flight)
    }
}
