//! Compares scores over servers with those of the families' published code (tests/fixtures/prm).

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use beamgen_engine::{
    Append, Checkpoint, Engine, EngineConfig, Model, ModelConfig, Output, ThreadPool, Tokenizer,
    Want, WeightType, Weights,
};
use beamgen_prm::{HeadSpec, PrmSpec};
use beamgen_remote::{Remote, RemoteScorer};
use beamgen_search::{Problem, ScoreItem, Scorer, StepRef, Submitted};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fake::{Fake, Reply, Seen};
use crate::runs::servers;

#[derive(Deserialize)]
struct Expected {
    chains: Vec<Chain>,
}

#[derive(Deserialize)]
pub(crate) struct Chain {
    problem: String,
    steps: Vec<String>,
    scores: Vec<f32>,
}

pub(crate) fn folder(name: &str) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/prm");
    PathBuf::from(fixtures).join(name)
}

pub(crate) fn expected(name: &str) -> Vec<Chain> {
    let text = std::fs::read_to_string(folder(name).join("expected.json")).unwrap();
    serde_json::from_str::<Expected>(&text).unwrap().chains
}

pub(crate) fn spec(name: &str) -> PrmSpec {
    let checkpoint = Checkpoint::from(&folder(name));
    let weights = Weights::load(checkpoint.clone()).unwrap();
    PrmSpec::of(&checkpoint, &weights).unwrap()
}

/// A server that imitates vLLM with the reward model of a fixture.
pub(crate) struct Served {
    engine: Mutex<Engine>,
    weights: Weights,
    tokenizer: Tokenizer,
    spec: PrmSpec,
    context: usize,
}

impl Served {
    pub(crate) fn load(name: &str) -> Self {
        let checkpoint = Checkpoint::from(&folder(name));
        let config = ModelConfig::load(checkpoint.clone()).unwrap();
        let weights = Weights::load(checkpoint.clone()).unwrap();
        let context = config.max_position_embeddings;
        let model = Model::from_weights(config, &weights, WeightType::F32).unwrap();
        let config = EngineConfig {
            kv_bytes: 1 << 24,
            ..EngineConfig::default()
        };
        Self {
            engine: Mutex::new(
                Engine::with_pool(Arc::new(model), config, ThreadPool::new(1)).unwrap(),
            ),
            weights,
            tokenizer: Tokenizer::load(checkpoint).unwrap(),
            spec: spec(name),
            context,
        }
    }

    /// Returns the rows at the positions `at`: hidden states or logits, as `output` says.
    pub(crate) fn rows(&self, ids: &[u32], at: &[usize], output: Output) -> Vec<Vec<f32>> {
        let mut engine = self.engine.lock().unwrap();
        let seq = engine.create();
        let want = Want::At(at);
        let rows = engine
            .forward(
                &[Append {
                    seq,
                    tokens: ids,
                    want,
                }],
                output,
            )
            .unwrap();
        let all = (0..at.len()).map(|i| rows.row(i).to_vec()).collect();
        engine.free(seq);
        all
    }

    /// Applies the head of the spec, then the normalisation as vLLM does it.
    fn classes(&self, hidden: &[f32]) -> Vec<f64> {
        let HeadSpec::Linear(layers) = &self.spec.head else {
            panic!("no head of its own");
        };
        let mut x: Vec<f64> = hidden.iter().map(|&x| f64::from(x)).collect();
        for (i, layer) in layers.iter().enumerate() {
            if i > 0 {
                for x in x.iter_mut() {
                    *x = x.max(0.0);
                }
            }
            let weight = self.weights.tensor(&layer.weight).unwrap();
            let bias = layer
                .bias
                .as_ref()
                .map(|name| self.weights.tensor(name).unwrap());
            x = weight
                .data
                .chunks(x.len())
                .enumerate()
                .map(|(o, row)| {
                    let sum: f64 = row.iter().zip(&x).map(|(&w, x)| f64::from(w) * x).sum();
                    sum + bias.as_ref().map_or(0.0, |bias| f64::from(bias.data[o]))
                })
                .collect();
        }
        if let [x] = x[..] {
            vec![1.0 / (1.0 + (-x).exp())]
        } else {
            let sum: f64 = x.iter().map(|x| x.exp()).sum();
            x.iter().map(|x| x.exp() / sum).collect()
        }
    }

    pub(crate) fn reply(&self, seen: &Seen) -> Reply {
        let ids = |value: &Value| -> Vec<u32> {
            let ids = value.as_array().unwrap().iter();
            ids.map(|id| id.as_u64().unwrap() as u32).collect()
        };
        let two_layers = matches!(&self.spec.head, HeadSpec::Linear(layers) if layers.len() > 1);
        let labels = matches!(self.spec.head, HeadSpec::Tokens(_));
        match seen.path.as_str() {
            "/v1/models" => Reply::Json(
                200,
                json!({"data": [{"id": "prm", "owned_by": "vllm", "root": "prm", "max_model_len": self.context}]}),
            ),
            "/version" => Reply::Json(200, json!({"version": "0.32.0"})),
            "/tokenize" => {
                let text = seen.body["prompt"].as_str().unwrap();
                Reply::Json(
                    200,
                    json!({"tokens": self.tokenizer.encode(text, false).unwrap()}),
                )
            }
            "/v1/completions" if labels => {
                let ids = ids(&seen.body["prompt"]);
                let row = &self.rows(&ids, &[ids.len() - 1], Output::Logits)[0];
                let wanted = seen.body["logprob_token_ids"].as_array().unwrap();
                let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
                let logprob = |id: &Value| {
                    let id = id.as_u64().unwrap();
                    let logprob = f64::from(row[id as usize]) - sum.ln();
                    (format!("token_id:{id}"), logprob.into())
                };
                let map: serde_json::Map<String, Value> = wanted.iter().map(logprob).collect();
                Reply::Json(
                    200,
                    json!({"choices": [{"logprobs": {"top_logprobs": [map]}}]}),
                )
            }
            "/classify" if !labels && !two_layers => {
                let ids = ids(&seen.body["input"]);
                let hidden = &self.rows(&ids, &[ids.len() - 1], Output::Hidden)[0];
                Reply::Json(
                    200,
                    json!({"data": [{"index": 0, "probs": self.classes(hidden)}]}),
                )
            }
            "/pooling" if two_layers => {
                let ids = ids(&seen.body["input"]);
                let tag = self.spec.step.tag.as_deref().unwrap();
                let tag = self.tokenizer.encode(tag, false).unwrap()[0];
                let at: Vec<usize> = (0..ids.len()).filter(|&i| ids[i] == tag).collect();
                let rows = self.rows(&ids, &at, Output::Hidden);
                let rows: Vec<_> = rows.iter().map(|row| self.classes(row)).collect();
                Reply::Json(200, json!({"data": [{"index": 0, "data": rows}]}))
            }
            _ => Reply::Json(404, json!({"detail": "Not Found"})),
        }
    }
}

fn scorer(remote: &Remote, server: &Fake, name: &str) -> Result<RemoteScorer, String> {
    let connection = remote.connect("prm", &servers([server.url()]));
    let tokenizer = Arc::new(Tokenizer::load(&*folder(name)).unwrap());
    let scorer = remote.scorer(
        connection.map_err(|e| e.to_string())?,
        tokenizer,
        &spec(name),
    );
    scorer.map(|made| made.0).map_err(|error| error.to_string())
}

/// Extends all chains together by one step at a time, each next to a sibling that is released
/// again.
pub(crate) fn grow(prm: &mut RemoteScorer, family: &str, chains: &[Chain]) -> Vec<Vec<f32>> {
    let problem = |text: &str| Problem {
        id: "p".into(),
        text: text.into(),
        answer: None,
        ..Problem::default()
    };
    let mut ids: Vec<_> = chains
        .iter()
        .map(|chain| prm.open(&problem(&chain.problem), 7).unwrap())
        .collect();
    let mut scores = vec![Vec::new(); chains.len()];
    for depth in 0..chains.iter().map(|chain| chain.steps.len()).max().unwrap() {
        let alive: Vec<usize> = (0..chains.len())
            .filter(|&c| depth < chains[c].steps.len())
            .collect();
        let written = |step: &str| match family {
            "math-shepherd-mistral-7b-prm" => format!("## Step {}: {step}\n\n", depth + 1),
            _ => format!("{step}\n"),
        };
        let steps: Vec<(usize, String, bool)> = alive
            .iter()
            .flat_map(|&c| {
                [
                    (c, written("no!"), false),
                    (c, written(&chains[c].steps[depth]), true),
                ]
            })
            .collect();
        let forks: Vec<_> = steps.iter().map(|&(c, ..)| prm.fork(ids[c])).collect();
        let items: Vec<ScoreItem<'_>> = steps
            .iter()
            .zip(&forks)
            .map(|((_, text, _), &id)| ScoreItem {
                id,
                steps: vec![StepRef {
                    text,
                    tokens: &[],
                    finish: None,
                }],
            })
            .collect();
        let batch = beamgen_search::BatchId(depth as u64);
        assert!(matches!(prm.submit(batch, &items), Submitted::Pending));
        let mut done = Vec::new();
        while done.is_empty() {
            done = prm.collect(true);
        }
        assert_eq!(done[0].0, batch);
        let scored = done.remove(0).1.unwrap();
        for (((c, _, own), id), scored) in steps.iter().zip(forks).zip(scored) {
            let scored = scored.unwrap();
            match own {
                true => {
                    scores[*c].extend(scored.probabilities.into_iter().flatten());
                    prm.release(std::mem::replace(&mut ids[*c], id));
                }
                false => prm.release(id),
            }
        }
    }
    for id in ids.into_iter() {
        prm.release(id);
    }
    scores
}

#[test]
fn scores_are_those_of_the_families_own_code() {
    for (name, route) in [
        ("step-token", "/classify"),
        ("qwen2.5-math-prm", "/pooling"),
        ("trl-token-classification", "/classify"),
        ("Qwen2.5-Math-1.5B-Instruct-PRM-0.2", "/classify"),
        ("math-shepherd-mistral-7b-prm", "/v1/completions"),
        ("Llama3.1-8B-PRM-Deepseek-Data", "/v1/completions"),
    ] {
        let served = Served::load(name);
        let server = Fake::start(move |seen| served.reply(seen));
        let remote = Remote::new().unwrap();
        let mut prm =
            scorer(&remote, &server, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let chains = expected(name);
        let scores = grow(&mut prm, name, &chains);
        for (chain, scores) in chains.iter().zip(&scores) {
            assert_eq!(chain.scores.len(), scores.len(), "{name}");
            for (expected, found) in chain.scores.iter().zip(scores) {
                assert!(
                    (expected - found).abs() < 1e-4,
                    "{name}: {expected} and {found}"
                );
            }
        }
        assert!(
            server.seen().iter().any(|seen| seen.path == route),
            "{name}"
        );
    }
}

#[test]
fn what_no_server_does_exactly_is_refused_with_what_does() {
    let refusal = |name: &str, plays_vllm: bool| {
        let server = Fake::start(move |seen| match (seen.path.as_str(), plays_vllm) {
            ("/v1/models", true) => Reply::Json(
                200,
                json!({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 512}]}),
            ),
            ("/props", false) => Reply::Json(
                200,
                json!({"default_generation_settings": {"n_ctx": 512}, "model_alias": "m"}),
            ),
            _ => Reply::Json(404, json!({"detail": "Not Found"})),
        });
        let remote = Remote::new().unwrap();
        let error = scorer(&remote, &server, name).unwrap_err();
        assert!(
            error.contains(&server.url()) && !error.contains('\n'),
            "{error}"
        );
        error
    };
    let ratio = refusal("EurusPRM-Stage2", true);
    assert!(
        ratio.contains("log-ratio") && ratio.contains("in this process"),
        "{ratio}"
    );
    let head = refusal("qwen2.5-math-prm", false);
    assert!(
        head.contains("llama.cpp has no route") && head.contains("vLLM"),
        "{head}"
    );
    let route = refusal("qwen2.5-math-prm", true);
    assert!(route.contains("--runner pooling"), "{route}");
    let route = refusal("trl-token-classification", true);
    assert!(
        route.contains("/classify") && route.contains("--runner pooling"),
        "{route}"
    );
}

/// An endpoint with only OpenAI's completions names the likeliest tokens by their text.
#[test]
fn an_endpoint_of_text_gives_the_same_label_scores() {
    let name = "math-shepherd-mistral-7b-prm";
    let served = Served::load(name);
    let tokenizer = Tokenizer::load(&*folder(name)).unwrap();
    let server = Fake::start(move |seen| {
        if seen.path != "/v1/completions" {
            let models = json!({"data": [{"id": "prm", "max_model_len": 512}]});
            return Reply::Json(200, models);
        }
        let ids = tokenizer
            .encode(seen.body["prompt"].as_str().unwrap(), true)
            .unwrap();
        let row = &served.rows(&ids, &[ids.len() - 1], Output::Logits)[0];
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        // The fixture's vocabulary is small, so all tokens are listed.
        let top = (0..tokenizer.len() as u32).map(|id| {
            let text = String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned();
            (text, json!(f64::from(row[id as usize]) - sum.ln()))
        });
        let top: serde_json::Map<String, Value> = top.collect();
        Reply::Json(
            200,
            json!({"choices": [{"logprobs": {"top_logprobs": [top]}}]}),
        )
    });
    let mut servers = servers([server.url()]);
    servers.engine = Some("openai".into());
    let remote = Remote::new().unwrap();
    let tokenizer = Arc::new(Tokenizer::load(&*folder(name)).unwrap());
    let connection = remote.connect("prm", &servers).unwrap();
    let (mut prm, _) = remote.scorer(connection, tokenizer, &spec(name)).unwrap();
    let chains = expected(name);
    let found = grow(&mut prm, name, &chains);
    let exact = Fake::start({
        let served = Served::load(name);
        move |seen| served.reply(seen)
    });
    let mut other = scorer(&remote, &exact, name).unwrap();
    let wanted = grow(&mut other, name, &chains);
    for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
        assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
    }
    assert_eq!(found.len(), wanted.len());
}

/// A server with another step tag returns rows for other tokens, which must be an error. So must a
/// missing label, which must not count as 0.
#[test]
fn rows_and_labels_that_are_missing_are_errors() {
    let refusal = |name: &'static str, change: fn(&mut Value)| {
        let served = Served::load(name);
        let server = Fake::start(move |seen| match served.reply(seen) {
            Reply::Json(200, mut value) => {
                change(&mut value);
                Reply::Json(200, value)
            }
            other => other,
        });
        scorer(&Remote::new().unwrap(), &server, name).unwrap_err()
    };
    let rows = refusal("qwen2.5-math-prm", |value| {
        if value["data"][0]["data"].is_array() {
            value["data"][0]["data"] = json!([]);
        }
    });
    assert!(
        rows.contains("0 rows for 2 steps") && rows.contains("step tag"),
        "{rows}"
    );
    let label = refusal("math-shepherd-mistral-7b-prm", |value| {
        if let Some(choices) = value.get_mut("choices") {
            let map = choices[0]["logprobs"]["top_logprobs"][0]
                .as_object_mut()
                .unwrap();
            let first = map.keys().next().unwrap().clone();
            map.remove(&first);
        }
    });
    assert!(label.contains("label token"), "{label}");
}
