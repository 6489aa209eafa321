//! Given steps become tokens, and chains continue after them.

use beamgen_generator::GeneratorConfig;
use beamgen_search::*;

use crate::runs::*;
use crate::tiny;

/// The given steps of `1+1=?` as a generator with this boundary reads them.
fn opened(boundary: &str, steps: &[&str]) -> (Vec<GivenStep>, usize) {
    let config = GeneratorConfig {
        boundaries: vec![boundary.to_owned()],
        ..settings()
    };
    let mut generator = generator(4000, config.clone());
    let problem = Problem {
        steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        ..Problem::from("1+1=?")
    };
    let opened = generator.open(&problem, problem.key(), &config).unwrap();
    (opened.given, opened.prompt_tokens)
}

#[test]
fn a_token_that_holds_the_ends_of_two_steps_is_the_firsts() {
    let tokenizer = tiny::tokenizer();
    let token = |text: &str| tokenizer.encode(text, false).unwrap();
    let (given, prompt) = opened(".", &["1.", "\n2", "3."]);
    let texts: Vec<&str> = given.iter().map(|step| step.text.as_str()).collect();
    // A step without its boundary gets one.
    assert_eq!(texts, ["1.", "\n2.", "3."]);
    let tokens: Vec<_> = given.iter().map(|step| step.tokens.clone()).collect();
    assert_eq!(tokens, [token("1.\n"), token("2."), token("3.")]);
    let alone: Vec<bool> = given.iter().map(|step| step.tokens_match_text).collect();
    assert_eq!(alone, [false, false, true]);
    let alone = generator(4000, settings()).prompt("1+1=?").unwrap();
    assert_eq!(prompt, alone.len());
    // A character that the tokenizer does not know stays in the text.
    let (given, _) = opened(".", &["1z.", "\n2."]);
    assert_eq!(
        (given[0].text.as_str(), &given[0].tokens),
        ("1z.", &token("1."))
    );
    assert_eq!(given[1].tokens, token("\n2."));
    assert!(given.iter().all(|step| !step.tokens_match_text));
}

#[test]
fn a_chain_goes_on_from_its_own_first_steps_bit_for_bit() {
    let mut generator = generator(4000, settings());
    let (whole, _) = solve(&mut generator, &best_of(1, 4), problems(30));
    let mut compared = 0;
    for result in whole {
        let path = result.tree.path(result.finished[0].node);
        for count in 1..path.len() {
            let steps = path[..count].iter();
            let steps = steps.map(|&id| result.tree.node(id).text.clone());
            let problem = Problem {
                steps: steps.collect(),
                ..result.problem.clone()
            };
            if problem.steps.iter().any(|step| step.trim().is_empty()) {
                continue;
            }
            let (again, _) = solve(&mut generator, &best_of(1, 4), vec![problem]);
            let nodes = || result.tree.nodes().zip(again[0].tree.nodes());
            let given = nodes().take(count + 1);
            // The chain may have sampled other tokens than the tokenizer makes of the same text.
            if given
                .into_iter()
                .any(|((_, a), (_, b))| a.tokens != b.tokens)
            {
                continue;
            }
            compared += 1;
            assert_eq!(result.tree.len(), again[0].tree.len());
            for ((_, a), (_, b)) in nodes().skip(count + 1) {
                assert_eq!((&a.text, &a.tokens, a.state), (&b.text, &b.tokens, b.state));
                assert_eq!(a.logprob.to_bits(), b.logprob.to_bits());
            }
        }
    }
    assert!(compared > 5, "{compared}");
}

#[test]
fn the_context_stands_before_the_question() {
    let generator = generator(4000, settings());
    let context = ["2+2=4", "3+3=6"].map(str::to_owned).to_vec();
    let problem = Problem {
        context,
        ..Problem::from("1+1=?")
    };
    let written = generator.prompt("2+2=4\n\n3+3=6\n\n1+1=?").unwrap();
    assert_eq!(generator.prompt(&problem).unwrap(), written);
    let long = Problem {
        context: vec!["1+1".repeat(4000)],
        ..problem
    };
    let refused = generator.prompt(&long).unwrap_err();
    assert!(matches!(refused, GenError::TextTooLong { .. }), "{refused}");
}
