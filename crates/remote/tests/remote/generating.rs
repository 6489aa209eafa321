//! Greedy chains over servers equal those of the local model, and sampled ones are the same in
//! every run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use beamgen_remote::Remote;
use beamgen_search::{Finish, GeneratorConfig, Grammar};
use serde_json::json;

use crate::brain::{Brain, ENGINES, Plays};
use crate::fake::{Fake, Reply};
use crate::runs::*;
use crate::tiny;

#[test]
fn greedy_chains_are_those_of_the_local_model_token_for_token() {
    let problems = problems(24);
    let mut ends = Vec::new();
    for plays in ENGINES {
        let server = brain(plays);
        let remote = Remote::new().unwrap();
        let mut generator = connect(&remote, &servers([server.url()])).unwrap();
        for (boundaries, starts, step_tokens, penalty) in [
            (vec!["\n", "d"], vec![], 0, 1.0),
            (vec!["\n\n"], vec![], 0, 1.0),
            (vec![], vec!["a", "b+"], 0, 1.2),
            (vec!["é", "?a"], vec!["2"], 0, 50.0),
            (vec!["."], vec![], 5, 1.8),
        ] {
            let mut settings = settings("greedy", 1, 0.0);
            let own = |marks: &[&str]| marks.iter().map(|&m| m.to_owned()).collect::<Vec<_>>();
            settings.generator.boundaries = own(&boundaries);
            settings.generator.starts = own(&starts);
            settings.generator.step_tokens = step_tokens;
            settings.generator.sampling.repetition_penalty = Some(penalty);
            if penalty > 10.0 {
                // With this penalty a token is repeated only when all others have been used, the
                // end-of-text token included.
                settings.generator.max_step_tokens = 40;
            }
            settings.search.max_steps = 12;
            let (expected, outcome) = run(&mut local(), &settings, &problems);
            outcome.unwrap();
            let (found, outcome) = run(&mut generator, &settings, &problems);
            outcome.unwrap();
            for (expected, found) in expected.iter().zip(&found) {
                assert_eq!(chains(expected), chains(found), "{plays:?} {boundaries:?}");
                ends.extend(chains(found).iter().filter_map(|chain| chain.2));
            }
        }
    }
    for end in [Finish::StepCap, Finish::ChainCap, Finish::EndOfText] {
        assert!(ends.contains(&end), "no chain ended at {end:?}");
    }
}

#[test]
fn log_probabilities_are_those_of_the_local_model() {
    let problems = problems(6);
    let server = brain(Plays::Vllm);
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &servers([server.url()])).unwrap();
    for count in [0, 3] {
        let mut settings = settings("greedy", 1, 0.0);
        settings.generator.logprobs = Some(count);
        let (expected, outcome) = run(&mut local(), &settings, &problems);
        outcome.unwrap();
        let (found, outcome) = run(&mut generator, &settings, &problems);
        outcome.unwrap();
        let mut tokens = 0;
        for (expected, found) in expected.iter().zip(&found) {
            for ((_, expected), (_, found)) in expected.tree.nodes().zip(found.tree.nodes()) {
                assert_eq!(expected.token_logprobs, found.token_logprobs);
                tokens += found.token_logprobs.len();
            }
        }
        assert!(tokens > 40, "{tokens} tokens");
    }
}

#[test]
fn settings_that_need_logits_are_refused_by_name() {
    let remote = Remote::new().unwrap();
    for plays in ENGINES {
        let server = brain(plays);
        let mut generator = connect(&remote, &servers([server.url()])).unwrap();
        let mut error = |change: &dyn Fn(&mut GeneratorConfig)| {
            let mut settings = settings("greedy", 1, 0.0);
            change(&mut settings.generator);
            let (found, _) = run(&mut generator, &settings, &problems(1));
            found[0].error.clone().unwrap_or_default()
        };
        let grammar = error(&|config| config.grammar = Some(Grammar::JsonObject));
        assert!(grammar.contains("`grammar`"), "{plays:?}: {grammar}");
        let bias = error(&|config| config.logit_bias = [(3, 1.0)].into());
        assert!(bias.contains("`logit_bias`"), "{plays:?}: {bias}");
        assert_eq!(error(&|config| config.logprobs = Some(0)), "", "{plays:?}");
        let alternatives = error(&|config| config.logprobs = Some(1));
        assert_eq!(
            alternatives.contains("`logprobs above 0`"),
            plays != Plays::Vllm,
            "{plays:?}: {alternatives}"
        );
    }
}

#[test]
fn sampled_searches_are_the_same_whatever_else_is_in_flight() {
    let problems = problems(6);
    let server = brain(Plays::Vllm);
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &servers([server.url()])).unwrap();
    for strategy in ["beam", "dvts", "best-of-n", "mcts", "rebase"] {
        let mut settings = settings(strategy, 6, 1.3);
        let (together, outcome) = run(&mut generator, &settings, &problems);
        outcome.unwrap();
        settings.search.in_flight = 1;
        let (alone, outcome) = run(&mut generator, &settings, &problems);
        outcome.unwrap();
        let mut distinct = std::collections::BTreeSet::new();
        for (together, alone) in together.iter().zip(&alone) {
            assert_eq!(chains(together), chains(alone), "{strategy}");
            distinct.extend(chains(together).into_iter().map(|chain| chain.0));
        }
        assert!(distinct.len() > 12, "{strategy}: {distinct:?}");
    }
}

/// A step that is paused and resumed takes two requests.
#[test]
fn early_rejection_stops_steps_in_their_middle() {
    let server = brain(Plays::Vllm);
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &servers([server.url()])).unwrap();
    let mut settings = settings("beam", 8, 1.3);
    settings.search.early_rejection = 3;
    let (results, outcome) = run(&mut generator, &settings, &problems(4));
    let ledger = outcome.unwrap().ledger;
    assert!(results.iter().all(|result| result.error.is_none()));
    assert!(ledger.generated_tokens > 0);
    let short = server
        .seen()
        .into_iter()
        .filter(|seen| seen.body["max_tokens"] == 3);
    assert!(short.count() > 8);
}

#[test]
fn what_a_server_says_of_its_context_is_the_context() {
    for plays in ENGINES {
        let server = brain(plays);
        let remote = Remote::new().unwrap();
        let mut generator = connect(&remote, &servers([server.url()])).unwrap();
        let mut settings = settings("greedy", 1, 0.0);
        settings.generator.max_chain_tokens = 4000;
        settings.generator.max_step_tokens = 3000;
        settings.generator.boundaries = vec!["never".into()];
        let (expected, _) = run(&mut local(), &settings, &problems(4));
        let (found, outcome) = run(&mut generator, &settings, &problems(4));
        outcome.unwrap();
        for (expected, found) in expected.iter().zip(&found) {
            assert_eq!(chains(expected), chains(found), "{plays:?}");
        }
    }
}

#[test]
fn what_servers_say_of_cache_and_queue_is_counted() {
    for plays in ENGINES {
        let server = brain(plays);
        let remote = Remote::new().unwrap();
        let mut generator = connect(&remote, &servers([server.url()])).unwrap();
        let (_, outcome) = run(&mut generator, &settings("beam", 4, 1.0), &problems(3));
        outcome.unwrap();
        let traffic = generator.connection().traffic();
        // Each prompt is in the cache except its last token, so the difference is the number of
        // answers.
        let answered = traffic.prompt_tokens - traffic.cached_tokens.unwrap();
        assert!(answered > 0 && traffic.told_tokens == traffic.prompt_tokens);
        let queue = match plays {
            Plays::LlamaCpp => None,
            _ => Some(12 * answered),
        };
        assert_eq!(traffic.queue_milliseconds, queue, "{plays:?}");
        assert_eq!(traffic.queue_told, queue.map_or(0, |_| answered));
    }
}

/// The server is given no stop strings, so it samples past the boundary, which is found locally.
#[test]
fn what_a_server_samples_behind_a_step_is_dropped() {
    let brain = Brain::new(Plays::Vllm);
    let server = Fake::start(move |seen| {
        let mut seen = seen.clone();
        if seen.body["stop"].is_array() {
            seen.body["stop"] = json!([]);
        }
        brain.reply(&seen)
    });
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &servers([server.url()])).unwrap();
    let settings = settings("greedy", 1, 0.0);
    let (expected, _) = run(&mut local(), &settings, &problems(12));
    let (found, outcome) = run(&mut generator, &settings, &problems(12));
    outcome.unwrap();
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(chains(expected), chains(found));
    }
    assert!(generator.connection().traffic().discarded_tokens > 0);
}

/// The server samples fewer tokens than its reported context allows, as if its context were
/// smaller.
#[test]
fn a_clamped_answer_is_a_chain_cut_at_the_context() {
    let brain = Brain::new(Plays::Vllm);
    let server = Fake::start(move |seen| {
        let mut seen = seen.clone();
        if seen.body["max_tokens"].as_u64() > Some(5) {
            seen.body["max_tokens"] = json!(5);
            seen.body["stop"] = json!([]);
        }
        brain.reply(&seen)
    });
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &servers([server.url()])).unwrap();
    let mut settings = settings("greedy", 1, 0.0);
    settings.generator.boundaries = vec!["never".into()];
    let (results, outcome) = run(&mut generator, &settings, &problems(3));
    outcome.unwrap();
    for result in &results {
        let ends: Vec<_> = chains(result).iter().filter_map(|chain| chain.2).collect();
        let fine = ends
            .iter()
            .all(|end| matches!(end, Finish::ChainCap | Finish::EndOfText));
        assert!(fine, "{ends:?}");
    }
}

#[test]
fn problems_are_pinned_and_routers_are_told() {
    let (one, two) = (brain(Plays::Vllm), brain(Plays::Vllm));
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &servers([one.url(), two.url()])).unwrap();
    let (results, outcome) = run(&mut generator, &settings("beam", 4, 1.0), &problems(12));
    outcome.unwrap();
    assert_eq!(results.len(), 12);
    let sessions = |server: &Fake| -> std::collections::BTreeSet<String> {
        let seen = server.seen();
        let steps = seen.iter().filter(|seen| seen.path == "/v1/completions");
        let keys = steps.map(|seen| {
            let key = seen.header("x-session-id").unwrap().to_owned();
            assert_eq!(seen.header("x-smg-routing-key"), Some(key.as_str()));
            key
        });
        // The probe's requests have no session.
        keys.filter(|key| !key.is_empty()).collect()
    };
    let (first, second) = (sessions(&one), sessions(&two));
    assert_eq!(first.len() + second.len(), 12);
    assert!(first.is_disjoint(&second) && !first.is_empty() && !second.is_empty());
}

#[test]
fn a_cancelled_problem_closes_its_connections() {
    let brain = Brain::new(Plays::Vllm);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Fake::start(move |seen| {
        // Only requests of the probe are answered; steps hang.
        if seen.is_step() {
            count.fetch_add(1, Ordering::SeqCst);
            Reply::Hang
        } else {
            brain.reply(seen)
        }
    });
    let remote = Remote::new().unwrap();
    let mut generator = connect(&remote, &servers([server.url()])).unwrap();
    let settings = settings("best-of-n", 8, 1.0);
    let problem = &problems(1)[0];
    let mut opened = Vec::new();
    {
        use beamgen_search::{DecodeMode, Generator, Source, StepPlan};
        let root = generator
            .open(problem, 1, &settings.generator)
            .unwrap()
            .chain;
        for stream in 0..8 {
            let plan = StepPlan {
                stream,
                mode: DecodeMode::Sample,
                token_limit: 100,
            };
            opened.push(generator.try_start(Source::ForkOf(root), plan).unwrap());
        }
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while asked.load(Ordering::SeqCst) < 8 && std::time::Instant::now() < until {
            assert!(generator.pass().unwrap().steps.is_empty());
        }
        assert_eq!(generator.active(), 8);
        for chain in opened {
            generator.release(chain);
        }
        assert_eq!(generator.active(), 0);
        while server.gone() < 8 && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    assert_eq!(server.gone(), 8);
}

/// A server that ignores a field of its requests is refused before the first problem.
#[test]
fn servers_that_do_not_do_as_they_are_told_are_refused() {
    let refusal = |change: fn(&mut serde_json::Value)| {
        let brain = Brain::new(Plays::Vllm);
        let server = Fake::start(move |seen| match brain.reply(seen) {
            Reply::Json(status, mut value) => {
                change(&mut value);
                Reply::Json(status, value)
            }
            other => other,
        });
        let remote = Remote::new().unwrap();
        let error = connect(&remote, &servers([server.url()]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&server.url()) && !error.contains('\n'),
            "{error}"
        );
        error
    };
    let change = |value: &mut serde_json::Value| {
        if let Some(choice) = value.get_mut("choices") {
            choice[0]["token_ids"] = serde_json::Value::Null;
        }
    };
    assert!(refusal(change).contains("vLLM 0.10.2"));
    let change = |value: &mut serde_json::Value| {
        if let Some(choice) = value.get_mut("choices") {
            choice[0]["logprobs"] = serde_json::Value::Null;
        }
    };
    assert!(refusal(change).contains("logprobs"));
    let change = |value: &mut serde_json::Value| {
        if let Some(tokens) = value.get_mut("tokens") {
            tokens[5] = 3.into();
        }
    };
    let error = refusal(change);
    assert!(
        error.contains("another tokenizer") && error.contains("token 6"),
        "{error}"
    );
    let change = |value: &mut serde_json::Value| {
        if let Some(data) = value.get_mut("data") {
            data[0]["max_model_len"] = serde_json::Value::Null;
        }
    };
    assert!(refusal(change).contains("how many tokens"));
    let change = |value: &mut serde_json::Value| {
        if let Some(data) = value.get_mut("data") {
            data[0]["owned_by"] = "somebody".into();
        }
    };
    let error = refusal(change);
    assert!(error.contains("vllm, sglang, llama.cpp; if"), "{error}");
}

#[test]
fn servers_of_one_role_are_alike() {
    let (one, two) = (brain(Plays::Vllm), brain(Plays::SgLang));
    let remote = Remote::new().unwrap();
    let error = connect(&remote, &servers([one.url(), two.url()]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("alike") && error.contains("sglang"),
        "{error}"
    );
}

/// The library can be used inside an async runtime, where blocking is forbidden.
#[test]
fn it_starts_and_ends_under_a_runtime() {
    let server = brain(Plays::Vllm);
    let url = server.url();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async move {
        let remote = Remote::new().unwrap();
        let connection = remote.connect("generator", &servers([url])).unwrap();
        let config = GeneratorConfig::default();
        let made = remote
            .generator(connection, tiny::tokenizer(), &config)
            .unwrap();
        assert_eq!(made.1.seed_repeats, Some(true));
        drop((remote, made));
    });
}
