//! Servers with only `OpenAI`'s routes, with which text is exchanged.

use beamgen_remote::{Remote, Servers};
use beamgen_search::Finish;
use serde_json::{Value, json};

use crate::brain::{Brain, Plays};
use crate::fake::{Fake, Reply};
use crate::runs::*;
use crate::tiny;

fn as_openai(server: &Fake) -> Servers {
    let mut servers = servers([server.url()]);
    servers.engine = Some("openai".into());
    servers
}

/// Whether the text of these tokens is tokenised into the same tokens again.
fn canonical(ids: &[u32]) -> bool {
    let tokenizer = tiny::tokenizer();
    let shown: Vec<u32> = ids.iter().copied().filter(|&id| id != tiny::END).collect();
    tokenizer
        .encode(&tokenizer.decode(&shown, false).unwrap(), false)
        .is_ok_and(|again| again == shown)
}

#[test]
fn chains_are_those_of_the_local_model_where_their_text_has_one_reading() {
    let problems = problems(24);
    let server = brain(Plays::OpenAi);
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &as_openai(&server)).unwrap();
    let (mut same, mut ends) = (0, Vec::new());
    for (boundaries, starts, step_tokens) in [
        (vec!["\n", "d"], vec![], 0),
        (vec!["\n\n"], vec![], 0),
        (vec![], vec!["a", "b+"], 0),
        (vec!["."], vec![], 5),
    ] {
        let mut settings = settings("greedy", 1, 0.0);
        let own = |marks: &[&str]| marks.iter().map(|&m| m.to_owned()).collect::<Vec<_>>();
        settings.generator.boundaries = own(&boundaries);
        settings.generator.starts = own(&starts);
        settings.generator.step_tokens = step_tokens;
        settings.search.max_steps = 12;
        let (expected, outcome) = run(&mut local(), &settings, &problems);
        outcome.unwrap();
        let (found, outcome) = run(&mut generator, &settings, &problems);
        outcome.unwrap();
        for (expected, found) in expected.iter().zip(&found) {
            let (expected, found) = (chains(expected), chains(found));
            ends.extend(found.iter().filter_map(|chain| chain.2));
            for (expected, found) in expected.iter().zip(&found) {
                if !canonical(&expected.3) {
                    break;
                }
                // The texts are compared without tokens: leftover bytes after a step are tokenised
                // again.
                assert_eq!(expected.0, found.0, "{boundaries:?}");
                same += 1;
            }
        }
    }
    assert!(same > 50, "{same} chains have one reading");
    for end in [Finish::StepCap, Finish::ChainCap] {
        assert!(ends.contains(&end), "no chain ended at {end:?}");
    }
}

#[test]
fn likelihoods_are_the_servers_own() {
    let (problems, mut settings) = (problems(6), settings("greedy", 1, 0.0));
    settings.generator.boundaries = vec!["\n".into()];
    settings.search.max_steps = 1;
    let (expected, _) = run(&mut local(), &settings, &problems);
    let server = brain(Plays::OpenAi);
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &as_openai(&server)).unwrap();
    let (found, _) = run(&mut generator, &settings, &problems);
    let mut compared = 0;
    for (expected, found) in expected.iter().zip(&found) {
        let leaf = |result: &beamgen_search::ProblemResult| {
            let id = beamgen_search::NodeId(result.tree.len() as u32 - 1);
            let node = result.tree.node(id);
            (node.text.clone(), node.logprob)
        };
        let ((text, own), (other, theirs)) = (leaf(expected), leaf(found));
        if text == other && expected.tree.len() == 2 {
            assert!((own - theirs).abs() < 1e-4, "{text:?}: {own} and {theirs}");
            compared += 1;
        }
    }
    assert!(compared > 2, "{compared} steps were the same");
}

/// The server gets no stop strings, so the client has to close the connection.
#[test]
fn the_connection_closes_behind_the_end_of_a_step() {
    let brain = Brain::new(Plays::OpenAi);
    let server = Fake::start(move |seen| {
        if seen.is_step() {
            let event = |text: &str| json!({"choices": [{"text": text, "finish_reason": null}]});
            Reply::EventsAndHang(vec![event("12"), event("\n34")])
        } else {
            brain.reply(seen)
        }
    });
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &as_openai(&server)).unwrap();
    let mut settings = settings("best-of-n", 3, 1.0);
    settings.search.max_steps = 2;
    let mut problems = problems(2);
    for problem in &mut problems {
        problem.steps.clear();
    }
    let (results, outcome) = run(&mut generator, &settings, &problems);
    outcome.unwrap();
    for result in &results {
        let texts: Vec<String> = chains(result).into_iter().map(|chain| chain.0).collect();
        assert!(texts.contains(&"12\n12\n".to_owned()), "{texts:?}");
    }
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while server.gone() < 12 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(server.gone(), 12);
}

#[test]
fn what_such_an_endpoint_lacks_is_one_line() {
    let refusal = |change: fn(&str, &mut Value), servers: fn(&Fake) -> Servers| {
        let brain = Brain::new(Plays::OpenAi);
        let server = Fake::start(move |seen| match brain.reply(seen) {
            Reply::Json(status, mut value) => {
                change(&seen.path, &mut value);
                Reply::Json(status, value)
            }
            other => other,
        });
        let remote = Remote::new().unwrap();
        let error = connect(&remote, &servers(&server)).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let unchanged = |_: &str, _: &mut Value| {};
    let error = refusal(unchanged, |server| servers([server.url()]));
    assert!(error.contains("set engine = \"openai\""), "{error}");
    let error = refusal(
        |path, value| {
            if path == "/v1/models" {
                value["data"][0]["context_length"] = Value::Null;
            }
        },
        as_openai,
    );
    assert!(error.contains("setting context"), "{error}");
    let error = refusal(
        |path, value| {
            if path == "/v1/models" {
                let models = value["data"].as_array_mut().unwrap();
                models.push(json!({"id": "other"}));
            }
        },
        as_openai,
    );
    assert!(error.contains("serves several"), "{error}");
    let error = refusal(
        |path, value| {
            if path == "/v1/completions" {
                value["usage"]["prompt_tokens"] = json!(3);
            }
        },
        as_openai,
    );
    assert!(error.contains("another tokenizer"), "{error}");
}

#[test]
fn a_setting_that_it_does_not_know_is_sent_only_where_it_matters() {
    let server = brain(Plays::OpenAi);
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &as_openai(&server)).unwrap();
    let mut settings = settings("best-of-n", 2, 1.0);
    settings.generator.sampling.top_k = Some(5);
    let (results, outcome) = run(&mut generator, &settings, &problems(1));
    let said = match outcome {
        Err(error) => error.to_string(),
        Ok(_) => results[0].error.clone().unwrap_or_default().to_string(),
    };
    assert!(said.contains("top_k"), "{said}");
}
