//! Tests the answer of each route to a valid request.

use beamgen::eval::Record;
use beamgen::scorer::score_chains;
use beamgen::{Request, Solver, StrategyKind};
use beamgen_serve::ServeOptions;
use serde::Serialize;
use serde_json::{Value, json};

use crate::client::{Running, ask, essence, problem};

/// Serializes and parses a value, as a client does. Parsing may change the last bit of a number, so
/// expected values pass through the same steps.
fn read_again(value: &impl Serialize) -> Value {
    let value = serde_json::to_value(value).unwrap();
    serde_json::from_str(&value.to_string()).unwrap()
}

#[test]
fn an_answer_is_that_of_the_library_in_the_shape_of_openai() {
    let server = Running::start(ServeOptions::default());
    let text = problem(0);
    let mut solver = Solver::builder().build().unwrap();
    let mut wanted = Request::new(text.as_str(), solver.settings()).n(8).seed(3);
    wanted.problem.answer = Some("7".to_owned());
    let result = solver.solve(wanted).unwrap();
    let record = read_again(&Record::new(&result, true));

    let own = json!({"n": 8, "seed": 3, "reference": "7", "tree": true});
    let answer = server.chat(&ask(&text, own.clone())).ok();
    for (key, value) in record.as_object().unwrap() {
        if key != "ledger" {
            assert_eq!(answer["beamgen"][key], *value, "{key}");
        }
    }
    let chosen = result.chosen.unwrap();
    let (content, choice) = (result.tree.text(chosen), &answer["choices"][0]);
    assert_eq!(choice["message"]["content"], content.trim());
    assert_eq!(choice["message"]["role"], "assistant");
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "beamgen");
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    let usage = &answer["usage"];
    assert_eq!(usage["completion_tokens"], result.tree.token_count(chosen));
    let sum =
        usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"], sum);

    // A completion is the same search in the other shape.
    let other = json!({"prompt": text, "beamgen": own});
    let other = server.post("/v1/completions", &other).ok();
    assert_eq!(other["object"], "text_completion");
    assert_eq!(other["choices"][0]["text"], content.trim());
    assert_eq!(other["beamgen"]["tree"], answer["beamgen"]["tree"]);
}

#[test]
fn every_setting_of_a_search_can_be_asked_for() {
    let server = Running::start(ServeOptions::default());
    let text = problem(1);
    let mut solver = Solver::builder().build().unwrap();
    let mut settings = solver.settings();
    settings.search.strategy = StrategyKind::BEST_OF_N;
    settings.search.n = 6;
    settings.search.choose = Some("majority".parse().unwrap());
    settings.search.aggregation = "product".parse().unwrap();
    settings.search.budget_tokens = 500;
    settings.generator.seed = 5;
    settings.generator.max_step_tokens = 60;
    settings.generator.sampling.temperature = Some(0.5);
    let mut request = Request::new(text.as_str(), settings);
    request.problem.id = "mine".to_owned();
    let result = solver.solve(request).unwrap();

    let mut body = ask(
        &text,
        json!({
            "strategy": "majority", "n": 6, "aggregation": "product", "budget_tokens": 500, "id": "mine", "seed": 5,
            "generator": {"max_step_tokens": 60, "sampling": {"temperature": 3.0}}, "tree": true,
        }),
    );
    let other = server.chat(&body).ok();
    // `temperature` wins over the key `generator.sampling.temperature`.
    body["beamgen"]["temperature"] = json!(0.5);
    let answer = server.chat(&body).ok();
    assert_eq!(answer["beamgen"]["tree"], read_again(&result.tree));
    assert_eq!(answer["beamgen"]["id"], "mine");
    assert_ne!(other["beamgen"]["tree"], answer["beamgen"]["tree"]);

    let mcts = json!({"strategy": "mcts", "n": 4, "search": {"mcts": {"exploration": 2.0}}});
    assert_eq!(
        server.chat(&ask(&text, mcts)).ok()["beamgen"]["strategy"],
        "mcts"
    );
}

#[test]
fn a_system_message_is_a_part_of_the_prompt() {
    let server = Running::start(ServeOptions::default());
    let mut body = ask(&problem(0), json!({"n": 2, "m": 1}));
    let alone = server.chat(&body).ok();
    let system = json!({"role": "system", "content": "Be brief."});
    body["messages"].as_array_mut().unwrap().insert(0, system);
    let told = server.chat(&body).ok();
    let read = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64();
    assert!(read(&told) > read(&alone));
}

#[test]
fn presets_are_models() {
    let server = Running::start(ServeOptions::default());
    let list = server.get("/v1/models").ok();
    let names: Vec<&Value> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["id"])
        .collect();
    assert_eq!(names, ["beamgen", "careful", "fast", "single", "vote"]);
    let fast = server.get("/v1/models/fast").ok();
    assert_eq!(
        (&fast["object"], &fast["beamgen"]["n"]),
        (&json!("model"), &json!(4))
    );
    let missing = server.get("/v1/models/slow").refusal();
    assert_eq!(missing, (404, "model_not_found".to_owned(), json!("model")));

    let mut body = ask(&problem(0), json!({}));
    body["model"] = json!("fast");
    let by_preset = server.chat(&body).ok();
    assert_eq!(
        (&by_preset["model"], &by_preset["beamgen"]["n"]),
        (&json!("fast"), &json!(4))
    );
    let by_hand = server.chat(&ask(&problem(0), json!({"n": 4, "m": 2}))).ok();
    assert_eq!(essence(&by_preset), essence(&by_hand));
}

#[test]
fn given_chains_get_the_scores_of_the_reward_model() {
    let server = Running::start(ServeOptions::default());
    let steps = [
        "Mia has 34 pens: 34.",
        "Leo has 8 more pens than Mia: 34 + 8 = 43.",
    ];
    let text = "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?";
    let mut model = Solver::builder().prepare_reward_model().unwrap();
    let mut model = model.reward_model().unwrap();
    let alone = score_chains(&mut *model, &[(text, &steps)]).unwrap();
    let alone = alone[0].as_ref().unwrap();

    let chain = json!({"id": "a", "problem": text, "steps": steps});
    let long = json!({"problem": "Mia has 3 pens. ".repeat(400), "steps": ["x"]});
    let bad = json!([
        {"id": 7, "problem": text, "steps": []},
        {"problem": text},
        {"problem": text, "steps": ["x", " "]},
        {"problem": text, "steps": vec!["x"; 100_000]},
        {"problem": text, "steps": ["x ".repeat(100_000)]},
        {"id": [1], "problem": text, "steps": ["x"]},
        3,
    ]);
    let mut chains = vec![chain.clone(), long];
    chains.extend(bad.as_array().unwrap().iter().cloned());
    chains.push(chain);
    let body = json!({"chains": chains, "aggregation": "last"});
    let scored = server.post("/v1/score", &body).ok();
    let first = &scored["data"][0];
    assert_eq!(first["scores"], json!(alone));
    assert_eq!(
        (&first["id"], &first["score"]),
        (&json!("a"), &json!(alone[1]))
    );
    let data = scored["data"].as_array().unwrap();
    assert_eq!(data.len(), 10);
    assert_eq!(data[9]["scores"], first["scores"]);
    let words = [
        "context",
        "\"steps\"",
        "\"steps\"",
        "steps[1]",
        "context",
        "context",
        "\"id\"",
        "object",
    ];
    for (at, (chain, word)) in data[1..9].iter().zip(words).enumerate() {
        let error = chain["error"].as_str().unwrap();
        assert!(error.contains(word) && chain["scores"].is_null(), "{chain}");
        let id = if at == 1 { 7 } else { at + 2 };
        assert_eq!(
            (&chain["index"], &chain["id"]),
            (&json!(at + 1), &json!(id.to_string()))
        );
    }
}

#[test]
fn given_answers_are_refined_and_guarded() {
    let server = Running::start(ServeOptions::default());
    let text = "Ana has 16 shells. Kim has 1 more shells than Ana. Ben has 10 fewer shells than Kim. \
                How many shells does Ben have?";
    let wrong = "Ana has 16 shells: 16.\nKim has 1 more shells than Ana: 16 + 1 = 17.\n\
                 Ben has 10 fewer shells than Kim: 17 + 10 = 27.\nThe answer is 27.";
    let steps: Vec<&str> = wrong.lines().collect();
    let chains = json!([
        {"id": "cut", "problem": text, "response": wrong, "answer": "7"},
        {"id": "steps", "problem": text, "steps": steps, "answer": 7},
        {"problem": text},
    ]);
    let settings = json!({"n": 8, "m": 4});
    let body = json!({"chains": chains, "rounds": 2, "beamgen": settings});
    let refined = server.post("/v1/refine", &body).ok();
    let data = &refined["data"];
    for (at, id) in ["cut", "steps"].iter().enumerate() {
        assert_eq!(
            (&data[at]["id"], &data[at]["index"]),
            (&json!(id), &json!(at))
        );
        assert_eq!(data[at]["before"]["steps"], json!(steps));
        assert_eq!(data[at]["before"]["correct"], false);
        assert_eq!(
            (&data[at]["after"]["correct"], &data[at]["changed"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(data[at]["after"], data[0]["after"]);
    }
    assert!(
        data[2]["error"].as_str().unwrap().contains("response"),
        "{data}"
    );
    let body = json!({"chains": chains, "rounds": 2, "beamgen": settings});
    let guarded = server.post("/v1/guard", &body).ok();
    let first = &guarded["data"][0];
    assert_eq!(
        (&first["verdict"], &first["answer"]),
        (&json!("mend"), &json!("7"))
    );
    assert_eq!(
        first["reasons"][0],
        json!({"code": "unsound", "step": 3, "reason": first["reasons"][0]["reason"]})
    );
    for (route, body, field) in [
        ("/v1/refine", json!({"chains": []}), "chains"),
        ("/v1/refine", json!({"chains": chains, "below": 2}), "below"),
        (
            "/v1/refine",
            json!({"chains": chains, "rounds": 1_000_000}),
            "rounds",
        ),
        (
            "/v1/refine",
            json!({"chains": chains, "bound": 0.5}),
            "bound",
        ),
        (
            "/v1/guard",
            json!({"chains": chains, "bound": "x"}),
            "bound",
        ),
        (
            "/v1/guard",
            json!({"chains": chains, "samples": 1_000_000}),
            "rounds",
        ),
        (
            "/v1/guard",
            json!({"chains": chains, "beamgen": {"steps": ["x"]}}),
            "beamgen.steps",
        ),
        (
            "/v1/guard",
            json!({"chains": chains, "beamgen": {"strategy": "x"}}),
            "beamgen.strategy",
        ),
    ] {
        let refused = server.post(route, &body);
        assert_eq!(refused.status, 400, "{body}");
        assert_eq!(refused.json()["error"]["param"], field, "{body}");
    }
}

#[test]
fn a_search_goes_on_from_the_steps_of_a_request() {
    let server = Running::start(ServeOptions::default());
    let text = "Ana has 16 shells. Kim has 1 more shells than Ana. Ben has 10 fewer shells than Kim. \
                How many shells does Ben have?";
    let ask = |steps: Value| {
        let settings = json!({"n": 16, "m": 4, "seed": 0, "steps": steps});
        server.post(
            "/v1/completions",
            &json!({"prompt": text, "beamgen": settings}),
        )
    };
    let given = [
        "Ana has 16 shells: 16.",
        "Kim has 1 more shells than Ana: 16 + 1 = 17.",
    ];
    let (plain, answer) = (ask(json!([])).ok(), ask(json!(given)).ok());
    let texts = |answer: &Value| {
        let steps = answer["beamgen"]["steps"].as_array().unwrap();
        steps
            .iter()
            .map(|step| step["text"].clone())
            .collect::<Vec<Value>>()
    };
    assert_eq!(json!(texts(&answer)[..2]), json!(given));
    assert_eq!(answer["beamgen"]["answer"], "7");
    assert!(
        answer["choices"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with(given[0])
    );
    let usage = |answer: &Value, key: &str| answer["usage"][key].as_u64().unwrap();
    assert!(usage(&answer, "prompt_tokens") > usage(&plain, "prompt_tokens"));
    assert!(usage(&answer, "completion_tokens") < usage(&plain, "completion_tokens"));
    for (steps, word) in [
        (json!("x"), "a string"),
        (json!([1]), "steps[0]"),
        (json!(["a", " "]), "steps[1]"),
    ] {
        let refused = ask(steps);
        let error = refused.json()["error"].clone();
        assert_eq!(
            (refused.status, &error["param"]),
            (400, &json!("beamgen.steps"))
        );
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
}

#[test]
fn the_small_routes_answer() {
    let server = Running::start(ServeOptions::default());
    assert_eq!(server.get("/health").ok()["status"], "ok");
    assert_eq!(server.get("/ready").ok()["status"], "ready");
    let problems = server.get("/v1/problems").ok();
    assert_eq!(problems["data"][0]["text"], problem(0));

    let page = server.get("/");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(page.text().starts_with("<!doctype html>"));

    server.chat(&ask(&problem(0), json!({"n": 4, "m": 2}))).ok();
    let metrics = server.get("/metrics").text();
    for line in [
        "beamgen_in_flight 0",
        "beamgen_requests_total{route=\"chat\",status=\"200\"} 1",
        "beamgen_request_seconds_count{route=\"chat\"} 1",
        "beamgen_search_seconds_count 1",
    ] {
        assert!(
            metrics.lines().any(|l| l == line),
            "{line} is not in\n{metrics}"
        );
    }
    assert!(server.metric("beamgen_generated_tokens_total ") > 50.0);
    assert!(server.metric("beamgen_scored_steps_total ") >= 4.0);
    assert!(server.metric("beamgen_unsound_total ") <= 1.0);
}

#[test]
fn an_answer_that_is_withheld_is_a_refusal() {
    let server = Running::start(ServeOptions::default());
    let body = ask(&problem(0), json!({"n": 4, "m": 2, "threshold": 1.0}));
    let answer = server.chat(&body).ok();
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    assert!(
        message["refusal"].as_str().unwrap().contains("threshold 1"),
        "{message}"
    );
    assert!(answer["beamgen"]["withheld"].is_string());
}

#[test]
fn the_context_of_a_request_is_read_and_returned() {
    let server = Running::start(ServeOptions::default());
    let ask = |context: Value| {
        let body = json!({"prompt": "Ana has 16 shells. How many shells does Ana have?",
            "beamgen": {"n": 2, "m": 2, "context": context}});
        server.post("/v1/completions", &body)
    };
    let (plain, one) = (ask(json!(null)).ok(), ask(json!("Kim has 3 shells.")).ok());
    assert!(plain["beamgen"].get("context").is_none());
    assert_eq!(one["beamgen"]["context"], json!(["Kim has 3 shells."]));
    let usage = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(usage(&one) > usage(&plain));
    let refused = ask(json!({"text": "x"})).json()["error"].clone();
    assert_eq!(refused["param"], "beamgen.context", "{refused}");
    let chain = json!({"problem": "p", "steps": ["a"], "context": 7});
    let told = server.post("/v1/guard", &json!({"chains": [chain]})).ok();
    let error = told["data"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("field \"context\": "), "{error}");
}
