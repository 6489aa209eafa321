//! Chains that stop at given texts, and chains that continue a given prefix.

use beamgen_generator::GeneratorConfig;
use beamgen_search::*;

use crate::runs::*;

fn with_stop(stop: &[&str], include_stop: bool) -> GeneratorConfig {
    GeneratorConfig {
        stop: stop.iter().map(|&stop| stop.to_owned()).collect(),
        include_stop,
        answer_markers: Vec::new(),
        ..settings()
    }
}

fn one() -> SearchConfig {
    SearchConfig {
        strategy: StrategyKind::BEST_OF_N,
        n: 1,
        max_steps: 60,
        ..SearchConfig::default()
    }
}

/// Returns the result, the sampled text and the reason for the end of each problem's only chain.
fn chains(config: GeneratorConfig, problems: Vec<Problem>) -> Vec<(ProblemResult, String, Finish)> {
    let (results, _) = solve(&mut generator(4000, config), &one(), problems);
    let chains = results.into_iter().map(|result| {
        assert_eq!(result.error, None);
        let [chain] = &result.finished[..] else {
            panic!("one chain");
        };
        let (text, finish) = (result.written(chain.node), chain.finish);
        (result, text, finish)
    });
    chains.collect()
}

#[test]
fn a_stop_cuts_the_text_in_every_search() {
    let searches = [one(), best_of(4, 4), beam(8, 2, 4)];
    let mut stopped = 0;
    for stop in [&["3"][..], &["\n\n", "b"], &["ab", "+", "é"]] {
        for include in [false, true] {
            let config = with_stop(stop, include);
            for search in &searches {
                let (results, _) =
                    solve(&mut generator(4000, config.clone()), search, problems(12));
                for result in &results {
                    for chain in &result.finished {
                        let text = result.tree.text(chain.node);
                        let is_stop = chain.finish == Finish::Stop;
                        stopped += usize::from(is_stop);
                        // An included stop is in the text only once, at its end.
                        let end = stop.iter().filter(|_| include && is_stop);
                        let end = end
                            .filter(|stop| text.ends_with(*stop))
                            .map(|stop| stop.len());
                        let before = &text[..text.len() - end.max().unwrap_or(0)];
                        assert_eq!(include && is_stop, before.len() < text.len());
                        assert!(!stop.iter().any(|stop| before.contains(stop)), "{text:?}");
                        assert!(!is_stop || chain.finish.is_complete());
                    }
                }
            }
        }
    }
    assert!(stopped > 20, "{stopped}");
}

#[test]
fn a_stop_that_no_step_comes_near_changes_nothing() {
    let plain = chains(with_stop(&[], false), problems(20));
    let rare = chains(with_stop(&["zzz"], false), problems(20));
    for ((a, ..), (b, ..)) in plain.iter().zip(&rare) {
        assert_eq!(a.tree, b.tree);
    }
}

#[test]
fn empty_fields_of_a_problem_change_nothing() {
    let plain = problems(6);
    let written = plain.iter().map(|problem| {
        let mut json = serde_json::to_value(problem).unwrap();
        json["turns"] = serde_json::json!([]);
        json["prefix"] = serde_json::json!("");
        json["tools"] = serde_json::json!([]);
        serde_json::from_value(json).unwrap()
    });
    let written: Vec<Problem> = written.collect();
    assert_eq!(plain, written);
    let tree = |problems| {
        let (results, _) = solve(&mut generator(4000, settings()), &best_of(4, 4), problems);
        results
            .into_iter()
            .map(|result| result.tree)
            .collect::<Vec<_>>()
    };
    assert_eq!(tree(plain), tree(written));
}

#[test]
fn a_prefix_begins_the_first_step_and_is_not_written() {
    for prefix in ["a", "1\n2\n", "1\n2\nab", "\n", "é"] {
        for steps in [&[][..], &["3+3\n"]] {
            let problem = Problem {
                prefix: prefix.to_owned(),
                steps: steps.iter().map(|&step| step.to_owned()).collect(),
                ..Problem::from("1+1=?")
            };
            for (result, written, _) in chains(with_stop(&[], false), vec![problem]) {
                let text = result.tree.text(result.finished[0].node);
                let given = steps.concat() + prefix;
                assert!(text.starts_with(&given), "{text:?}");
                assert_eq!(text[given.len()..], written);
            }
        }
    }
}

#[test]
fn the_tokens_of_a_prefix_follow_those_of_the_prompt() {
    let config = settings();
    let mut generator = generator(4000, config.clone());
    let alone = generator.prompt("1+1=?").unwrap();
    let problem = Problem {
        prefix: "1\nab".to_owned(),
        ..Problem::from("1+1=?")
    };
    let tokens = generator.prompt(&problem).unwrap();
    let rest = generator.tokenizer().encode("1\nab", false).unwrap();
    assert_eq!(tokens, [alone.clone(), rest].concat());
    let opened = generator.open(&problem, problem.key(), &config).unwrap();
    assert_eq!(opened.given.len(), 1);
    assert_eq!(opened.given[0].text, "1\n");
    assert_eq!(opened.begun, "ab");
    // The begun step is read with the prompt, so it counts as prompt tokens.
    assert_eq!(opened.prompt_tokens, alone.len() + 1);
}

#[test]
fn a_prefix_goes_on_as_the_chain_itself_did() {
    let mut compared = 0;
    for (result, text, finish) in chains(with_stop(&[], false), problems(12)) {
        let nodes: Vec<_> = result.tree.path(result.finished[0].node);
        let first = result.tree.node(nodes[0]);
        let tokenizer = crate::tiny::tokenizer();
        let mut prefix = Vec::new();
        for &token in &first.tokens[..first.tokens.len() / 2] {
            prefix.extend_from_slice(tokenizer.token_bytes(token));
        }
        let Ok(prefix) = String::from_utf8(prefix) else {
            continue;
        };
        // The limit of tokens per step counts sampled tokens, which are fewer after a prefix.
        if prefix.is_empty()
            || finish == Finish::StepCap && nodes.len() == 1
            || !first.text.starts_with(&prefix)
            || tokenizer.encode(&prefix, false).unwrap() != first.tokens[..first.tokens.len() / 2]
        {
            continue;
        }
        let problem = Problem {
            prefix: prefix.clone(),
            ..result.problem.clone()
        };
        for (again, written, _) in chains(with_stop(&[], false), vec![problem]) {
            compared += 1;
            assert_eq!(again.tree.text(again.finished[0].node), text);
            assert_eq!(prefix.clone() + &written, text);
        }
    }
    assert!(compared > 2, "{compared}");
}

#[test]
fn turns_are_read_before_the_question_and_tools_need_a_template_that_has_them() {
    let generator = generator(4000, settings());
    let problem = Problem {
        turns: vec![Turn {
            role: Role::User,
            content: "2+2".to_owned(),
        }],
        ..Problem::from("1+1=?")
    };
    assert_ne!(
        generator.prompt(&problem).unwrap(),
        generator.prompt("1+1=?").unwrap()
    );
    let tools = Problem {
        tools: vec![serde_json::json!({"name": "sum"})],
        ..Problem::from("1+1=?")
    };
    let refused = generator.prompt(&tools).unwrap_err().to_string();
    assert!(refused.contains("`tools`"), "{refused}");
    for long in [
        Problem {
            prefix: "1+1".repeat(4000),
            ..problem.clone()
        },
        Problem {
            turns: vec![Turn {
                role: Role::Assistant,
                content: "1+1".repeat(4000),
            }],
            ..problem.clone()
        },
    ] {
        let refused = generator.prompt(&long).unwrap_err();
        assert!(matches!(refused, GenError::TextTooLong { .. }), "{refused}");
    }
}
