//! Limits of steps, chains, contexts and prompts.

use beamgen_engine::Tokenizer;
use beamgen_generator::{Error, GeneratorConfig, LmGenerator};
use beamgen_search::*;

use crate::runs::*;
use crate::tiny;

#[test]
fn a_chain_ends_at_its_cap_or_at_the_context() {
    for (max_chain_tokens, context) in [(17, 200), (1000, 30)] {
        let config = GeneratorConfig {
            max_chain_tokens,
            ..settings()
        };
        let engine = tiny::engine(&tiny::model(context), 4000);
        let mut generator = LmGenerator::new(engine, tiny::tokenizer(), config).unwrap();
        let search = SearchConfig {
            max_steps: 1000,
            ..best_of(12, 4)
        };
        let (results, _) = solve(&mut generator, &search, problems(4));
        let mut capped = 0;
        for result in &results {
            let prompt = generator.prompt(&result.problem).unwrap().len();
            let most = max_chain_tokens.min(context - prompt);
            for chain in &result.finished {
                let tokens = result.tree.token_count(chain.node);
                assert!(tokens <= most);
                if chain.finish == Finish::ChainCap {
                    assert_eq!(tokens, most);
                    capped += 1;
                }
            }
        }
        assert!(capped > 0);
    }
}

#[test]
fn steps_of_fixed_length_have_that_length_and_their_chains_go_on() {
    let config = GeneratorConfig {
        step_tokens: 5,
        boundaries: Vec::new(),
        answer_markers: Vec::new(),
        ..settings()
    };
    let (results, _) = solve(&mut generator(4000, config), &beam(8, 4, 2), problems(3));
    let mut longest = 0;
    for result in &results {
        for chain in &result.finished {
            let steps = result.tree.path(chain.node);
            let tokens = |node: &NodeId| result.tree.token_count(*node);
            for (i, pair) in steps.windows(2).enumerate() {
                let last = i + 2 == steps.len();
                let len = tokens(&pair[1]) - tokens(&pair[0]);
                assert!(len == 5 || last && len < 5, "step of {len} tokens");
            }
            longest = longest.max(steps.len());
            assert_ne!(chain.finish, Finish::StepCap);
        }
    }
    assert!(longest > 3);
}

#[test]
fn a_prompt_that_fills_the_context_is_refused_alone() {
    let mut input = problems(3);
    input[1].text = "ab ".repeat(10_000);
    let mut generator = generator(4000, settings());
    let (results, summary) = solve(&mut generator, &beam(4, 2, 2), input);
    assert!(
        results[1]
            .error
            .as_ref()
            .unwrap()
            .contains("context of 200")
    );
    assert_eq!(summary.failed, 1);
    assert!(results[0].chosen.is_some() && results[2].chosen.is_some());
}

#[test]
fn blank_lines_belong_to_the_step_that_follows() {
    let mut generator = generator(4000, settings());
    let (results, _) = solve(&mut generator, &best_of(32, 8), problems(8));
    let mut blank = 0;
    for node in results
        .iter()
        .flat_map(|r| r.tree.nodes().skip(1).map(|(_, n)| n))
    {
        if node.is_empty_step() {
            assert!(node.finish().is_some(), "{node:?}");
        }
        blank += usize::from(node.text.starts_with('\n'));
    }
    assert!(blank > 0);
}

/// `cd` is sampled as two tokens, so the boundary spans them.
#[test]
fn a_boundary_may_span_tokens_and_lie_within_one() {
    for boundary in ["cd", "a", "b"] {
        let config = GeneratorConfig {
            boundaries: vec![boundary.into()],
            max_step_tokens: 150,
            answer_markers: vec![],
            ..settings()
        };
        let mut generator = generator(4000, config);
        let (results, _) = solve(&mut generator, &best_of(64, 8), problems(4));
        let mut closed = 0;
        for node in results
            .iter()
            .flat_map(|r| r.tree.nodes().skip(1).map(|(_, n)| n))
        {
            if node.finish().is_none() {
                let before = node.text.strip_suffix(boundary).unwrap();
                assert!(!before.contains(boundary));
                closed += 1;
            }
        }
        assert!(closed > 0, "{boundary}");
    }
}

/// Bytes after the end of a step go to the step's children, which may complete a character with
/// them.
#[test]
fn what_is_behind_the_end_of_a_step_is_carried_on() {
    for (boundaries, starts) in [
        (vec!["a"], vec![]),
        (vec!["\n"], vec![]),
        (vec![], vec!["b", "ab"]),
        // The token `ab` ends two steps.
        (vec!["a", "b"], vec![]),
    ] {
        let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        let config = GeneratorConfig {
            boundaries: strings(&boundaries),
            starts: strings(&starts),
            max_step_tokens: 150,
            answer_markers: vec![],
            ..settings()
        };
        let (mut leftover, mut whole) = (0, 0);
        for search in [beam(24, 2, 4), best_of(48, 4)] {
            let mut generator = generator(4000, config.clone());
            let (results, summary) = solve(&mut generator, &search, problems(6));
            assert!(generator.engine().is_empty());
            let (ran, least) = (summary.ledger.executed, summary.ledger.least);
            assert_eq!(ran.generate, least.generate);
            for result in &results {
                for (id, node) in result.tree.nodes().skip(1) {
                    let path = result.tree.path(id);
                    let tokens = path.iter().flat_map(|&id| &result.tree.node(id).tokens);
                    let bytes: Vec<u8> = tokens
                        .filter(|&&token| !generator.tokenizer().is_special(token))
                        .flat_map(|&token| generator.tokenizer().token_bytes(token))
                        .copied()
                        .collect();
                    let text = result.tree.text(id);
                    let said = String::from_utf8_lossy(&bytes);
                    let rest = said.strip_prefix(&text).unwrap_or_else(|| {
                        panic!("{boundaries:?} {starts:?}: {text:?} is not in {said:?}")
                    });
                    leftover += usize::from(!rest.is_empty() && node.finish().is_none());
                    whole += usize::from(node.tokens.is_empty());
                    // Chains dropped in the middle of a step have no text.
                    let closed = node.finish().is_none() && !node.text.is_empty();
                    if closed && !starts.is_empty() {
                        assert!(starts.iter().any(|mark| rest.starts_with(mark)), "{rest:?}");
                    }
                }
            }
        }
        let never = boundaries == ["\n"];
        assert!(never || leftover > 0, "{boundaries:?} {starts:?}");
        assert_eq!(whole > 0, boundaries.len() == 2);
    }
}

/// The two bytes of an é are sampled apart; the text is whole, and a limit never cuts it in two.
#[test]
fn characters_cut_between_tokens_are_put_together() {
    let config = GeneratorConfig {
        boundaries: vec!["é".into()],
        max_step_tokens: 150,
        max_chain_tokens: 150,
        ..settings()
    };
    let mut generator = generator(4000, config);
    let (results, _) = solve(&mut generator, &best_of(64, 8), problems(4));
    let texts: Vec<_> = results
        .iter()
        .flat_map(|r| r.tree.nodes().skip(1))
        .filter(|(_, node)| node.finish().is_none())
        .map(|(_, node)| &node.text)
        .collect();
    assert!(!texts.is_empty());
    assert!(texts.iter().all(|text| text.ends_with('é')));
    // The first byte of an é is valid nowhere but before its second one.
    let mut cut = 0;
    for (_, node) in results.iter().flat_map(|r| r.tree.nodes().skip(1)) {
        if let Some(Finish::StepCap | Finish::ChainCap) = node.finish() {
            let last = node
                .tokens
                .last()
                .map(|&id| generator.tokenizer().token_bytes(id));
            let whole = !node.text.ends_with('\u{fffd}');
            assert!(last == Some(&[0xA9]) || whole, "{node:?}");
            cut += usize::from(last == Some(&[0xC3]));
        }
    }
    assert!(cut > 0);
}

#[test]
fn a_generator_that_could_not_work_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    tiny::write_tokenizer(dir.path(), Some("{% for %}"));
    let engine = || tiny::engine(&tiny::model(100), 100);
    let bad_template = Tokenizer::load(dir.path()).unwrap();
    let error = LmGenerator::new(engine(), bad_template.into(), settings()).unwrap_err();
    assert!(matches!(
        error,
        Error::Engine(beamgen_engine::Error::Template(_))
    ));

    std::fs::write(dir.path().join("tokenizer_config.json"), "{}").unwrap();
    let endless = Tokenizer::load(dir.path()).unwrap();
    let error = LmGenerator::new(engine(), endless.into(), settings()).unwrap_err();
    assert!(matches!(error, Error::NoEndOfText));

    let headless = tiny::engine(&tiny::headless_model(100), 100);
    let error = LmGenerator::new(headless, tiny::tokenizer(), settings()).unwrap_err();
    assert!(matches!(error, Error::NoHead));

    let zero = GeneratorConfig {
        max_step_tokens: 0,
        ..settings()
    };
    let error = LmGenerator::new(engine(), tiny::tokenizer(), zero).unwrap_err();
    assert!(matches!(error, Error::Setting(ConfigError::Zero { .. })));
}
