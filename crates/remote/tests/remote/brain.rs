//! Servers that imitate the engines with a tiny random model: their routes, names and habits, as
//! documented or observed.

use std::sync::{Arc, Mutex};

use beamgen_engine::rng::Key;
use beamgen_engine::{
    Append, Engine, Model, RowEdits, SampleRequest, Sampled, Sampler, SamplingParams, Tokenizer,
    Want,
};
use serde_json::{Value, json};

use crate::fake::{Reply, Seen};
use crate::tiny;

/// The engine that a server imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plays {
    Vllm,
    SgLang,
    LlamaCpp,
    /// Any other server that has only `OpenAI`'s routes.
    OpenAi,
}

pub(crate) const ENGINES: [Plays; 3] = [Plays::Vllm, Plays::SgLang, Plays::LlamaCpp];
pub(crate) const CONTEXT: usize = 96;

/// A model and its tokenizer, which answer the requests to a server.
pub(crate) struct Brain {
    plays: Plays,
    model: Arc<Model>,
    tokenizer: Arc<Tokenizer>,
    /// A mutex, since requests arrive on several threads.
    sampler: Mutex<Sampler>,
}

struct Asked {
    ids: Vec<u32>,
    most: usize,
    params: SamplingParams,
    seed: u64,
    stop: Vec<String>,
}

struct Answer {
    tokens: Vec<Sampled>,
    /// For each sampled token, the three likeliest tokens.
    likeliest: Vec<Vec<(u32, f32)>>,
    /// The string at which sampling stopped; empty for the end-of-text token, `None` for the limit.
    stopped: Option<String>,
    cached: usize,
}

fn float(value: &Value) -> f32 {
    value.as_f64().expect("every sampling field is sent") as f32
}

fn list(value: &Value) -> Vec<u32> {
    let ids = value.as_array().expect("token ids");
    ids.iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

impl Brain {
    pub(crate) fn new(plays: Plays) -> Self {
        Self {
            plays,
            model: tiny::model(CONTEXT),
            tokenizer: tiny::tokenizer(),
            sampler: Mutex::new(Sampler::new()),
        }
    }

    /// Reads tokens and returns the logits after them.
    fn logits(engine: &mut Engine, seq: beamgen_engine::SeqId, tokens: &[u32]) -> Vec<f32> {
        let want = Want::Last;
        let logits = engine.logits(&[Append { seq, tokens, want }]).unwrap();
        let mut row = Vec::new();
        engine.copy_logits(&logits, 0, &mut row).unwrap();
        row
    }

    fn generate(&self, asked: &Asked) -> Answer {
        let mut engine = tiny::engine(&self.model, 64);
        let seq = engine.create();
        let mut sampler = self.sampler.lock().unwrap();
        let (mut tokens, mut text) = (Vec::new(), Vec::new());
        let mut likeliest = Vec::new();
        let mut next = asked.ids.clone();
        let most = asked.most.min(CONTEXT - asked.ids.len());
        let mut stopped = None;
        let mut history = asked.ids.clone();
        while tokens.len() < most {
            let logits = Self::logits(&mut engine, seq, &next);
            let key = Key {
                seed: asked.seed,
                problem: 0,
                chain: 0,
            };
            let request = SampleRequest {
                logits: &logits[..self.tokenizer.len()],
                history: &history,
                params: asked.params,
                edits: RowEdits::default(),
                draw: key.at(tokens.len() as u32),
            };
            let mut drawn = Vec::new();
            sampler.sample_batch(engine.pool(), 1, |_| request.clone(), &mut drawn);
            tokens.push(drawn[0]);
            let mut top = Vec::new();
            sampler.top_log_probs(&logits[..self.tokenizer.len()], 3, &mut top);
            likeliest.push(top);
            let token = drawn[0].token;
            history.push(token);
            next = vec![token];
            if self.tokenizer.is_eos(token) {
                stopped = Some(String::new());
                break;
            }
            let seen = text.len();
            text.extend_from_slice(self.tokenizer.token_bytes(token));
            let whole = String::from_utf8_lossy(&text).into_owned();
            let found = asked.stop.iter().find(|stop| {
                let from = seen.saturating_sub(stop.len() - 1);
                text[from..]
                    .windows(stop.len())
                    .any(|w| w == stop.as_bytes())
                    && whole.contains(*stop)
            });
            if let Some(stop) = found {
                stopped = Some(stop.clone());
                break;
            }
        }
        Answer {
            tokens,
            likeliest,
            stopped,
            cached: asked.ids.len() - 1,
        }
    }

    pub(crate) fn reply(&self, seen: &Seen) -> Reply {
        let body = &seen.body;
        let path = seen.path.as_str();
        match (self.plays, path) {
            (Plays::Vllm, "/v1/models") => Reply::Json(
                200,
                json!({"object": "list", "data": [{"id": "tiny", "owned_by": "vllm", "root": "/models/tiny",
                    "max_model_len": CONTEXT}]}),
            ),
            (Plays::Vllm, "/version") => Reply::Json(200, json!({"version": "0.32.0"})),
            (Plays::SgLang, "/v1/models") => Reply::Json(
                200,
                json!({"object": "list", "data": [{"id": "tiny", "owned_by": "sglang", "root": "/models/tiny",
                    "max_model_len": CONTEXT}]}),
            ),
            (Plays::LlamaCpp, "/props") => Reply::Json(
                200,
                json!({"default_generation_settings": {"n_ctx": CONTEXT}, "model_alias": "tiny",
                    "model_path": "/models/tiny.gguf", "build_info": "b11434"}),
            ),
            (Plays::LlamaCpp, "/v1/models") => Reply::Json(
                200,
                json!({"data": [{"id": "tiny", "owned_by": "llamacpp"}]}),
            ),
            (Plays::Vllm | Plays::SgLang | Plays::LlamaCpp, "/health" | "/ready") => {
                Reply::With(200, vec![], String::new())
            }
            (Plays::LlamaCpp, "/tokenize") => self.tokenized(&body["content"]),
            (Plays::Vllm | Plays::SgLang, "/tokenize") => self.tokenized(&body["prompt"]),
            (Plays::Vllm, "/v1/completions") => self.vllm(body),
            (Plays::SgLang, "/generate") => self.sglang(body),
            (Plays::LlamaCpp, "/completion") => self.llama_cpp(body),
            (Plays::OpenAi, "/v1/models") => Reply::Json(
                200,
                json!({"object": "list", "data": [{"id": "tiny", "owned_by": "somebody", "context_length": CONTEXT}]}),
            ),
            (Plays::OpenAi, "/v1/completions") => self.openai(body),
            _ => Reply::Json(404, json!({"detail": "Not Found"})),
        }
    }

    fn tokenized(&self, text: &Value) -> Reply {
        let ids = self
            .tokenizer
            .encode(text.as_str().unwrap(), false)
            .unwrap();
        Reply::Json(200, json!({"tokens": ids, "count": ids.len()}))
    }

    fn too_long(ids: &[u32]) -> Option<Reply> {
        let message = format!("This model's maximum context length is {CONTEXT} tokens");
        let error = json!({"error": {"message": message, "type": "BadRequestError", "code": 400}});
        (ids.len() >= CONTEXT).then_some(Reply::Json(400, error))
    }

    /// Returns the log-probabilities of label tokens after `ids`.
    fn label_logprobs(&self, ids: &[u32], labels: &[u32]) -> Vec<f64> {
        let mut engine = tiny::engine(&self.model, 64);
        let seq = engine.create();
        let logits = Self::logits(&mut engine, seq, ids);
        let most = logits.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = logits.iter().map(|x| f64::from(x - most).exp()).sum();
        labels
            .iter()
            .map(|label| f64::from(logits[*label as usize] - most) - sum.ln())
            .collect()
    }

    fn vllm(&self, body: &Value) -> Reply {
        let ids = list(&body["prompt"]);
        if let Some(refused) = Self::too_long(&ids) {
            return refused;
        }
        let usage = json!({"prompt_tokens": ids.len(),
            "prompt_tokens_details": {"cached_tokens": ids.len() - 1}});
        if body["logprob_token_ids"].is_array() {
            let labels = list(&body["logprob_token_ids"]);
            let found = self.label_logprobs(&ids, &labels);
            let pairs = labels.iter().zip(found);
            let map: serde_json::Map<String, Value> = pairs
                .map(|(id, logprob)| (format!("token_id:{id}"), logprob.into()))
                .collect();
            return Reply::Json(
                200,
                json!({"choices": [{"text": "x", "logprobs": {"top_logprobs": [map]}}], "usage": usage}),
            );
        }
        assert_eq!(body["include_stop_str_in_output"], true);
        assert_eq!(body["return_token_ids"], true);
        let answer = self.generate(&Asked {
            ids,
            most: body["max_tokens"].as_u64().unwrap() as usize,
            params: params(body, "repetition_penalty"),
            seed: body["seed"].as_u64().unwrap(),
            stop: strings(&body["stop"]),
        });
        let (reason, stop) = match &answer.stopped {
            None => ("length", Value::Null),
            Some(stop) if stop.is_empty() => ("stop", Value::Null),
            Some(stop) => ("stop", stop.clone().into()),
        };
        let tokens: Vec<u32> = answer.tokens.iter().map(|t| t.token).collect();
        let logprobs: Vec<f32> = answer.tokens.iter().map(|t| t.logprob).collect();
        let mut told = json!({"token_logprobs": logprobs});
        if body["logprobs"] == 3 {
            assert_eq!(body["return_tokens_as_token_ids"], true);
            let tops = answer.likeliest.iter().zip(&answer.tokens);
            // vLLM reports the sampled token even if it is not one of the likeliest.
            let tops = tops.map(|(top, t)| {
                let all = top.iter().copied().chain([(t.token, t.logprob)]);
                all.map(|(id, logprob)| (format!("token_id:{id}"), logprob.into()))
                    .collect::<serde_json::Map<String, Value>>()
            });
            told["top_logprobs"] = tops.collect();
        }
        Reply::Json(
            200,
            json!({"id": "cmpl-1", "choices": [{"index": 0, "text": "not looked at", "token_ids": tokens,
                "logprobs": told, "finish_reason": reason, "stop_reason": stop}],
                "usage": usage, "metrics": {"queue_time_ms": 12.4}}),
        )
    }

    fn sglang(&self, body: &Value) -> Reply {
        let ids = list(&body["input_ids"]);
        if let Some(refused) = Self::too_long(&ids) {
            return refused;
        }
        let mut meta = json!({"prompt_tokens": ids.len(), "cached_tokens": ids.len() - 1,
            "queue_time": 0.0124});
        if body["token_ids_logprob"].is_array() {
            let labels = list(&body["token_ids_logprob"]);
            let found = self.label_logprobs(&ids, &labels);
            let rows: Vec<Value> = found
                .iter()
                .zip(&labels)
                .map(|(logprob, id)| json!([logprob, id, null]))
                .collect();
            meta["output_token_ids_logprobs"] = json!([rows]);
            return Reply::Json(
                200,
                json!({"text": "x", "output_ids": [2], "meta_info": meta}),
            );
        }
        let sampling = &body["sampling_params"];
        assert_eq!(sampling["no_stop_trim"], true);
        let answer = self.generate(&Asked {
            ids,
            most: sampling["max_new_tokens"].as_u64().unwrap() as usize,
            params: params(sampling, "repetition_penalty"),
            seed: sampling["sampling_seed"].as_u64().unwrap(),
            stop: strings(&sampling["stop"]),
        });
        let tokens: Vec<u32> = answer.tokens.iter().map(|t| t.token).collect();
        meta["output_token_logprobs"] = answer
            .tokens
            .iter()
            .map(|t| json!([t.logprob, t.token, null]))
            .collect();
        meta["finish_reason"] = match &answer.stopped {
            None => json!({"type": "length", "length": tokens.len()}),
            Some(stop) if stop.is_empty() => json!({"type": "stop", "matched": tiny::END}),
            Some(stop) => json!({"type": "stop", "matched": stop}),
        };
        Reply::Json(
            200,
            json!({"text": "x", "output_ids": tokens, "meta_info": meta}),
        )
    }

    /// Streams text in events of a few tokens each. Refuses fields that `OpenAI` does not have.
    fn openai(&self, body: &Value) -> Reply {
        const KNOWN: &str = "model prompt max_tokens temperature top_p presence_penalty frequency_penalty seed \
            logprobs n stream";
        let mut fields = body.as_object().unwrap().keys();
        if let Some(unknown) = fields.find(|field| !KNOWN.split(' ').any(|known| known == *field)) {
            let message = format!("Unrecognized request argument supplied: {unknown}");
            return Reply::Json(400, json!({"error": {"message": message}}));
        }
        let ids = self
            .tokenizer
            .encode(body["prompt"].as_str().unwrap(), true);
        let ids = ids.unwrap();
        if let Some(refused) = Self::too_long(&ids) {
            return refused;
        }
        let usage = json!({"prompt_tokens": ids.len()});
        let answer = self.generate(&Asked {
            ids,
            most: body["max_tokens"].as_u64().unwrap() as usize,
            params: SamplingParams {
                temperature: float(&body["temperature"]),
                top_p: body["top_p"].as_f64().unwrap_or(1.0) as f32,
                ..SamplingParams::default()
            },
            seed: body["seed"].as_u64().unwrap_or(0),
            stop: vec![],
        });
        let finish = match answer.stopped {
            None => "length",
            Some(_) => "stop",
        };
        // A token that ends inside a character sends no text until the character is complete.
        let (mut pieces, mut bytes): (Vec<(String, f32)>, Vec<u8>) = Default::default();
        for t in &answer.tokens {
            if !self.tokenizer.is_special(t.token) {
                bytes.extend_from_slice(self.tokenizer.token_bytes(t.token));
            }
            let whole = std::str::from_utf8(&bytes).map_or(0, str::len);
            let text = bytes.drain(..whole).collect();
            pieces.push((String::from_utf8(text).unwrap(), t.logprob));
        }
        pieces.push((String::from_utf8_lossy(&bytes).into_owned(), 0.0));
        let choice = |pieces: &[(String, f32)], finish: Value| {
            let text: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
            let (tokens, logprobs): (Vec<_>, Vec<_>) = pieces.iter().cloned().unzip();
            json!({"index": 0, "text": text, "finish_reason": finish,
                "logprobs": {"tokens": tokens, "token_logprobs": logprobs}})
        };
        if body["stream"] != true {
            return Reply::Json(
                200,
                json!({"choices": [choice(&pieces, finish.into())], "usage": usage}),
            );
        }
        let mut events: Vec<Value> = pieces
            .chunks(3)
            .map(|some| json!({"choices": [choice(some, Value::Null)]}))
            .collect();
        events.push(json!({"choices": [{"index": 0, "text": "", "finish_reason": finish}]}));
        Reply::Events(events)
    }

    fn llama_cpp(&self, body: &Value) -> Reply {
        let ids = list(&body["prompt"]);
        if let Some(refused) = Self::too_long(&ids) {
            return refused;
        }
        let timings = json!({"cache_n": ids.len() - 1, "prompt_n": 1});
        if let Some(bias) = body["logit_bias"].as_array() {
            assert_eq!(body["post_sampling_probs"], true);
            let labels: Vec<u32> = bias.iter().map(|b| b[0].as_u64().unwrap() as u32).collect();
            let found = self.label_logprobs(&ids, &labels);
            let sum: f64 = found.iter().map(|x| x.exp()).sum();
            let pairs = labels.iter().zip(found);
            let top: Vec<Value> = pairs
                .map(|(id, logprob)| json!({"id": id, "prob": logprob.exp() / sum}))
                .collect();
            return Reply::Json(
                200,
                json!({"content": "x", "stop": true, "stop_type": "limit", "timings": timings,
                    "completion_probabilities": [{"id": labels[0], "top_probs": top}]}),
            );
        }
        let answer = self.generate(&Asked {
            ids,
            most: body["n_predict"].as_u64().unwrap() as usize,
            params: params(body, "repeat_penalty"),
            seed: body["seed"].as_u64().unwrap(),
            stop: strings(&body["stop"]),
        });
        let stop = match &answer.stopped {
            None => "limit",
            Some(stop) if stop.is_empty() => "eos",
            Some(_) => "word",
        };
        let tokens: Vec<u32> = answer.tokens.iter().map(|t| t.token).collect();
        // Like llama.cpp, it leaves out tokens at which it stopped and tokens that end inside a
        // character.
        let left_out = answer
            .stopped
            .iter()
            .filter(|stop| !stop.is_empty())
            .count();
        let shown = answer.tokens.len() - left_out;
        let whole = |t: &&Sampled| std::str::from_utf8(self.tokenizer.token_bytes(t.token)).is_ok();
        let probabilities: Vec<Value> = answer.tokens[..shown]
            .iter()
            .filter(whole)
            .map(|t| json!({"id": t.token, "logprob": t.logprob}))
            .collect();
        let mut body = json!({"content": "x", "tokens": tokens, "stop": true, "stop_type": stop,
            "timings": {"cache_n": answer.cached, "prompt_n": 1}});
        if !probabilities.is_empty() {
            body["completion_probabilities"] = probabilities.into();
        }
        Reply::Json(200, body)
    }
}

fn strings(value: &Value) -> Vec<String> {
    let strings = value.as_array().expect("stop strings");
    strings
        .iter()
        .map(|s| s.as_str().unwrap().to_owned())
        .collect()
}

fn params(body: &Value, penalty: &str) -> SamplingParams {
    SamplingParams {
        temperature: float(&body["temperature"]),
        top_k: body["top_k"].as_i64().expect("top_k").max(0) as usize,
        top_p: float(&body["top_p"]),
        min_p: float(&body["min_p"]),
        repetition_penalty: float(&body[penalty]),
    }
}
