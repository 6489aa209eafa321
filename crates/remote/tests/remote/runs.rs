//! Helpers that run searches over servers, and over the same model in this process.

use std::ops::ControlFlow;
use std::time::Duration;

use beamgen_generator::LmGenerator;
use beamgen_remote::{Error, Remote, RemoteGenerator, Servers};
use beamgen_search::*;

use crate::brain::{Brain, CONTEXT, Plays};
use crate::fake::Fake;
use crate::tiny;

pub(crate) struct NoAnswers;

impl Answers for NoAnswers {
    fn extract(&self, text: &str) -> Option<Answer> {
        Some(Answer::stated(text))
    }

    fn class(&self, answer: &str) -> String {
        answer.to_owned()
    }
}

/// Scores a step by a hash of its text.
pub(crate) fn by_text(_: &Problem, steps: &[&str]) -> f32 {
    let text = steps[steps.len() - 1].bytes();
    let hash = text.fold(7u32, |h, b| h.wrapping_mul(31) + u32::from(b));
    (hash % 997) as f32 / 997.0
}

pub(crate) fn problems(count: usize) -> Vec<Problem> {
    let problem = |i| Problem {
        id: format!("p{i}"),
        text: format!("{i}+{}=?", i * 7 % 10),
        answer: None,
        // Every fourth problem has a given step.
        steps: if i % 4 == 1 {
            vec!["ab 1+1 d".into()]
        } else {
            Vec::new()
        },
        ..Problem::default()
    };
    (0..count).map(problem).collect()
}

pub(crate) fn settings(strategy: &str, n: usize, temperature: f32) -> Settings {
    let mut settings = Settings::default();
    let name: StrategyName = strategy.parse().unwrap();
    name.apply(&mut settings.search);
    settings.search.n = n;
    settings.search.m = 2;
    settings.search.max_steps = 6;
    settings.generator.sampling.temperature = Some(temperature);
    settings.generator.max_step_tokens = 12;
    settings.generator.max_chain_tokens = 40;
    settings.generator.boundaries = vec!["\n".into(), "d".into()];
    settings.generator.answer_markers = vec!["=1".into()];
    settings
}

/// Returns settings with short waits, so that failing tests end soon.
pub(crate) fn servers(urls: impl IntoIterator<Item = impl Into<String>>) -> Servers {
    let mut servers = Servers::at(urls);
    servers.first_byte = Duration::from_secs(20);
    servers.patience = Duration::from_secs(10);
    servers
}

pub(crate) fn brain(plays: Plays) -> Fake {
    let brain = Brain::new(plays);
    Fake::start(move |seen| brain.reply(seen))
}

pub(crate) fn connect(remote: &Remote, servers: &Servers) -> Result<RemoteGenerator, Error> {
    let connection = remote.connect("generator", servers)?;
    let config = GeneratorConfig::default();
    Ok(remote.generator(connection, tiny::tokenizer(), &config)?.0)
}

pub(crate) fn local() -> LmGenerator {
    let engine = tiny::engine(&tiny::model(CONTEXT), 4000);
    LmGenerator::new(engine, tiny::tokenizer(), GeneratorConfig::default()).unwrap()
}

/// Returns all results in the order of the problems, and the summary or the error of the run.
pub(crate) fn run(
    generator: &mut dyn Generator,
    settings: &Settings,
    problems: &[Problem],
) -> (Vec<ProblemResult>, Result<RunSummary, SearchError>) {
    let mut scorer = PerStep::new(by_text);
    let mut results = Vec::new();
    let models = Models {
        verifier: None,
        generator,
        scorer: Some(&mut scorer),
        answers: &NoAnswers,
        clock: &StoppedClock,
    };
    let outcome = beamgen_search::run(
        models,
        settings.clone(),
        problems.iter().cloned(),
        &mut |_| {},
        &mut |result| {
            results.push(result);
            ControlFlow::Continue(())
        },
    );
    results.sort_by_key(|result| result.index);
    (results, outcome)
}

/// The text of a chain, the scores of its steps, the reason of its end, and its tokens.
pub(crate) type Chain = (String, Vec<Option<f32>>, Option<Finish>, Vec<u32>);

/// Returns the chain that ends at each node of the result.
pub(crate) fn chains(result: &ProblemResult) -> Vec<Chain> {
    let tree = &result.tree;
    let leaf = |id: &NodeId| {
        let path = tree.path(*id);
        let text = path.iter().map(|id| tree.node(*id).text.as_str()).collect();
        let scores = path.iter().map(|id| tree.node(*id).score).collect();
        let tokens = path.iter().flat_map(|id| tree.node(*id).tokens.clone());
        (text, scores, tree.node(*id).finish(), tokens.collect())
    };
    let ids: Vec<NodeId> = (0..tree.len()).map(|i| NodeId(i as u32)).collect();
    ids.iter().map(leaf).collect()
}
