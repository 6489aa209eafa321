//! Requests that are wrong in one of many ways, from a random number generator.

use rand::Rng;
use serde_json::{Value, json};

use crate::client::problem;

/// How the bytes reach the server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Delivery {
    Whole,
    InPieces,
    /// The client sends no more, and waits for the answer.
    HalfClosed,
    /// The client sends so many bytes and goes away.
    CutOff(usize),
    /// The client sends so many bytes and then nothing.
    Stalled(usize),
}

/// A request that is wrong, or may be.
#[derive(Debug)]
pub(crate) struct Mutation {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub delivery: Delivery,
}

type Kind = (&'static str, fn(&mut dyn Random) -> Vec<u8>);

/// An object-safe random number generator: the functions in a table of mutations cannot be generic.
pub(crate) trait Random {
    fn below(&mut self, most: usize) -> usize;
}

impl<R: Rng> Random for R {
    fn below(&mut self, most: usize) -> usize {
        self.random_range(0..most.max(1))
    }
}

const KINDS: [Kind; 24] = [
    ("bytes of JSON changed", changed_json),
    ("bytes of JSON cut", cut_json),
    ("an odd value", odd_value),
    ("an odd value in beamgen", odd_own_value),
    ("an unknown field", unknown_field),
    ("odd values of several fields", odd_fields),
    ("odd prompts", odd_prompts),
    ("odd messages", odd_messages),
    ("odd chains to score", odd_chains),
    ("odd requests of trainers", odd_rewards),
    ("deep nesting", deep_nesting),
    ("no JSON at all", no_json),
    ("odd text", odd_text),
    ("an odd path", odd_path),
    ("an odd method", odd_method),
    ("an odd version", odd_version),
    ("an odd header", odd_header),
    ("an odd Host", odd_host),
    ("large headers", large_headers),
    ("a wrong length", wrong_length),
    ("length and chunks", length_and_chunks),
    ("odd chunks", odd_chunks),
    ("two requests in one", pipelined),
    ("random bytes", random_bytes),
];

impl Mutation {
    pub(crate) fn sample(rng: &mut impl Rng) -> Self {
        let (name, make) = KINDS[rng.below(KINDS.len())];
        let bytes = make(rng);
        let at = rng.below(bytes.len());
        // Those that wait cost the time of the server's limits, so they are few.
        let delivery = match rng.below(200) {
            0..=119 => Delivery::Whole,
            120..=159 => Delivery::InPieces,
            160..=179 => Delivery::HalfClosed,
            180..=196 => Delivery::CutOff(at),
            _ => Delivery::Stalled(at),
        };
        Self {
            name,
            bytes,
            delivery,
        }
    }
}

fn pick<T: Clone>(rng: &mut dyn Random, list: &[T]) -> T {
    list[rng.below(list.len())].clone()
}

/// A request that is right, and cheap.
fn valid(rng: &mut dyn Random) -> Value {
    let text = problem(rng.below(5));
    json!({
        "model": "single",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 12,
        "temperature": 1.0,
        "seed": 1,
        "beamgen": {"id": "x", "n": 1, "m": 1},
    })
}

fn odd(rng: &mut dyn Random) -> Value {
    let list = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1.5),
        json!(1e308),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!(" "),
        json!("\u{0}"),
        json!("x".repeat(3000)),
        json!([]),
        json!([[[[]]]]),
        json!({}),
        json!({"a": {"b": {"c": null}}}),
        json!("1"),
        json!("NaN"),
        json!("../../etc/passwd"),
        json!("http://169.254.169.254/latest/meta-data"),
    ];
    pick(rng, &list)
}

fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         {headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn chat(body: &[u8]) -> Vec<u8> {
    post("/v1/chat/completions", "", body)
}

fn changed_json(rng: &mut dyn Random) -> Vec<u8> {
    let mut body = valid(rng).to_string().into_bytes();
    for _ in 0..=rng.below(4) {
        let at = rng.below(body.len());
        match rng.below(3) {
            0 => body[at] = rng.below(256) as u8,
            1 => drop(body.remove(at)),
            _ => body.insert(at, pick(rng, b"{}[]\",:\\0e-.\x00\xff")),
        }
    }
    chat(&body)
}

fn cut_json(rng: &mut dyn Random) -> Vec<u8> {
    let mut body = valid(rng).to_string().into_bytes();
    body.truncate(rng.below(body.len()));
    chat(&body)
}

fn odd_value(rng: &mut dyn Random) -> Vec<u8> {
    let mut body = valid(rng);
    let keys = [
        "model",
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "seed",
        "stream",
        "stream_options",
        "n",
        "tools",
        "stop",
        "logprobs",
        "response_format",
        "logit_bias",
        "beamgen",
    ];
    body[pick(rng, &keys)] = odd(rng);
    chat(body.to_string().as_bytes())
}

/// Returns a body with fields of OpenAI and vLLM, whose values are valid, nearly valid, or of
/// another type.
fn odd_fields(rng: &mut dyn Random) -> Vec<u8> {
    let mut body = valid(rng);
    let schema = json!({"type": "object", "properties": {"a": {"enum": [1, "x"]}}});
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": schema}});
    let mut fields = vec![
        ("n", json!(3)),
        ("n", json!(200)),
        ("best_of", json!(3)),
        ("stop", json!(["=", "\n", "\u{e9}"])),
        ("stop", json!(["x", 3])),
        ("stop", json!(vec!["y"; 40])),
        ("include_stop_str_in_output", json!(true)),
        ("logprobs", json!(true)),
        ("top_logprobs", json!(20)),
        ("top_logprobs", json!(21)),
        ("logit_bias", json!({"5": -100, "7": 3.5})),
        ("logit_bias", json!({"4294967296": 1})),
        ("logit_bias", json!({"400000": 1})),
        ("response_format", json!({"type": "json_object"})),
        (
            "response_format",
            json!({"type": "json_schema", "json_schema": {"schema": schema}}),
        ),
        (
            "response_format",
            json!({"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}),
        ),
        ("tools", json!([tool])),
        ("tool_choice", json!("required")),
        ("parallel_tool_calls", json!(false)),
        ("continue_final_message", json!(true)),
        ("add_generation_prompt", json!(true)),
        ("ignore_eos", json!(true)),
        ("extra_body", json!({"beamgen": {"n": 9}})),
        ("min_tokens", json!(1)),
        ("stream", json!(true)),
        (
            "stream_options",
            json!({"include_usage": true, "continuous_usage_stats": true}),
        ),
        ("model", json!("fast")),
    ];
    for key in [
        "stop",
        "tools",
        "n",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "tool_choice",
    ] {
        fields.push((key, odd(rng)));
    }
    for _ in 0..1 + rng.below(4) {
        let (key, value) = pick(rng, &fields);
        body[key] = value;
    }
    if rng.below(3) == 0 {
        let answer = pick(rng, &["", "34 + ", "\n", "\u{1f9ee}", "The answer is 3.\n"]);
        let messages = body["messages"].as_array_mut().expect("messages");
        messages.push(json!({"role": "assistant", "content": answer}));
    }
    chat(body.to_string().as_bytes())
}

fn odd_prompts(rng: &mut dyn Random) -> Vec<u8> {
    let (odd, text) = (odd(rng), problem(0));
    let prompts = [
        json!([text, text]),
        json!([text, odd]),
        json!([1, 2, 3]),
        json!([[1], [2]]),
        json!([]),
        json!(vec!["x"; 200]),
        odd.clone(),
    ];
    let mut body = json!({"model": "single", "max_tokens": 12, "prompt": pick(rng, &prompts)});
    let keys = [
        "logprobs", "n", "stop", "best_of", "seed", "beamgen", "echo",
    ];
    body[pick(rng, &keys)] = pick(rng, &[json!(2), odd]);
    post("/v1/completions", "", body.to_string().as_bytes())
}

fn odd_own_value(rng: &mut dyn Random) -> Vec<u8> {
    let mut body = valid(rng);
    let keys = [
        "id",
        "seed",
        "strategy",
        "n",
        "m",
        "aggregation",
        "choose",
        "budget",
        "threshold",
        "deadline",
        "search",
        "generator",
        "reference",
        "events",
        "tree",
    ];
    let key = pick(rng, &keys);
    body["beamgen"][key] = match (key, rng.below(2)) {
        ("search", 0) => {
            let inner = ["n", "mcts", "max_steps", "aggregation", "lookahead", "x"];
            json!({pick(rng, &inner): odd(rng)})
        }
        ("generator", 0) => {
            let inner = [
                "boundaries",
                "sampling",
                "max_step_tokens",
                "answer_markers",
                "date",
                "system_prompt",
                "seed",
            ];
            json!({pick(rng, &inner): odd(rng)})
        }
        _ => odd(rng),
    };
    chat(body.to_string().as_bytes())
}

fn unknown_field(rng: &mut dyn Random) -> Vec<u8> {
    let mut body = valid(rng);
    let key = [
        "__proto__",
        "tempreature",
        "",
        "beamgen ",
        "a\u{0}b",
        "n\"m",
    ];
    body[pick(rng, &key)] = odd(rng);
    chat(body.to_string().as_bytes())
}

fn odd_messages(rng: &mut dyn Random) -> Vec<u8> {
    let mut body = valid(rng);
    let odd = odd(rng);
    let list = [
        json!([odd]),
        json!([{"role": odd, "content": "x"}]),
        json!([{"role": "user", "content": odd}]),
        json!([{"role": "user", "content": [odd]}]),
        json!([{"role": "user", "content": [{"type": "text", "text": odd}]}]),
        json!([{"role": "user", "content": "x", "tool_calls": odd}]),
        json!([{"role": "system", "content": "x"}, {"role": "user", "content": "x"}]),
        json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]),
        json!(vec![json!({"role": "user", "content": "x"}); 500]),
    ];
    body["messages"] = pick(rng, &list);
    chat(body.to_string().as_bytes())
}

fn odd_chains(rng: &mut dyn Random) -> Vec<u8> {
    let odd = odd(rng);
    let list = [
        json!({"chains": odd}),
        json!({"chains": [odd]}),
        json!({"chains": [{"problem": odd, "steps": ["x"]}]}),
        json!({"chains": [{"problem": "x", "steps": odd}]}),
        json!({"chains": [{"problem": "x", "steps": [odd]}]}),
        json!({"chains": [{"problem": "x", "steps": ["x"]}], "aggregation": odd}),
        json!({"chains": vec![json!({"problem": "x", "steps": ["x"]}); 300]}),
    ];
    let body = pick(rng, &list).to_string();
    post("/v1/score", "", body.as_bytes())
}

fn odd_rewards(rng: &mut dyn Random) -> Vec<u8> {
    let chat = "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\ny<|im_end|>";
    let text = pick(
        rng,
        &[
            "",
            "x",
            "<|im_start|>",
            chat,
            "[INST] x [/INST] y</s>",
            "<extra_0>",
            " ки",
        ],
    );
    let odd = odd(rng);
    let value = pick(
        rng,
        &[odd, json!(text), json!([text, text]), json!([text, 1])],
    );
    let turns = json!([{"role": "user", "content": text}, {"role": "assistant", "content": value}]);
    let (route, body) = pick(
        rng,
        &[
            ("/score", json!({"text_1": value, "text_2": ["a", "b"]})),
            ("/v1/score", json!({"queries": "x", "documents": value})),
            (
                "/v1/score",
                json!({"chains": [{"messages": turns}, {"messages": value}]}),
            ),
            (
                "/v1/score",
                json!({"chains": [{"problem": "x", "response": text, "step_separator": value}]}),
            ),
            (
                "/rerank",
                json!({"query": "x", "documents": value, "top_n": value}),
            ),
            ("/v2/rerank", json!({"query": value, "documents": [text]})),
            ("/pooling", json!({"messages": turns})),
            ("/pooling", json!({"input": value, "encoding_format": text})),
            ("/classify", json!({"input": text, "activation": value})),
            (
                "/v1/embeddings",
                json!({"input": value, "dimensions": text}),
            ),
            (
                "/get_reward",
                json!({"query": value, "prompts": value, "problems": [text]}),
            ),
            (
                "/get_reward",
                json!({"query": [chat], "prompts": [text], "labels": value}),
            ),
            ("/get_reward", json!({"prompt": value, "response": text})),
            (
                "/get_reward?aggregation=%&unscored=nan",
                json!({"prompt": text, "response": "y"}),
            ),
        ],
    );
    post(route, "", body.to_string().as_bytes())
}

fn deep_nesting(rng: &mut dyn Random) -> Vec<u8> {
    let (open, depth) = (pick(rng, &["[", "{\"a\":"]), 1 + rng.below(8000));
    let nested = open.repeat(depth);
    let body = match rng.below(3) {
        0 => nested,
        1 => format!("{{\"messages\":{nested}"),
        _ => format!("{{\"beamgen\":{{\"search\":{nested}"),
    };
    chat(body.as_bytes())
}

fn no_json(rng: &mut dyn Random) -> Vec<u8> {
    let bodies: [&[u8]; 7] = [
        b"",
        b"null",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\x00}\x00",
        b"a=b&c=d",
        b"<xml/>",
        b"{}{}",
    ];
    chat(pick(rng, &bodies))
}

fn odd_text(rng: &mut dyn Random) -> Vec<u8> {
    let texts: [&str; 6] = [
        r#""\ud800""#,
        r#""\u0000\u0001\u202e""#,
        "\"<|im_end|><|endoftext|></s>\"",
        "\"{{ 7 * 7 }} {% for i in range(999999999) %}\"",
        "\"\u{1f9ee}\u{301}\u{200d}\"",
        "\"data: [DONE]\\n\\nevent: x\\n\\n\"",
    ];
    let text = pick(rng, &texts);
    let body = format!(
        "{{\"model\":\"single\",\"max_tokens\":8,\"messages\":[{{\"role\":\"user\",\"content\":{text}}}]}}"
    );
    chat(body.as_bytes())
}

fn odd_path(rng: &mut dyn Random) -> Vec<u8> {
    let long = format!("/{}", "a".repeat(9000));
    let paths = [
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1/../v1/chat/completions",
        "/v1/%63hat/completions",
        "/v1/chat/completions%00",
        "/v1/chat/completions?x=%ff",
        "/v1/models/%ff%fe",
        "/v1/models/../../etc/passwd",
        "/v1/models/%2e%2e%2f",
        "*",
        "http://localhost/v1/models",
        "http://evil.example/v1/models",
        "/\u{e9}",
        "/ /",
        "",
        &long,
    ];
    let body = valid(rng).to_string();
    post(pick(rng, &paths), "", body.as_bytes())
}

fn odd_method(rng: &mut dyn Random) -> Vec<u8> {
    let methods = [
        "GET",
        "HEAD",
        "PUT",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "PATCH",
        "post",
        "PRI",
        "P\u{d6}ST",
        "\0",
        "",
    ];
    let mut bytes = chat(valid(rng).to_string().as_bytes());
    bytes.splice(..4, pick(rng, &methods).bytes());
    bytes
}

fn odd_version(rng: &mut dyn Random) -> Vec<u8> {
    let versions = [
        "HTTP/1.0",
        "HTTP/0.9",
        "HTTP/2.0",
        "HTTP/1.2",
        "HTTP/9.9",
        "http/1.1",
        "HTTP/1.1 ",
        "",
    ];
    let bytes = chat(valid(rng).to_string().as_bytes());
    let text = String::from_utf8_lossy(&bytes);
    text.replacen("HTTP/1.1", pick(rng, &versions), 1)
        .into_bytes()
}

fn odd_header(rng: &mut dyn Random) -> Vec<u8> {
    let headers = [
        "X\r\n",
        ": x\r\n",
        "X : y\r\n",
        "X: \u{1}\r\n",
        "X: a\r\n b\r\n",
        "X: a\nY: b\r\n",
        "X\u{e9}: y\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Encoding: gzip\r\n",
        "Content-Encoding: br, deflate\r\n",
        "Expect: 100-continue\r\n",
        "Expect: 200-ok\r\n",
        "Upgrade: websocket\r\nConnection: Upgrade\r\n",
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
        "Authorization: Basic !!!\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: \r\n",
        "Range: bytes=0-1\r\n",
        "Cookie: a=b\r\n",
        "\r\n",
    ];
    let body = valid(rng).to_string();
    post("/v1/chat/completions", pick(rng, &headers), body.as_bytes())
}

fn odd_host(rng: &mut dyn Random) -> Vec<u8> {
    let hosts = [
        "",
        "Host: evil.example\r\n",
        "Host: \r\n",
        "Host: localhost\r\nHost: evil.example\r\n",
        "Host: localhost@evil.example\r\n",
        "Host: localhost:99999999\r\n",
        "Host: [::1\r\n",
        "Host: a b\r\n",
        "Host: localhost/path\r\n",
    ];
    let bytes = chat(valid(rng).to_string().as_bytes());
    let text = String::from_utf8_lossy(&bytes);
    text.replacen("Host: localhost\r\n", pick(rng, &hosts), 1)
        .into_bytes()
}

fn large_headers(rng: &mut dyn Random) -> Vec<u8> {
    let headers = match rng.below(3) {
        0 => format!("X: {}\r\n", "y".repeat(5000 + rng.below(60_000))),
        1 => (0..50 + rng.below(100))
            .map(|i| format!("X-{i}: y\r\n"))
            .collect(),
        _ => format!("{}: y\r\n", "X".repeat(70_000)),
    };
    let body = valid(rng).to_string();
    post("/v1/chat/completions", &headers, body.as_bytes())
}

fn wrong_length(rng: &mut dyn Random) -> Vec<u8> {
    let lengths = [
        "0",
        "1",
        "-1",
        "+5",
        "1e3",
        "0x10",
        "99999999999999999999",
        "10, 10",
        "70000",
        "",
        " ",
    ];
    let body = valid(rng).to_string();
    let bytes = chat(body.as_bytes());
    let text = String::from_utf8_lossy(&bytes);
    let right = format!("Content-Length: {}", body.len());
    let wrong = format!("Content-Length: {}", pick(rng, &lengths));
    text.replacen(&right, &wrong, 1).into_bytes()
}

/// The ways in which a proxy and a server may disagree on where a request ends.
fn length_and_chunks(rng: &mut dyn Random) -> Vec<u8> {
    let codings = [
        "chunked",
        " chunked",
        "chunked\r\nTransfer-Encoding: identity",
        "identity",
        "xchunked",
        "chunked, chunked",
        "gzip, chunked",
        "chunked, gzip",
        "CHUNKED",
        "\"chunked\"",
        "chunked;x=y",
    ];
    let names = [
        "Transfer-Encoding",
        "Transfer-Encoding ",
        "transfer-encoding",
        "Transfer_Encoding",
    ];
    let (coding, name) = (pick(rng, &codings), pick(rng, &names));
    let smuggled =
        "0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    post(
        "/v1/chat/completions",
        &format!("{name}: {coding}\r\n"),
        smuggled.as_bytes(),
    )
}

fn odd_chunks(rng: &mut dyn Random) -> Vec<u8> {
    let body = valid(rng).to_string();
    let (size, end) = (format!("{:x}", body.len()), "0\r\n\r\n");
    let bodies = [
        format!("{size}\r\n{body}\r\n{end}"),
        format!("{size}\n{body}\n{end}"),
        format!("{size};x=\"y\r\n{body}\r\n{end}"),
        format!("-{size}\r\n{body}\r\n{end}"),
        format!("0x{size}\r\n{body}\r\n{end}"),
        format!("ffffffffffffffffff\r\n{body}\r\n{end}"),
        format!("fffffffffffffff\r\n{body}\r\n{end}"),
        format!("{size}\r\n{body}{body}\r\n{end}"),
        format!("{size}\r\n{body}\r\n0\r\nX: y\r\n\r\n"),
        format!("{size};{}\r\n{body}\r\n{end}", "x".repeat(20_000)),
        format!("{}\r\n{body}\r\n{end}", "0".repeat(200)),
        format!("{size}\r\n{body}\r\n"),
        "g\r\n\r\n".to_owned(),
        "1\r\n{\r\n".repeat(3000),
    ];
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}{}", pick(rng, &bodies)).into_bytes()
}

fn pipelined(rng: &mut dyn Random) -> Vec<u8> {
    let first = post("/v1/chat/completions", "", b"{}");
    let first = String::from_utf8_lossy(&first).replace("Connection: close\r\n", "");
    let second = match rng.below(2) {
        0 => chat(valid(rng).to_string().as_bytes()),
        _ => random_bytes(rng),
    };
    [first.as_bytes(), &second].concat()
}

fn random_bytes(rng: &mut dyn Random) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..1 + rng.below(300))
        .map(|_| rng.below(256) as u8)
        .collect();
    if rng.below(2) == 0 {
        bytes.splice(..0, *b"GET / HTTP/1.1\r\n");
    }
    // Otherwise the server would wait for the end of the head.
    bytes.extend_from_slice(b"\r\n\r\n");
    bytes
}
