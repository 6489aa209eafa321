//! Searches with several judges, whose scores are in the tree and whose costs are in the ledger.

use std::ops::ControlFlow;

use beamgen_search::*;

use crate::scripted::*;

/// A judge that scores by a function of the chain's text and reads a token for each step.
struct ByText(fn(&str) -> f32);

impl StepScorer for ByText {
    fn score(&mut self, _: &Problem, steps: &[&str]) -> Result<f32, ScoreError> {
        Ok((self.0)(&steps.concat()))
    }

    fn read_tokens(&self) -> usize {
        1
    }
}

fn fraction(text: &str, salt: u64) -> f32 {
    let hash = text.bytes().fold(salt, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    });
    (hash >> 40) as f32 / (1u64 << 24) as f32
}

fn first(text: &str) -> f32 {
    fraction(text, 1)
}

fn second(text: &str) -> f32 {
    fraction(text, 2)
}

fn judge(name: &str, score: fn(&str) -> f32) -> Judge {
    Judge::new(name, PerStep::new(ByText(score)))
}

fn solved(scorer: &mut dyn Scorer, config: &SearchConfig) -> (Vec<ProblemResult>, RunSummary) {
    let mut generator = ScriptedGenerator::new(random_said);
    let models = Models {
        verifier: None,
        generator: &mut generator,
        scorer: Some(scorer),
        answers: &Stated,
        clock: &StoppedClock,
    };
    let mut results = Vec::new();
    let summary = run(models, config, problems(6), &mut |_| (), &mut |result| {
        results.push(result);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(generator.chains_held(), 0);
    results.sort_by_key(|result| result.index);
    (results, summary)
}

fn with_judges(rule: &str, config: &SearchConfig) -> (Vec<ProblemResult>, RunSummary) {
    let both = [judge("first", first), judge("second", second)];
    solved(&mut Judges::new(both, rule.parse().unwrap()), config)
}

/// Returns the text of the chain that ends at a node.
fn chain(tree: &ChainTree, id: NodeId) -> String {
    tree.steps(id).map(|node| node.text.as_str()).collect()
}

#[test]
fn a_search_with_judges_is_that_of_one_scorer_that_says_what_they_say_together() {
    let early = SearchConfig {
        early_rejection: 2,
        ..beam(8, 2)
    };
    for config in [beam(8, 2), best_of(6), early] {
        let mut one = PerStep::new(ByText(|text| first(text).min(second(text))));
        let (alone, _) = solved(&mut one, &config);
        let (together, _) = with_judges("min", &config);
        for (a, b) in alone.iter().zip(&together) {
            assert_eq!(a.answer, b.answer);
            let scores = |result: &ProblemResult| -> Vec<_> {
                let nodes = result.tree.nodes();
                nodes
                    .map(|(_, node)| (node.text.clone(), node.score, node.partial_score))
                    .collect()
            };
            assert_eq!(scores(a), scores(b));
        }
    }
}

#[test]
fn each_judges_scores_are_in_the_tree_and_its_costs_in_the_ledger() {
    for config in [beam(8, 2), best_of(6)] {
        let (results, summary) = with_judges("min", &config);
        let mut sum = Ledger::default();
        for result in &results {
            for (id, node) in result.tree.nodes().filter(|(_, node)| node.score.is_some()) {
                let text = chain(&result.tree, id);
                assert_eq!(node.judges["first"], Some(first(&text)));
                assert_eq!(node.judges["second"], Some(second(&text)));
            }
            sum += &result.ledger;
            let spent: u64 = result
                .ledger
                .judges
                .values()
                .map(|spent| spent.scored_tokens)
                .sum();
            assert_eq!(spent, result.ledger.scored_tokens);
        }
        for (name, total) in &summary.ledger.judges {
            let by_problem = sum.judges[name];
            assert!(total.steps > 0 && total.calls <= by_problem.calls);
            assert_eq!(total.steps, by_problem.steps);
            assert_eq!(total.scored_tokens, by_problem.scored_tokens);
            assert_eq!(total.abstained, 0);
        }
        assert_eq!(summary.ledger.judges.len(), 2);
    }
}

#[test]
fn the_costly_judge_of_a_cascade_is_asked_about_undecided_steps_alone() {
    let (results, summary) = with_judges("cascade:0.4..0.6", &beam(8, 2));
    let (mut asked, mut spared) = (0, 0);
    for result in &results {
        for (_, node) in result.tree.nodes().filter(|(_, node)| node.score.is_some()) {
            let cheap = node.judges["first"].unwrap();
            if let Some(costly) = node.judges.get("second") {
                assert!((0.4..=0.6).contains(&cheap));
                assert_eq!(node.score, *costly);
                asked += 1;
            } else {
                assert_eq!(node.score, Some(cheap));
                spared += 1;
            }
        }
    }
    assert!(asked > 0 && spared > asked, "{asked} and {spared}");
    let spent = &summary.ledger.judges;
    assert!(spent["second"].steps < spent["first"].steps);
}

#[test]
fn what_all_judges_abstain_on_has_no_score_and_the_search_goes_on() {
    struct Silent(PerStep<fn(&Problem, &[&str]) -> f32>);
    impl Scorer for Silent {
        fn open(&mut self, problem: &Problem, key: u64) -> Result<ScoreId, ScoreError> {
            self.0.open(problem, key)
        }
        fn fork(&mut self, id: ScoreId) -> ScoreId {
            self.0.fork(id)
        }
        fn release(&mut self, id: ScoreId) {
            self.0.release(id);
        }
        fn score(&mut self, items: &[ScoreItem<'_>]) -> ScoreResult {
            let silent = |item: &ScoreItem<'_>| Scored {
                probabilities: vec![None; item.steps.len()],
                ..Scored::default()
            };
            Ok(items.iter().map(|item| Ok(silent(item))).collect())
        }
        fn memory(&self) -> Memory {
            Memory::default()
        }
    }
    let score: fn(&Problem, &[&str]) -> f32 = |_, _| 0.5;
    for config in [beam(8, 2), best_of(6)] {
        let silent = Judge::new("silent", Silent(PerStep::new(score)));
        let (results, summary) = solved(&mut Judges::new([silent], Combine::Min), &config);
        for result in results {
            assert_eq!(result.error, None);
            assert!(result.answer.is_some());
            assert!(result.tree.nodes().all(|(_, node)| node.score.is_none()));
        }
        let spent = summary.ledger.judges["silent"];
        assert!(spent.steps > 0);
        assert_eq!(spent.steps, spent.abstained);
    }
}

#[test]
fn without_judges_nothing_of_them_is_written() {
    let mut one = PerStep::new(ByText(first));
    let (results, summary) = solved(&mut one, &beam(4, 2));
    let written = serde_json::to_string(&(results, summary)).unwrap();
    assert!(!written.contains("judge"));
    let (results, _) = with_judges("min", &beam(4, 2));
    let tree = serde_json::to_string(&results[0].tree).unwrap();
    let back: ChainTree = serde_json::from_str(&tree).unwrap();
    assert_eq!(back, results[0].tree);
}
