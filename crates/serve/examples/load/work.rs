//! The requests of a load: problems of the bundled sample, solved in several ways.

use std::collections::BTreeMap;

use beamgen::{Choose, Problem, Request, Settings, Solver, StrategyKind};
use serde_json::{Value, json};

use crate::client::Reply;
/// Different problems.
const PROBLEMS: usize = 40;

/// Ways to solve them, as `beamgen` objects. Each has a seed: without one, a request gets a new one.
fn ways() -> [Value; 5] {
    [
        json!({"strategy": "beam", "n": 16, "m": 4, "seed": 0}),
        json!({"strategy": "beam", "n": 4, "m": 2, "seed": 7}),
        json!({"strategy": "best-of-n", "n": 8, "m": 1, "choose": "weighted", "seed": 0}),
        json!({"strategy": "dvts", "n": 8, "m": 4, "seed": 3}),
        json!({"strategy": "best-of-n", "n": 1, "m": 1, "seed": 0}),
    ]
}

/// Requests, and what each is answered alone.
pub(crate) struct Work {
    problems: Vec<Problem>,
    bytes: Vec<Vec<u8>>,
    expected: Expected,
}

impl Work {
    pub(crate) fn mixed() -> Result<Self, Box<dyn std::error::Error>> {
        let mut problems = beamgen::bundled::sample()?.problems;
        problems.truncate(PROBLEMS);
        let count = problems.len() * ways().len();
        let mut work = Self {
            bytes: Vec::new(),
            expected: Expected::new(),
            problems,
        };
        work.bytes = (0..count).map(|i| Self::encode(work.body(i), "")).collect();
        work.expected = alone((0..count).map(|i| work.request(i)))?;
        Ok(work)
    }

    /// Different requests.
    pub(crate) fn len(&self) -> usize {
        self.problems.len() * ways().len()
    }

    pub(crate) fn summary(&self) -> String {
        let ways: Vec<String> = ways().iter().map(Value::to_string).collect();
        format!("{} problems by {}", self.problems.len(), ways.join(", "))
    }

    fn place(&self, index: usize) -> (usize, usize) {
        let index = index % self.len();
        (index / ways().len(), index % ways().len())
    }

    fn body(&self, index: usize) -> Value {
        let (problem, way) = self.place(index);
        let problem = &self.problems[problem];
        let mut own = ways()[way].clone();
        own["id"] = json!(problem.id);
        json!({"messages": [{"role": "user", "content": problem.text}], "beamgen": own})
    }

    fn encode(body: Value, connection: &str) -> Vec<u8> {
        let body = body.to_string();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n{connection}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body.as_bytes()].concat()
    }

    /// A request as it is sent.
    pub(crate) fn bytes(&self, index: usize) -> &[u8] {
        &self.bytes[index % self.len()]
    }

    /// A request that takes a while.
    pub(crate) fn long(&self, index: usize, stream: bool) -> Vec<u8> {
        let mut body = self.body(index);
        body["beamgen"] = json!({"strategy": "best-of-n", "n": 64, "m": 1, "events": stream});
        body["stream"] = json!(stream);
        Self::encode(body, "Connection: close\r\n")
    }

    /// Returns request number `index`, for the library instead of the server.
    pub(crate) fn request(&self, index: usize) -> Request {
        let (problem, way) = self.place(index);
        let mut settings = Settings::default();
        let own = &ways()[way];
        let count = |key: &str| own[key].as_u64().unwrap_or_default();
        let search = &mut settings.search;
        search.strategy = match own["strategy"].as_str() {
            Some("best-of-n") => StrategyKind::BEST_OF_N,
            Some("dvts") => StrategyKind::DVTS,
            _ => StrategyKind::BEAM,
        };
        (search.n, search.m) = (count("n") as usize, count("m") as usize);
        search.choose = own["choose"].as_str().map(|_| Choose::Weighted);
        settings.generator.seed = count("seed");
        let mut problem = self.problems[problem].clone();
        problem.answer = None;
        Request::new(problem, settings)
    }

    /// Tokens that the first `requests` requests sample.
    pub(crate) fn tokens(&self, requests: usize) -> u64 {
        let tokens = (0..requests).map(|i| self.expected[&(i % self.len())].1);
        tokens.sum()
    }

    /// Compares an answer with the one that the request has alone.
    pub(crate) fn check(&self, index: usize, reply: &Reply) {
        let answer = reply.ok();
        let own = &answer["beamgen"];
        let (record, tokens) = &self.expected[&(index % self.len())];
        for key in ["id", "answer", "steps", "score", "answers", "finish"] {
            assert_eq!(own[key], record[key], "{key} of request {index}");
        }
        assert_eq!(
            own["ledger"]["generated_tokens"], *tokens,
            "request {index}"
        );
    }
}

/// The expected answer of each distinct request, by its index.
type Expected = BTreeMap<usize, (serde_json::Value, u64)>;

/// Solves every request alone.
fn alone(requests: impl Iterator<Item = Request>) -> Result<Expected, Box<dyn std::error::Error>> {
    let mut solver = Solver::builder().load_scorer().build()?;
    let mut expected = Expected::new();
    for (index, request) in requests.enumerate() {
        let result = solver.solve(request)?;
        let tokens = result.ledger.generated_tokens;
        let record = beamgen::eval::Record::new(&result, false);
        // As a client has it: reading a number from JSON may change its last bit.
        let record = serde_json::to_value(record)?.to_string();
        let record = serde_json::from_str(&record)?;
        expected.insert(index, (record, tokens));
    }
    Ok(expected)
}
