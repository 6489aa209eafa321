//! The verifier `lean`: proofs in Lean 4, checked by a Kimina server.
//!
//! The server is <https://github.com/project-numina/kimina-lean-server>; its route `POST /api/check`
//! takes snippets of code and returns the messages of Lean's REPL for each of them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use beamgen_certificates::Certificates;
use beamgen_search::{BatchId, Outcome, OutcomeKind, Problem, Verifier, WholeChain};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::batches::{Batches, Place, lost};
use crate::LostSoFar;

/// The name in settings and on the command line.
pub const LEAN: &str = "lean";

/// The longest time that a call waits for outcomes before the search checks for other work.
const A_WHILE: Duration = Duration::from_millis(50);

/// The pauses before a request is tried again.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// The failed requests in a row after which the server is left alone for a while.
const MOST_FAILURES: usize = 3;

/// The time for which a server that failed too often is left alone.
const REST: Duration = Duration::from_secs(60);

/// The time for a request besides that of its proofs.
const OVERHEAD: Duration = Duration::from_secs(10);

/// The largest answer that is read, in bytes.
const LARGEST_ANSWER: u64 = 64 << 20;

/// Words that let Lean accept what is not proved.
const UNPROVED: [&str; 7] = [
    "sorry",
    "sorryAx",
    "admit",
    "axiom",
    "unsafe",
    "implemented_by",
    "native_decide",
];

/// The settings of the verifier `lean`.
#[derive(Clone, Debug, PartialEq)]
pub struct LeanConfig {
    /// The address of the server, such as `http://127.0.0.1:8000`.
    pub url: String,
    /// The key of the server, which it gets as a bearer token.
    pub key: Option<String>,
    /// The time after which the server gives a proof up.
    pub timeout: Duration,
    /// The number of requests that run at the same time; 0 counts as 1.
    pub workers: usize,
    /// The most proofs in a request; 0 counts as 1.
    pub in_flight: usize,
}

/// Checks proofs on a server. The problem's text states the theorem in a block of Lean code, so the
/// verifier is open.
#[derive(Debug)]
pub struct LeanVerifier {
    batches: Batches,
    jobs: Sender<Job>,
    judged: Receiver<(Place, Outcome)>,
    lost: LostSoFar,
}

/// The error if the settings of the verifier `lean` are unusable.
#[derive(Debug, thiserror::Error)]
#[error("{url:?}: {reason}")]
pub struct LeanError {
    url: String,
    reason: String,
}

/// A proof to check; its code is the content of the place.
type Job = Place;

impl LeanVerifier {
    /// Starts the threads that send requests. The server is asked with the first proof.
    ///
    /// # Errors
    /// Returns an error if the address is invalid or no thread can be started.
    pub fn start(config: LeanConfig) -> Result<Self, LeanError> {
        let client = Arc::new(Client::new(config.clone())?);
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let (done, judged) = channel();
        let lost = LostSoFar::default();
        for _ in 0..config.workers.max(1) {
            let (client, queue) = (Arc::clone(&client), Arc::clone(&queue));
            let (done, lost) = (done.clone(), lost.clone());
            thread::Builder::new()
                .name("lean".to_owned())
                .spawn(move || client.work(&queue, &done, &lost))
                .map_err(|error| LeanError {
                    url: config.url.clone(),
                    reason: error.to_string(),
                })?;
        }
        Ok(Self {
            batches: Batches::default(),
            jobs,
            judged,
            lost,
        })
    }

    /// Returns a handle on the counts of lost outcomes, which stays valid when the verifier moves.
    #[must_use]
    pub fn lost(&self) -> LostSoFar {
        self.lost.clone()
    }

    fn settle(&mut self) {
        while let Ok((place, outcome)) = self.judged.try_recv() {
            self.batches.settle(&place, outcome);
        }
    }
}

impl Verifier for LeanVerifier {
    fn name_for(&self, _: &Problem) -> Option<&str> {
        Some(LEAN)
    }

    fn is_open(&self, _: &Problem) -> bool {
        true
    }

    fn submit(&mut self, batch: BatchId, problem: &Problem, chains: &[WholeChain<'_>]) {
        let statement = Statement::of(&problem.with_context());
        let codes: Vec<Result<String, Outcome>> = chains
            .iter()
            .map(|chain| match &statement {
                Some(statement) => statement.proof(&chain.steps.concat()),
                None => Err(Outcome::new(
                    OutcomeKind::Unknown,
                    "the problem has no block of Lean code with a theorem",
                )),
            })
            .collect();
        let contents = codes
            .iter()
            .map(|code| Some(Arc::from(code.as_deref().unwrap_or(""))));
        for place in self.batches.open(batch, contents.collect()) {
            match &codes[place.chain] {
                Err(outcome) => self.batches.settle_unkept(&place, outcome.clone()),
                Ok(_) => {
                    // The threads end only with the verifier.
                    let _ = self.jobs.send(place);
                }
            }
        }
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, Vec<Outcome>)> {
        self.settle();
        let mut done = self.batches.done();
        if wait && done.is_empty() && self.batches.waits() {
            match self.judged.recv_timeout(A_WHILE) {
                Ok((place, outcome)) => self.batches.settle(&place, outcome),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.settle();
            done = self.batches.done();
        }
        done
    }
}

/// The theorem that a problem states.
struct Statement {
    /// The lines before the theorem, such as imports.
    header: String,
    /// The statement up to the `:=` before its proof, with single spaces.
    theorem: String,
}

impl Statement {
    fn of(problem: &str) -> Option<Self> {
        let block = last_block(problem)?;
        // The lemmas before the last one belong to the header. A statement may have a `:=` of its
        // own.
        let at = ["theorem ", "lemma ", "example "]
            .into_iter()
            .filter_map(|word| last_at_line(block, word))
            .max()?;
        let theorem = &block[at..];
        let theorem = &theorem[..theorem.rfind(":=")? + ":=".len()];
        Some(Self {
            header: block[..at].to_owned(),
            theorem: spaced(&without_comments(theorem)),
        })
    }

    /// Returns the code that a chain gives. A chain without any, with another theorem, or with
    /// steps that nothing proves is wrong.
    fn proof(&self, text: &str) -> Result<String, Outcome> {
        let wrong = |reason: String| Err(Outcome::new(OutcomeKind::Wrong, reason));
        let code = last_block(text).unwrap_or(text).trim();
        if !spaced(&without_comments(code)).contains(&self.theorem) {
            return wrong("the code does not state the problem's theorem".to_owned());
        }
        let words: Vec<&str> = code
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .collect();
        if let Some(word) = UNPROVED.into_iter().find(|word| words.contains(word)) {
            return wrong(format!("the code has {word:?}"));
        }
        let has_imports = code.lines().any(|line| line.starts_with("import "));
        let header = if has_imports { "" } else { &self.header };
        Ok(format!("{header}{code}\n"))
    }
}

/// Returns the last block of Lean code between fences.
fn last_block(text: &str) -> Option<&str> {
    let fences = ["```lean4\n", "```lean\n"];
    let begins = fences
        .into_iter()
        .filter_map(|fence| Some(text.rfind(fence)? + fence.len()));
    let block = &text[begins.max()?..];
    Some(&block[..block.find("```").unwrap_or(block.len())])
}

/// Returns the start of the last line that begins with `word`.
fn last_at_line(text: &str, word: &str) -> Option<usize> {
    let later = text.rfind(&format!("\n{word}")).map(|at| at + 1);
    later.or_else(|| text.starts_with(word).then_some(0))
}

/// Returns the text with single spaces, also around `:=`.
fn spaced(text: &str) -> String {
    let apart = text.replace(":=", " := ");
    apart.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the code without its comments: `--` to the end of the line, and `/- -/`, which nest.
fn without_comments(code: &str) -> String {
    let (mut out, mut depth, mut rest) = (String::new(), 0_usize, code);
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        if rest.starts_with("/-") {
            (depth, length) = (depth + 1, 2);
        } else if depth > 0 && rest.starts_with("-/") {
            (depth, length) = (depth - 1, 2);
        } else if depth == 0 && rest.starts_with("--") {
            length = rest.find('\n').unwrap_or(rest.len());
        } else if depth == 0 {
            out.push(next);
        }
        rest = &rest[length..];
    }
    out
}

/// Requests to the server.
struct Client {
    config: LeanConfig,
    agent: Agent,
    failures: Mutex<Failures>,
}

/// The requests that failed since the last one that succeeded.
#[derive(Default)]
struct Failures {
    count: usize,
    last: Option<Instant>,
}

impl Failures {
    /// Whether the server is left alone at the time `now` because it failed too often.
    fn rests(&self, now: Instant) -> bool {
        let is_recent = |last| now.saturating_duration_since(last) < REST;
        self.count >= MOST_FAILURES && self.last.is_some_and(is_recent)
    }

    /// Counts a failure. Returns whether the server is now left alone.
    fn add(&mut self, now: Instant) -> bool {
        self.count += 1;
        self.last = Some(now);
        self.rests(now)
    }
}

impl Client {
    fn new(config: LeanConfig) -> Result<Self, LeanError> {
        let invalid = |reason: &str| LeanError {
            url: config.url.clone(),
            reason: reason.to_owned(),
        };
        let uri: ureq::http::Uri = config
            .url
            .parse()
            .map_err(|_| invalid("not an address: use e.g. http://127.0.0.1:8000"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(invalid("use an address of http or https"));
        }
        let mut builder = Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("beamgen/", env!("CARGO_PKG_VERSION")));
        if uri.scheme_str() == Some("https") {
            let files = Certificates::from_lookup(|name| std::env::var(name).ok());
            let trusted = files.all().map_err(|error| invalid(&error.to_string()))?;
            let trusted = trusted
                .iter()
                .map(|der| Certificate::from_der(der).to_owned());
            let roots = RootCerts::from(trusted);
            builder = builder.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        // A proxy would resolve `localhost` to its own machine.
        if matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            builder = builder.proxy(None);
        }
        Ok(Self {
            agent: builder.build().new_agent(),
            config,
            failures: Mutex::default(),
        })
    }

    /// Takes proofs from the queue until the verifier is dropped.
    fn work(
        &self,
        queue: &Mutex<Receiver<Job>>,
        done: &Sender<(Place, Outcome)>,
        lost: &LostSoFar,
    ) {
        loop {
            let jobs = {
                let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                let Ok(first) = queue.recv() else { return };
                let most = self.config.in_flight.max(1) - 1;
                let mut jobs = vec![first];
                jobs.extend(queue.try_iter().take(most));
                jobs
            };
            for (place, outcome) in self.judge(jobs, lost) {
                if done.send((place, outcome)).is_err() {
                    return;
                }
            }
        }
    }

    fn judge(&self, jobs: Vec<Job>, counts: &LostSoFar) -> Vec<(Place, Outcome)> {
        let failures = || self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let rests = failures().rests(Instant::now());
        let outcomes = if rests {
            vec![lost(); jobs.len()]
        } else {
            match self.check(&jobs) {
                Ok(outcomes) => {
                    *failures() = Failures::default();
                    counts.update(|all| all.given_up = None);
                    outcomes
                }
                Err(reason) => {
                    let rests = failures().add(Instant::now());
                    counts.update(|all| {
                        all.crashes += 1;
                        if rests {
                            all.given_up = Some(reason.clone());
                        }
                    });
                    vec![Outcome::new(OutcomeKind::Lost, reason); jobs.len()]
                }
            }
        };
        let missing = outcomes
            .iter()
            .filter(|outcome| outcome.kind == OutcomeKind::Lost);
        let missing = missing.count() as u64;
        counts.update(|all| all.verdicts += missing);
        jobs.into_iter().zip(outcomes).collect()
    }

    /// Checks proofs in one request, which is tried three times.
    fn check(&self, jobs: &[Job]) -> Result<Vec<Outcome>, String> {
        let snippets = jobs.iter().enumerate();
        let snippets: Vec<Value> = snippets
            .map(|(id, job)| json!({"id": id.to_string(), "code": *job.content}))
            .collect();
        let seconds = self.config.timeout.as_secs_f64().ceil().max(1.0);
        let body =
            json!({"snippets": snippets, "timeout": seconds as u64, "reuse": true}).to_string();
        let mut pauses = PAUSES.into_iter();
        loop {
            match self.post(&body, jobs.len()) {
                Ok(answer) => return Ok(outcomes(&answer, jobs.len())),
                Err(reason) => match pauses.next() {
                    Some(pause) => thread::sleep(pause),
                    None => return Err(reason),
                },
            }
        }
    }

    fn post(&self, body: &str, proofs: usize) -> Result<Value, String> {
        let url = format!("{}/api/check", self.config.url.trim_end_matches('/'));
        let limit = self.config.timeout * u32::try_from(proofs).unwrap_or(u32::MAX) + OVERHEAD;
        let mut request = self
            .agent
            .post(&url)
            .config()
            .timeout_global(Some(limit))
            .build()
            .header("content-type", "application/json");
        if let Some(key) = &self.config.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let failed = |error: ureq::Error| format!("{url}: {error}");
        let mut response = request.send(body).map_err(failed)?;
        let status = response.status();
        let text = response.body_mut().with_config().limit(LARGEST_ANSWER);
        let text = text.read_to_string().map_err(failed)?;
        if !status.is_success() {
            let said: String = text
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(200)
                .collect();
            return Err(format!("{url}: status {status}: {said}"));
        }
        serde_json::from_str(&text).map_err(|error| format!("{url}: not JSON: {error}"))
    }
}

/// Reads the outcomes from the answer of the server, by the numbers of the proofs. A proof without a
/// result is lost.
fn outcomes(answer: &Value, proofs: usize) -> Vec<Outcome> {
    let mut outcomes = vec![lost(); proofs];
    for result in answer["results"].as_array().into_iter().flatten() {
        let id = result["id"]
            .as_str()
            .and_then(|id| id.parse::<usize>().ok());
        if let Some(outcome) = id.and_then(|id| outcomes.get_mut(id)) {
            *outcome = outcome_of(result);
        }
    }
    outcomes
}

fn outcome_of(result: &Value) -> Outcome {
    let response = &result["response"];
    // The REPL itself may fail, with a message in place of an answer.
    let error = result["error"]
        .as_str()
        .or_else(|| response["message"].as_str());
    if let Some(error) = error {
        let first = error.lines().next().unwrap_or_default();
        let words = error.to_lowercase();
        let is_late = words.contains("timed out") || words.contains("timeout");
        let kind = if is_late {
            OutcomeKind::Unknown
        } else {
            OutcomeKind::Lost
        };
        return Outcome::new(kind, format!("Lean: {first}"));
    }
    if !response.is_object() {
        return lost();
    }
    let messages = response["messages"].as_array().into_iter().flatten();
    let mut errors = messages.filter(|message| message["severity"] == "error");
    if let Some(message) = errors.next() {
        let line = message["pos"]["line"].as_u64().unwrap_or_default();
        let said = message["data"].as_str().unwrap_or_default();
        let first = said.lines().next().unwrap_or_default();
        return Outcome::new(OutcomeKind::Wrong, format!("line {line}: {first}"));
    }
    // Lean accepts a proof by `sorry`, however it is written, with a warning.
    let mut messages = response["messages"].as_array().into_iter().flatten();
    let warns = |message: &Value| {
        let said = message["data"].as_str().unwrap_or_default();
        said.contains("declaration uses") && said.contains("sorry")
    };
    let sorries =
        usize::from(messages.any(warns)) + response["sorries"].as_array().map_or(0, Vec::len);
    if sorries > 0 {
        return Outcome::new(OutcomeKind::Wrong, "the proof has a sorry");
    }
    Outcome::new(OutcomeKind::Right, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_failed_too_often_rests_and_is_tried_again() {
        let mut failures = Failures::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!failures.rests(start) && !failures.add(start) && !failures.add(at(1)));
        assert!(failures.add(at(2)));
        assert!(failures.rests(at(61)) && !failures.rests(at(62)));
        // One more failure, and it rests again.
        assert!(failures.add(at(63)) && failures.rests(at(122)) && !failures.rests(at(123)));
    }
}
