//! A chain ends when it states its answer, whether the generator or the search detects the answer.

use std::ops::ControlFlow;

use beamgen_search::*;

use crate::every_strategy::configs;
use crate::scripted::*;

/// Answers as in [`Stated`], with chains that end when their text contains a marker.
pub(crate) struct Found;

impl Answers for Found {
    fn extract(&self, text: &str) -> Option<Answer> {
        Stated.extract(text)
    }

    fn class(&self, answer: &str) -> String {
        Stated.class(answer)
    }
}

fn searched(
    config: &SearchConfig,
    script: impl Fn(&Place<'_>) -> Said,
    answers: &dyn Answers,
) -> Vec<(ChainTree, Option<String>)> {
    let mut scorer = ScriptedScorer::new(random_score);
    let models = Models {
        verifier: None,
        generator: &mut ScriptedGenerator::new(script),
        scorer: Some(&mut scorer),
        answers,
        clock: &StoppedClock,
    };
    let mut results = Vec::new();
    run(models, config, problems(5), &mut |_| (), &mut |result| {
        results.push((result.index, result.tree, result.answer));
        ControlFlow::Continue(())
    })
    .unwrap();
    results.sort_by_key(|(index, ..)| *index);
    results
        .into_iter()
        .map(|(_, tree, answer)| (tree, answer))
        .collect()
}

#[test]
fn every_strategy_ends_chains_where_a_generator_that_knows_would() {
    let silent = |place: &Place<'_>| {
        let mut said = random_said(place);
        said.finish = said.finish.filter(|&finish| finish != Finish::Answer);
        said
    };
    for config in configs() {
        let told = searched(&config, random_said, &Stated);
        assert_eq!(told, searched(&config, silent, &Found), "{config:?}");
        assert!(told.iter().any(|(_, answer)| answer.is_some()));
    }
}
