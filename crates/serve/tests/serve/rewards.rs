//! Tests requests of clients and trainers that call reward models, with the bodies that their code
//! sends. Each must get the same scores as `/v1/score`, bit by bit.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use beamgen::Solver;
use beamgen::scorer::score_chains;
use beamgen_serve::{Key, ServeOptions};
use serde_json::{Value, json};

use crate::client::{Running, request};

pub(crate) const PROBLEM: &str = "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. \
                       How many pens does Kim have?";
pub(crate) const STEPS: [&str; 3] = [
    "Mia has 34 pens: 34.",
    "Leo has 8 more pens than Mia: 34 + 8 = 43.",
    "The answer is 21.",
];

/// Returns the scores of a chain, computed by the reward model without a server.
pub(crate) fn scored(problem: &str, steps: &[&str]) -> Vec<f32> {
    let mut model = Solver::builder().prepare_reward_model().unwrap();
    let mut model = model.reward_model().unwrap();
    let scores = score_chains(&mut *model, &[(problem, steps)]).unwrap();
    scores.into_iter().next().unwrap().unwrap()
}

fn lowest(scores: &[f32]) -> f32 {
    scores.iter().copied().fold(1.0, f32::min)
}

/// Writes a value as JSON and parses the text. The parser may miss the nearest number by one bit,
/// so expected values must pass it as the answers do.
pub(crate) fn sent(value: Value) -> Value {
    serde_json::from_str(&value.to_string()).expect("JSON")
}

/// Returns a chat in ChatML, the markup of Qwen's models.
fn chatml(problem: &str, response: &str) -> String {
    format!("{}{response}<|im_end|>\n", chatml_prompt(problem))
}

fn chatml_prompt(problem: &str) -> String {
    format!(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n\
         <|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n"
    )
}

fn marked() -> String {
    STEPS.map(|step| format!("{step}<extra_0>")).concat()
}

/// The request of `reward_hub/vllm/reward.py`, whose HTTP client reads `data[0].data[i][-1]`.
#[test]
fn reward_hub_gets_a_row_for_each_step() {
    let server = Running::start(ServeOptions::default());
    let wanted = scored(PROBLEM, &STEPS);
    let messages = json!([
        {"role": "system", "content": "Please reason step by step, and put your final answer within \\boxed{}."},
        {"role": "user", "content": PROBLEM},
        {"role": "assistant", "content": marked()},
    ]);
    let body = json!({"model": "Qwen/Qwen2.5-Math-PRM-7B", "messages": messages});
    let pooled = server.post("/pooling", &body).ok();
    let rows: Vec<[f32; 2]> = serde_json::from_value(pooled["data"][0]["data"].clone()).unwrap();
    let right: Vec<f32> = rows.iter().map(|row| row[1]).collect();
    assert_eq!(right, wanted);
    assert!(rows.iter().all(|[wrong, right]| *wrong == 1.0 - right));
    let entry = &pooled["data"][0];
    assert_eq!(
        (&entry["index"], &entry["object"]),
        (&json!(0), &json!("pooling"))
    );
    assert!(
        pooled["usage"]["prompt_tokens"].as_u64().unwrap() > 20,
        "{pooled}"
    );

    // Without step marks, the response is split as in a search. The base64 form must have the same
    // numbers.
    let mut plain = body.clone();
    plain["messages"][2]["content"] = json!(STEPS.join("\n"));
    plain["encoding_format"] = json!("base64");
    let coded = server.post("/pooling", &plain).ok();
    let flat: Vec<u8> = rows
        .iter()
        .flatten()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    assert_eq!(coded["data"][0]["data"], STANDARD.encode(flat));
}

/// The requests of `compute_score_disrm` in verl's `verl/experimental/reward_loop/reward_loop.py`.
#[test]
fn verl_gets_a_number_from_both_of_its_engines() {
    let server = Running::start(ServeOptions::default());
    let wanted = lowest(&scored(PROBLEM, &STEPS));
    let text = chatml(PROBLEM, &STEPS.join("\n"));
    let sglang = server
        .post("/v1/embeddings", &json!({"model": "rm", "input": text}))
        .ok();
    assert_eq!(sglang["data"][0]["embedding"], sent(json!([wanted])));
    let body = json!({"model": "rm", "input": text, "use_activation": true});
    let vllm = server.post("/classify", &body).ok();
    let both = sent(json!([1.0 - wanted, wanted]));
    assert_eq!(vllm["data"][0]["probs"], both);
    assert_eq!(
        (&vllm["data"][0]["num_classes"], &vllm["data"][0]["label"]),
        (&json!(2), &json!("LABEL_0"))
    );
    // verl turns the activation off, so the answer has logits, whose softmax is the score.
    let raw = server
        .post(
            "/classify",
            &json!({"model": "rm", "input": text, "activation": false}),
        )
        .ok();
    let logits: [f64; 2] = serde_json::from_value(raw["data"][0]["probs"].clone()).unwrap();
    let back = 1.0 / (1.0 + (logits[0] - logits[1]).exp());
    assert!(
        (back - f64::from(wanted)).abs() < 1e-6,
        "{back} for {wanted}"
    );
}

/// The names of the two lists in `vllm/entrypoints/pooling/scoring/protocol.py`.
#[test]
fn pairs_are_scored_by_all_names_of_their_lists() {
    let server = Running::start(ServeOptions::default());
    let (right, wrong) = (scored(PROBLEM, &STEPS[..1]), scored(PROBLEM, &STEPS));
    let responses = [STEPS[0].to_owned(), STEPS.join("\n")];
    let wanted = [lowest(&right), lowest(&wrong)];
    for (route, one, other) in [
        ("/score", "text_1", "text_2"),
        ("/v1/score", "text_1", "text_2"),
        ("/v1/score", "queries", "documents"),
        ("/score", "queries", "items"),
        ("/score", "data_1", "data_2"),
    ] {
        for problems in [json!(PROBLEM), json!([PROBLEM]), json!([PROBLEM, PROBLEM])] {
            let answer = server
                .post(
                    route,
                    &json!({"model": "rm", one: problems, other: responses}),
                )
                .ok();
            let scores = [&answer["data"][0]["score"], &answer["data"][1]["score"]];
            assert_eq!(
                scores,
                [&sent(json!(wanted[0])), &sent(json!(wanted[1]))],
                "{route} {one}"
            );
            assert_eq!(answer["data"][1]["object"], "score");
        }
    }
    let refused = server.post(
        "/score",
        &json!({"text_1": ["a", "b", "c"], "text_2": ["x", "y"]}),
    );
    assert_eq!(
        refused.refusal(),
        (400, "invalid_value".to_owned(), json!("text_1"))
    );
}

/// The requests of `cohere.ClientV2.rerank`, of Jina's API, and of `RerankRequest` in vLLM.
#[test]
fn rerankers_get_the_best_response_first() {
    let server = Running::start(ServeOptions::default());
    let documents = json!([STEPS.join("\n"), {"text": STEPS[0]}, STEPS[0]]);
    let (wrong, right) = (
        lowest(&scored(PROBLEM, &STEPS)),
        lowest(&scored(PROBLEM, &STEPS[..1])),
    );
    assert!(right > wrong);
    for route in ["/rerank", "/v1/rerank", "/v2/rerank"] {
        let body = json!({"model": "rm", "query": PROBLEM, "documents": documents});
        let ranked = server.post(route, &body).ok();
        let results = ranked["results"].as_array().unwrap();
        let order: Vec<(u64, f32)> = results
            .iter()
            .map(|r| {
                (
                    r["index"].as_u64().unwrap(),
                    r["relevance_score"].as_f64().unwrap() as f32,
                )
            })
            .collect();
        assert_eq!(order, [(1, right), (2, right), (0, wrong)]);
        assert_eq!(results[0]["document"]["text"], STEPS[0]);
    }
    let body =
        json!({"query": PROBLEM, "documents": documents, "top_n": 1, "return_documents": false});
    let ranked = server.post("/rerank", &body).ok();
    assert_eq!(
        ranked["results"],
        sent(json!([{"index": 1, "relevance_score": right}]))
    );
    let body = json!({"query": PROBLEM, "documents": [STEPS[0], " "]});
    let ranked = server.post("/rerank", &body).ok();
    assert_eq!(ranked["results"].as_array().unwrap().len(), 1);
    assert_eq!(ranked["errors"][0]["index"], 1);
}

/// The requests of `openrlhf/utils/agent.py` (`_fetch_rewards_via_http`) and
/// `openrlhf/utils/remote_rm_utils.py`.
#[test]
fn openrlhf_gets_rewards_and_the_places_of_steps() {
    let server = Running::start(ServeOptions::default());
    let wanted = scored(PROBLEM, &STEPS);
    let response = STEPS.join("\n");
    let prompts = [
        chatml_prompt(PROBLEM),
        PROBLEM.to_owned() + "\n",
        PROBLEM.to_owned(),
    ];
    let queries = [
        chatml(PROBLEM, &response),
        format!("<s>{PROBLEM}\n{response}</s>"),
        format!("{PROBLEM}{response}"),
    ];
    let body = json!({"query": queries, "prompts": prompts, "labels": ["21", "21", null]});
    let rewarded = server.post("/get_reward", &body).ok();
    assert_eq!(rewarded["rewards"], sent(json!(vec![lowest(&wanted); 3])));
    assert_eq!(rewarded["scores"], rewarded["rewards"]);
    assert_eq!(rewarded["extra_logs"], json!({}));
    assert_eq!(rewarded["errors"], json!([null, null, null]));
    let characters: Vec<char> = response.chars().collect();
    for at in 0..3 {
        assert_eq!(rewarded["step_rewards"][at], sent(json!(wanted)), "{at}");
        let offsets: Vec<[usize; 2]> =
            serde_json::from_value(rewarded["offsets"][at].clone()).unwrap();
        let texts = offsets
            .iter()
            .map(|&[start, end]| characters[start..end].iter().collect());
        let texts: Vec<String> = texts.collect();
        assert_eq!(texts, STEPS);
    }
    // Users of a trainer cannot change its body, so the query of the address may set the rule.
    let bytes = request("/get_reward?aggregation=last", &body.to_string(), "");
    let last = server.send(&bytes).unwrap().ok();
    assert_eq!(last["rewards"][0], sent(json!(wanted[2])));
    // Earlier versions send no prompts; then the markup separates the problem from the response.
    let alone = server
        .post("/get_reward", &json!({"query": [queries[0]]}))
        .ok();
    assert_eq!(alone["rewards"], sent(json!([lowest(&wanted)])));
    let asked = json!({"query": ["Q: x\nA: 1"], "prompts": ["Q: x\nA: "], "problems": [PROBLEM]});
    let named = server.post("/get_reward", &asked).ok();
    assert_eq!(
        named["rewards"],
        sent(json!([lowest(&scored(PROBLEM, &["1"]))]))
    );
    // A sample that cannot be scored has no reward; the other samples keep theirs.
    let some = json!({"query": [queries[0], "x", queries[2]], "prompts": prompts});
    let some = server.post("/get_reward", &some).ok();
    assert_eq!(
        some["rewards"],
        sent(json!([lowest(&wanted), null, lowest(&wanted)]))
    );
    assert!(
        some["errors"][1].as_str().unwrap().contains("prompt"),
        "{some}"
    );
    // With `unscored`, a sample that cannot be scored gets that reward.
    let none = json!({"query": [prompts[0]], "prompts": [prompts[0]], "labels": [null]});
    assert_eq!(server.post("/get_reward", &none).refusal().0, 400);
    let bytes = request("/get_reward?unscored=-0.5", &none.to_string(), "");
    let named = server.send(&bytes).unwrap().ok();
    assert_eq!(
        (&named["rewards"], &named["step_rewards"]),
        (&json!([-0.5]), &json!([null]))
    );
    assert!(
        named["errors"][0].as_str().unwrap().contains("no step"),
        "{named}"
    );
}

/// The request of `remote_rm` in `slime/rollout/rm_hub/__init__.py`, which takes the whole answer
/// as the reward.
#[test]
fn slime_gets_a_number() {
    let server = Running::start(ServeOptions::default());
    let wanted = sent(json!(lowest(&scored(PROBLEM, &STEPS))));
    let response = STEPS.join("\n");
    for prompt in [
        json!(PROBLEM),
        json!(chatml_prompt(PROBLEM)),
        json!([{"role": "system", "content": "x"}, {"role": "user", "content": PROBLEM}]),
    ] {
        let body = json!({"prompt": prompt, "response": response, "label": "21"});
        assert_eq!(server.post("/get_reward", &body).ok(), wanted);
    }
    let empty = json!({"prompt": PROBLEM, "response": " ", "label": ""});
    let bytes = request("/get_reward?unscored=0", &empty.to_string(), "");
    assert_eq!(server.send(&bytes).unwrap().ok(), 0.0);
    let refused = server.post("/get_reward", &empty);
    assert_eq!(
        refused.refusal(),
        (400, "invalid_value".to_owned(), Value::Null)
    );
}

#[test]
fn our_own_chains_may_be_responses_with_separators_and_messages() {
    let server = Running::start(ServeOptions::default());
    let wanted = sent(json!(scored(PROBLEM, &STEPS)));
    let text = STEPS.join("\n\n");
    let turns = json!([
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "user", "content": PROBLEM},
        {"role": "assistant", "content": text},
    ]);
    let chains = json!([
        {"problem": PROBLEM, "steps": STEPS},
        {"problem": PROBLEM, "response": text},
        {"problem": PROBLEM, "response": STEPS.join(";"), "step_separator": ";"},
        {"problem": PROBLEM, "response": marked()},
        {"messages": [turns[2], turns[3]]},
        {"problem": PROBLEM, "steps": STEPS, "context": ["Hello.", "Hi."]},
        {"messages": turns},
        {"messages": [turns[2], turns[3]], "context": ["Hello.", "Hi."]},
        {"messages": [turns[2]]},
        {"problem": PROBLEM, "response": "a;;b", "step_separator": ";"},
        {"problem": PROBLEM, "response": "a", "step_separator": ""},
    ]);
    let data = server.post("/v1/score", &json!({"chains": chains})).ok()["data"].clone();
    for at in 0..5 {
        assert_eq!(data[at]["scores"], wanted, "{at}");
    }
    assert_eq!(data[0].get("offsets"), None);
    assert_eq!(
        data[1]["offsets"][1],
        json!([STEPS[0].len() + 2, STEPS[0].len() + 2 + STEPS[1].len()])
    );
    assert_ne!(data[5]["scores"], wanted);
    assert_eq!(
        (&data[6]["scores"], &data[7]["scores"]),
        (&data[5]["scores"], &data[5]["scores"])
    );
    for (at, word) in [(8, "last turn"), (9, "step 2"), (10, "step_separator")] {
        assert!(
            data[at]["error"].as_str().unwrap().contains(word),
            "{}",
            data[at]
        );
    }
    let body = json!({"chains": [{"problem": PROBLEM, "response": STEPS.join("|")}], "step_separator": "|"});
    assert_eq!(
        server.post("/v1/score", &body).ok()["data"][0]["scores"],
        wanted
    );
}

const ROUTES: [&str; 9] = [
    "/v1/score",
    "/score",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
    "/pooling",
    "/classify",
    "/v1/embeddings",
    "/get_reward",
];

#[test]
fn every_route_for_scores_needs_the_key_and_json() {
    let key: Key = "correct-horse-battery".parse().unwrap();
    let server = Running::start(ServeOptions {
        keys: vec![key],
        ..ServeOptions::default()
    });
    for route in ROUTES {
        assert_eq!(
            server.send(&request(route, "{}", "")).unwrap().status,
            401,
            "{route}"
        );
        let with_key = request(
            route,
            "{}",
            "Authorization: Bearer correct-horse-battery\r\n",
        );
        assert_eq!(server.send(&with_key).unwrap().status, 400, "{route}");
    }
}

#[test]
fn wrong_requests_name_their_field() {
    let server = Running::start(ServeOptions::default());
    let chat = chatml(PROBLEM, STEPS[0]);
    for (route, body, code, param) in [
        ("/v1/score", json!({}), "invalid_value", json!("chains")),
        (
            "/v1/score",
            json!({"chains": [], "aggregation": "x"}),
            "invalid_value",
            json!("aggregation"),
        ),
        (
            "/v1/score",
            json!({"chains": [1], "step_separator": ""}),
            "invalid_value",
            json!("step_separator"),
        ),
        (
            "/score",
            json!({"text_1": "x"}),
            "invalid_value",
            json!("text_2"),
        ),
        (
            "/score",
            json!({"text_1": "x", "text_2": [1]}),
            "invalid_value",
            json!("text_2"),
        ),
        (
            "/score",
            json!({"text_1": "x", "text_2": "y", "chains": []}),
            "unknown_field",
            json!("chains"),
        ),
        (
            "/rerank",
            json!({"documents": ["x"]}),
            "invalid_value",
            json!("query"),
        ),
        (
            "/rerank",
            json!({"query": "x", "documents": "y"}),
            "invalid_value",
            json!("documents"),
        ),
        (
            "/rerank",
            json!({"query": "x", "documents": ["y"], "top_n": -1}),
            "invalid_value",
            json!("top_n"),
        ),
        (
            "/pooling",
            json!({"messages": 3}),
            "invalid_value",
            Value::Null,
        ),
        (
            "/pooling",
            json!({"input": "no markup"}),
            "invalid_value",
            Value::Null,
        ),
        (
            "/pooling",
            json!({"input": [1, 2, 3]}),
            "invalid_value",
            json!("input"),
        ),
        (
            "/pooling",
            json!({"input": "<|robot|>x"}),
            "invalid_value",
            Value::Null,
        ),
        (
            "/pooling",
            json!({"input": chat, "encoding_format": "bytes"}),
            "invalid_value",
            json!("encoding_format"),
        ),
        (
            "/pooling",
            json!({"input": chat, "dimensions": 3}),
            "unsupported_field",
            json!("dimensions"),
        ),
        (
            "/classify",
            json!({"input": chat, "truncate_prompt_tokens": 3}),
            "unsupported_field",
            json!("truncate_prompt_tokens"),
        ),
        (
            "/classify",
            json!({"input": chat, "activation": "x"}),
            "invalid_value",
            json!("activation"),
        ),
        (
            "/classify",
            json!({"input": chat, "modle": "x"}),
            "unknown_field",
            json!("modle"),
        ),
        (
            "/v1/embeddings",
            json!({"input": "x ".repeat(100_000)}),
            "invalid_value",
            Value::Null,
        ),
        (
            "/v1/embeddings",
            json!({"input": chatml(&"Mia has 3 pens. ".repeat(4000), "x")}),
            "context_length_exceeded",
            Value::Null,
        ),
        (
            "/get_reward",
            json!({"prompts": ["x"]}),
            "invalid_value",
            json!("query"),
        ),
        (
            "/get_reward",
            json!({"query": ["x"], "prompts": []}),
            "invalid_value",
            json!("prompts"),
        ),
        (
            "/get_reward",
            json!({"query": ["xy"], "prompts": ["x"], "problems": []}),
            "invalid_value",
            json!("problems"),
        ),
        (
            "/get_reward",
            json!({"prompt": 3, "response": "x"}),
            "invalid_value",
            Value::Null,
        ),
        (
            "/get_reward",
            json!({"prompt": "x"}),
            "invalid_value",
            json!("response"),
        ),
        (
            "/get_reward",
            json!({"prompt": "x", "response": "y", "unscored": "no"}),
            "invalid_value",
            json!("unscored"),
        ),
        (
            "/get_reward",
            json!({"prompt": "x", "response": "y", "unscored": 1e99}),
            "invalid_value",
            json!("unscored"),
        ),
        (
            "/score",
            json!({"text_1": "x", "text_2": "y", "unscored": 0}),
            "unknown_field",
            json!("unscored"),
        ),
    ] {
        let refused = server.post(route, &body);
        assert_eq!(
            refused.refusal(),
            (400, code.to_owned(), param),
            "{route} {body}"
        );
    }
}
