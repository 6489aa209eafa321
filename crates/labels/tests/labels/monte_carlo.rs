//! Monte Carlo labels on a scripted generator.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use beamgen_labels::monte_carlo::{Counts, Labelling, Labels, Mine, Mode, MonteCarlo};
use beamgen_labels::{LabelRule, LabelledChain, Policy};
use beamgen_search::{
    Aggregation, Finish, Models, PerStep, Problem, ProblemResult, Scorer, SearchConfig,
    StoppedClock, run_with,
};

use crate::scripted::{Place, Said, ScriptedGenerator, Stated, problems};

const LAST: usize = 6;

/// Writes chains of steps that may be bad. No answer after a bad step is right, so the labels along
/// a chain change at most once. A few chains are cut off.
fn breaking(place: &Place<'_>) -> Said {
    let is_bad = place.before.contains("bad");
    let mut said = match (place.depth, place.draw(1) % 40) {
        (LAST, _) if is_bad => Said::answer(2),
        (LAST, _) => Said::answer(1),
        (_, 0) => Said::end("and so", Finish::StepCap),
        (_, 1..=8) => Said::step(format!("bad {}\n", place.draw(2) % 3)),
        _ => Said::step(format!("good {}\n", place.draw(2) % 3)),
    };
    said.tokens = 1 + (place.draw(3) % 6) as usize;
    said
}

fn is_right(text: &str) -> bool {
    text.ends_with("The answer is 1.\n")
}

fn options(mode: Mode, chains: usize, rollouts: u32) -> MonteCarlo {
    MonteCarlo {
        chains,
        rollouts,
        mode,
        ..MonteCarlo::default()
    }
}

/// Returns settings for each mode, and settings for a binary search that also searches wrong
/// rollouts.
fn every() -> Vec<MonteCarlo> {
    let mut every: Vec<MonteCarlo> = Mode::ALL.map(|mode| options(mode, 6, 8)).to_vec();
    every.push(MonteCarlo {
        searches: 5,
        ..options(Mode::Binary, 6, 8)
    });
    every
}

struct Ran {
    labels: Vec<Labels>,
    results: Vec<ProblemResult>,
}

impl Ran {
    fn chains(&self) -> impl Iterator<Item = &LabelledChain> {
        self.labels.iter().flat_map(|labels| &labels.chains)
    }

    fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for labels in &self.labels {
            sum += labels.counts;
        }
        sum
    }

    fn generated(&self) -> u64 {
        let tokens = |result: &ProblemResult| result.ledger.generated_tokens;
        self.results.iter().map(tokens).sum()
    }
}

/// Labels `count` problems in one search.
fn label(
    generator: &mut ScriptedGenerator<'_>,
    options: MonteCarlo,
    config: &SearchConfig,
    count: usize,
) -> Ran {
    label_scored(generator, None, options, config, count)
}

fn label_scored<'a>(
    generator: &'a mut ScriptedGenerator<'_>,
    scorer: Option<&'a mut (dyn Scorer + 'a)>,
    options: MonteCarlo,
    config: &SearchConfig,
    count: usize,
) -> Ran {
    let labellings: Arc<Mutex<BTreeMap<String, Labelling>>> = Arc::default();
    let made = Arc::clone(&labellings);
    let factory = move |problem: &Problem| {
        let labelling = options.labelling(Arc::new(is_right));
        let strategy = labelling.strategy();
        made.lock().unwrap().insert(problem.id.clone(), labelling);
        Ok(strategy)
    };
    let models = Models {
        verifier: None,
        generator,
        scorer,
        answers: &Stated,
        clock: &StoppedClock,
    };
    let mut results = Vec::new();
    run_with(
        models,
        config,
        Arc::new(factory),
        problems(count),
        &mut |_| (),
        &mut |result| {
            assert_eq!(result.error, None);
            results.push(result);
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    results.sort_by_key(|result| result.index);
    let labellings = labellings.lock().unwrap();
    let labels = results.iter().map(|result| {
        labellings[&result.problem.id].labels(&result.problem, 7, &Policy::default())
    });
    Ran {
        labels: labels.collect(),
        results,
    }
}

fn label_all(mode: Mode, count: usize) -> Ran {
    let mut generator = ScriptedGenerator::new(breaking);
    let config = SearchConfig::default();
    label(&mut generator, options(mode, 6, 8), &config, count)
}

#[test]
fn the_labels_do_not_depend_on_what_else_is_in_flight() {
    for mode in every() {
        let run = |in_flight, capacity| {
            let mut generator = ScriptedGenerator::new(breaking).with_capacity(capacity);
            let config = SearchConfig {
                in_flight,
                ..SearchConfig::default()
            };
            label(&mut generator, mode, &config, 3)
        };
        let alone = run(1, usize::MAX);
        assert!(alone.counts().rollouts > 0);
        assert!(alone.labels == run(3, usize::MAX).labels, "{mode:?}");
        // With little memory, problems are set back and restarted; the labels must not differ.
        assert!(alone.labels == run(3, 550).labels, "{mode:?}");
    }
}

#[test]
fn no_token_is_read_or_sampled_twice() {
    for mode in every() {
        let mut generator = ScriptedGenerator::new(breaking);
        let ran = label(&mut generator, mode, &SearchConfig::default(), 5);
        assert_eq!(generator.prompts_read, 5);
        assert_eq!(generator.chains_held(), 0);
        assert_eq!(generator.tokens_sampled as u64, ran.generated());
        for (result, labels) in ran.results.iter().zip(&ran.labels) {
            let in_tree: usize = result.tree.nodes().map(|(_, node)| node.tokens.len()).sum();
            assert_eq!(result.ledger.generated_tokens, in_tree as u64, "{mode:?}");
            assert_eq!(result.ledger.prompt_tokens, 10);
            assert!(labels.counts.chain_tokens < in_tree as u64);
        }
    }
}

#[test]
fn each_rollout_saves_reading_its_prompt_and_prefix() {
    // One chain of 6 good steps of 3 tokens and an answer: 6 prefixes of 3 to 18 tokens.
    let mut generator = ScriptedGenerator::new(|place| match place.depth {
        LAST => Said::answer(1),
        depth => Said::step(format!("good {depth}\n")),
    });
    let config = SearchConfig::default();
    let ran = label(&mut generator, options(Mode::All, 1, 4), &config, 1);
    let prefixes: u64 = (1..=6).map(|steps| 10 + 3 * steps).sum();
    assert_eq!(ran.results[0].ledger.reused_tokens, 4 * prefixes);
    assert_eq!(ran.counts().spared_tokens(10), 4 * prefixes);
    let counts = ran.counts();
    assert_eq!((counts.labels, counts.rollouts), (6, 24));
    let chain = &ran.labels[0].chains[0];
    let rollouts = chain
        .steps
        .iter()
        .map(|step| step.rollouts.clone().unwrap());
    let rollouts: Vec<_> = rollouts.map(|r| (r.n, r.k, r.seed)).collect();
    let seed = Some(7);
    assert_eq!(rollouts[..6], [(4, 4, seed); 6]);
    // The last step ends the chain, so its only completion is the chain itself.
    assert_eq!(rollouts[6], (1, 1, seed));
    assert_eq!(chain.steps[0].text, "good 0");
    assert_eq!(chain.outcome, Some(true));
}

#[test]
fn chains_with_a_common_beginning_share_its_rollouts() {
    let ran = label_all(Mode::All, 8);
    let mut counted = 0;
    for labels in &ran.labels {
        let mut by_text: BTreeMap<String, _> = BTreeMap::new();
        for chain in &labels.chains {
            let mut text = String::new();
            for step in &chain.steps[..chain.steps.len().min(LAST)] {
                text += &step.text;
                text.push('\n');
                let rollouts = &step.rollouts;
                assert_eq!(by_text.entry(text.clone()).or_insert(rollouts), &rollouts);
            }
        }
        counted += by_text.len() as u64;
        let texts: Vec<Vec<&str>> = labels
            .chains
            .iter()
            .map(|chain| chain.steps.iter().map(|step| step.text.as_str()).collect())
            .collect();
        for (i, one) in texts.iter().enumerate() {
            let same = |other: &&Vec<&str>| one == *other;
            // A chain that was cut off may be the beginning of another one, but no two chains are
            // equal.
            assert!(texts[..i].iter().find(same).is_none() || one.len() < LAST + 1);
        }
    }
    assert_eq!(counted, ran.counts().labels);
}

#[test]
fn a_truncated_rollout_is_neither_right_nor_wrong() {
    // Only chain 0 reaches its own end; all others are cut off.
    let mut generator = ScriptedGenerator::new(|place| match place.index {
        0 if place.depth == LAST => Said::answer(1),
        0 => Said::step(format!("good {}\n", place.depth)),
        _ => Said::end("and so", Finish::StepCap),
    });
    for mode in Mode::ALL {
        let config = SearchConfig::default();
        let ran = label(&mut generator, options(mode, 1, 4), &config, 1);
        let chain = &ran.labels[0].chains[0];
        assert_eq!(ran.counts().rollouts, 0);
        let (last, others) = chain.steps.split_last().unwrap();
        assert_eq!(last.rollouts.as_ref().map(|r| (r.n, r.k)), Some((1, 1)));
        let labels = LabelRule::default().labels(chain);
        for (step, label) in others.iter().zip(labels) {
            match (mode, &step.rollouts) {
                // A right chain has no error to search for.
                (Mode::Binary, rollouts) => assert!(rollouts.is_none()),
                (_, Some(r)) => {
                    assert_eq!((r.n, r.k, r.truncated), (0, 0, 4), "{mode:?}");
                    assert_eq!(label, None);
                }
                (_, None) => panic!("{mode:?}: not rolled out"),
            }
        }
    }
}

#[test]
fn stopping_early_settles_the_same_hard_labels_for_less() {
    let (all, early) = (label_all(Mode::All, 12), label_all(Mode::Early, 12));
    let mut settled = 0;
    for (a, b) in all.chains().zip(early.chains()) {
        assert_eq!((&a.id, a.outcome), (&b.id, b.outcome));
        let hard = |chain| LabelRule::default().labels(chain);
        assert_eq!(hard(a), hard(b));
        settled += hard(a).len();
        for (a, b) in a.steps.iter().zip(&b.steps) {
            let n = |step: &beamgen_labels::LabelledStep| step.rollouts.as_ref().map_or(0, |r| r.n);
            assert!(n(b) <= n(a));
        }
    }
    assert!(settled > 100);
    assert_eq!(all.chains().count(), early.chains().count());
    assert!(10 * early.generated() < 9 * all.generated());
}

#[test]
fn binary_search_finds_the_first_error_of_brute_force_where_labels_fall_once() {
    let (all, binary) = (label_all(Mode::All, 40), label_all(Mode::Binary, 40));
    let mut found = 0;
    for (brute, searched) in all.chains().zip(binary.chains()) {
        assert_eq!(brute.id, searched.id);
        if brute.outcome != Some(false) {
            continue;
        }
        let labels = LabelRule::default().labels(brute);
        let first = labels.iter().position(|&label| label == Some(0.0));
        let first = first.expect("the last step of a wrong chain is bad");
        let falls_once = labels[first..].iter().all(|&label| label == Some(0.0))
            && labels[..first].iter().all(|&label| label == Some(1.0));
        if falls_once {
            assert_eq!(searched.first_error, Some(first as i64), "{labels:?}");
            found += 1;
        }
    }
    assert!(found > 40, "{found}");
    assert!(3 * binary.generated() < 2 * all.generated());
}

#[test]
fn wrong_rollouts_are_searched_like_chains() {
    let mut generator = ScriptedGenerator::new(breaking);
    let searched = MonteCarlo {
        searches: 5,
        ..options(Mode::Binary, 3, 8)
    };
    let ran = label(&mut generator, searched, &SearchConfig::default(), 20);
    let (mut reused, mut exact) = (0, 0);
    for labels in &ran.labels {
        assert_eq!(labels.counts.chains, 3);
        let rollouts = labels.chains.iter().filter(|chain| chain.source.is_some());
        let rollouts: Vec<&LabelledChain> = rollouts.collect();
        assert!(rollouts.len() <= 5);
        for chain in rollouts {
            assert_eq!(chain.outcome, Some(false));
            let found = usize::try_from(chain.first_error.expect("a first error")).unwrap();
            let bad = chain
                .steps
                .iter()
                .position(|step| step.text.starts_with("bad"));
            let bad = bad.expect("whoever is wrong has a bad step");
            // No rollout after a bad step is right. After a good step all 8 may be wrong by chance.
            assert!(found <= bad, "{chain:?}");
            let rollouts = chain.steps[found].rollouts.as_ref().unwrap();
            assert_eq!(rollouts.k, 0);
            reused += 1;
            exact += usize::from(found == bad);
        }
    }
    assert!(
        reused > 40 && 10 * exact > 8 * reused,
        "{exact} of {reused}"
    );
}

#[test]
fn a_low_pass_rate_gets_more_rollouts() {
    // Every answer is wrong, every answer is right, or one chain of two is right.
    for (right, times) in [(0, 4), (1, 2), (2, 1)] {
        let script = move |place: &Place<'_>| match place.depth {
            0 => Said::step(format!("begin {}\n", place.index)),
            1 => Said::step("good\n"),
            _ if place.before.starts_with("begin 0") && right > 0 => Said::answer(1),
            _ => Said::answer(if right > 1 { 1 } else { 2 }),
        };
        let mut generator = ScriptedGenerator::new(script);
        let config = SearchConfig::default();
        let ran = label(&mut generator, options(Mode::Adaptive, 2, 5), &config, 1);
        for chain in &ran.labels[0].chains {
            for step in &chain.steps[..2] {
                let rollouts = step.rollouts.as_ref().unwrap();
                assert_eq!(rollouts.n, 5 * times, "{right} right");
            }
        }
    }
}

#[test]
fn a_budget_is_never_exceeded_and_what_it_cuts_is_not_counted() {
    for mode in Mode::ALL {
        let mut before = 0;
        for budget in [20, 60, 150, 400, 5000] {
            let mut generator = ScriptedGenerator::new(breaking);
            let config = SearchConfig {
                budget_tokens: budget,
                ..SearchConfig::default()
            };
            let ran = label(&mut generator, options(mode, 4, 8), &config, 5);
            for result in &ran.results {
                assert!(result.ledger.generated_tokens <= budget as u64, "{mode:?}");
            }
            let rollouts = ran.counts().rollouts;
            assert!(rollouts >= before, "{mode:?}: {before}, {rollouts}");
            before = rollouts;
        }
        assert!(before > 0, "{mode:?}");
    }
}

/// Returns a score that depends on some words and not on whether the chain is right.
fn taste(steps: &[&str]) -> f32 {
    let liked = steps.iter().filter(|step| step.contains('1')).count();
    (1 + liked) as f32 / (2 + steps.len()) as f32
}

fn steps_of(chain: &LabelledChain) -> Vec<&str> {
    chain.steps.iter().map(|step| &step.text[..]).collect()
}

#[test]
fn the_chains_that_a_scorer_is_most_mistaken_about_are_rolled_out() {
    const MOST: usize = 2;
    let config = SearchConfig::default();
    for mode in Mode::ALL {
        let all = label_all(mode, 20);
        let scored: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&scored);
        let mut scorer = PerStep::new(move |problem: &Problem, steps: &[&str]| {
            let mut seen = seen.lock().unwrap();
            seen.push(format!("{}: {}", problem.id, steps.concat()));
            taste(steps)
        });
        let mine = Some(Mine {
            wrong: MOST,
            aggregation: Aggregation::Last,
        });
        let mut generator = ScriptedGenerator::new(breaking);
        let options = MonteCarlo {
            mine,
            ..options(mode, 6, 8)
        };
        let mined = label_scored(&mut generator, Some(&mut scorer), options, &config, 20);

        let (mut wrong, mut right) = (0, 0);
        for (all, mined) in all.labels.iter().zip(&mined.labels) {
            let score = |chain: &LabelledChain| taste(&steps_of(chain));
            let scores = |labels: &Labels, outcome| -> Vec<f32> {
                let chains = labels.chains.iter();
                let mut scores: Vec<f32> = chains
                    .filter(|chain| chain.outcome == Some(outcome))
                    .map(score)
                    .collect();
                scores.sort_by(f32::total_cmp);
                scores
            };
            // Wrong chains with the highest scores, and equally many right chains with the lowest
            // scores.
            let mut expected = scores(all, false);
            expected.drain(..expected.len().saturating_sub(MOST));
            assert_eq!(scores(mined, false), expected, "{mode:?}");
            let mut expected_right = scores(all, true);
            expected_right.truncate(expected.len());
            assert_eq!(scores(mined, true), expected_right, "{mode:?}");
            wrong += expected.len();
            right += expected_right.len();
            assert_eq!(mined.counts.chains, all.counts.chains);
            assert_eq!(mined.counts.chain_tokens, all.counts.chain_tokens);
            // The labels are equal to those of a run that rolls out every chain.
            for chain in &mined.chains {
                let same = |other: &&LabelledChain| steps_of(other) == steps_of(chain);
                let other = all.chains.iter().find(same).expect("it was drawn there");
                for (other, step) in other.steps.iter().zip(&chain.steps) {
                    // In the binary mode another chain may need rollouts of a prefix that the mined
                    // chain shares.
                    if mode != Mode::Binary || step.rollouts.is_some() {
                        assert_eq!(other, step, "{mode:?}");
                    }
                }
            }
        }
        assert!(wrong > 20 && right > 10, "{wrong} wrong, {right} right");
        assert!(mined.counts().begun < all.counts().begun, "{mode:?}");

        // The scorer is asked about chains and never about rollouts.
        let drawn: Vec<String> = all
            .labels
            .iter()
            .zip(&all.results)
            .flat_map(|(labels, result)| {
                let text = |chain| format!("{}: {}", result.problem.id, joined(chain));
                labels.chains.iter().map(text).collect::<Vec<_>>()
            })
            .collect();
        let scored = scored.lock().unwrap();
        assert!(!scored.is_empty());
        for text in scored.iter() {
            let is_of_a_chain = drawn.iter().any(|chain| chain.starts_with(text.trim_end()));
            assert!(is_of_a_chain, "{mode:?}: {text:?} is a rollout's");
        }
    }
}

#[test]
fn problems_without_right_or_without_wrong_chains_are_left_out() {
    for options in every() {
        let run = |mixed| {
            let mut generator = ScriptedGenerator::new(breaking);
            let options = MonteCarlo {
                mixed,
                chains: 3,
                ..options
            };
            label(&mut generator, options, &SearchConfig::default(), 20)
        };
        let (all, mixed) = (run(false), run(true));
        let mut left_out = 0;
        for (all, mixed) in all.labels.iter().zip(&mixed.labels) {
            let drawn = || all.chains.iter().filter(|chain| chain.source.is_none());
            let has = |outcome| drawn().any(|chain| chain.outcome == Some(outcome));
            assert_eq!(all.counts.mixed, u64::from(has(true) && has(false)));
            if all.counts.mixed == 1 {
                assert_eq!(mixed, all, "{options:?}");
                continue;
            }
            left_out += 1;
            assert_eq!(mixed.chains, []);
            let counts = Counts {
                chains: all.counts.chains,
                right: all.counts.right,
                cut: all.counts.cut,
                ..Counts::default()
            };
            let sampled = Counts {
                chain_tokens: 0,
                ..mixed.counts
            };
            assert_eq!(sampled, counts, "{options:?}");
        }
        assert!((3..=17).contains(&left_out), "{left_out}");
        assert!(mixed.generated() < all.generated());
    }
}

fn joined(chain: &LabelledChain) -> String {
    steps_of(chain).join("\n")
}
