//! A server with the bundled pair on a thread of its own, and a client that speaks plain HTTP over
//! TCP and hides nothing.

#[path = "schema.rs"]
pub(crate) mod schema;

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use beamgen::launcher::Launcher;
use beamgen::{Config, RunSummary, Solver};
use beamgen_serve::{Error, Presets, ServeOptions, Server, Stop};
use serde_json::{Value, json};

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub address: SocketAddr,
    pub stop: Stop,
    thread: Option<JoinHandle<Result<RunSummary, Error>>>,
}

impl Running {
    pub(crate) fn start(options: ServeOptions) -> Self {
        Self::with(Config::default(), options)
    }

    pub(crate) fn with(config: Config, options: ServeOptions) -> Self {
        let server = Server::bind(options).expect("a free port");
        let address = server.address().expect("an address");
        let stop = Stop::new();
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut builder = Solver::builder();
            if !config.verifier.is_math() {
                builder = builder.launcher(Launcher::new(beamgen_test_support::launcher()));
            }
            let solver = builder.config(config).load_scorer().build()?;
            let presets = Presets::built_in(&solver.settings())?;
            Ok(server.run(solver, presets, &told)?.1)
        });
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }

    /// Waits for its end.
    pub(crate) fn join(&mut self) -> RunSummary {
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("no panic").expect("no failure")
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        self.send(text.as_bytes()).expect("a reply")
    }

    /// Posts a body. Checks the body and the reply against the OpenAPI document.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        let reply = self.send(&request(path, &body.to_string(), ""));
        let reply = reply.expect("a reply");
        let is_json = reply.header("content-type") == Some("application/json");
        let answer = is_json.then(|| reply.json());
        schema::check(path, body, reply.status, answer.as_ref());
        reply
    }

    /// A chat completion.
    pub(crate) fn chat(&self, body: &Value) -> Reply {
        self.post("/v1/chat/completions", body)
    }

    /// Sends bytes on a connection of their own, and reads the reply.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<Reply> {
        let mut stream = self.connect();
        stream.write_all(bytes)?;
        Reply::read(&mut BufReader::new(stream))
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        let most = Some(Duration::from_secs(60));
        stream.set_read_timeout(most).expect("a timeout");
        stream.set_write_timeout(most).expect("a timeout");
        stream
    }

    /// A metric without labels, or with all of its labels in `name`.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0.0, |value| value.trim().parse().expect("a number"))
    }

    /// Waits until nothing waits, nothing is at work and no chain holds memory.
    pub(crate) fn wait_until_idle(&self) {
        let started = Instant::now();
        let names = [
            "beamgen_queue_waiting ",
            "beamgen_in_flight ",
            "beamgen_cache_bytes ",
        ];
        loop {
            let held = names.map(|name| self.metric(name));
            if held == [0.0; 3] {
                return;
            }
            let waited = started.elapsed();
            assert!(waited < Duration::from_secs(20), "{names:?}: {held:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.begin();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("no panic").expect("no failure");
            }
        }
    }
}

/// A POST request in bytes.
pub(crate) fn request(path: &str, body: &str, more_headers: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         {more_headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// An answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut reply = Self::read_head(from)?;
        // "100 Continue" comes before the answer.
        while reply.status < 200 {
            reply = Self::read_head(from)?;
        }
        let length = reply.header("content-length").map(str::to_owned);
        match length.and_then(|length| length.parse().ok()) {
            Some(length) => {
                reply.body.resize(length, 0);
                from.read_exact(&mut reply.body)?;
            }
            None if reply.header("transfer-encoding").is_some() => {
                while let Some(chunk) = read_chunk(from)? {
                    reply.body.extend(chunk);
                }
            }
            None => {
                from.read_to_end(&mut reply.body)?;
            }
        }
        Ok(reply)
    }

    pub(crate) fn read_head(from: &mut impl BufRead) -> io::Result<Self> {
        let broken = |line: &str| io::Error::other(format!("no head: {line:?}"));
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| broken(&line))?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| broken(&line))?;
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        Ok(Self {
            status,
            headers,
            body: Vec::new(),
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The answer, if all went well.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// Status, code and field of an error in `OpenAI`'s shape.
    pub(crate) fn refusal(&self) -> (u16, String, Value) {
        let body = self.json();
        let error = &body["error"];
        let message = error["message"].as_str().expect("a message");
        assert!(!message.is_empty() && !message.contains('\n'), "{message}");
        assert!(error["type"].is_string(), "{error}");
        let code = error["code"].as_str().expect("a code").to_owned();
        (self.status, code, error["param"].clone())
    }

    /// The objects of a stream, which ends as it should.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        let text = self.text();
        let mut chunks = Vec::new();
        let mut done = false;
        for line in text.lines().filter(|line| !line.is_empty()) {
            assert!(!done, "behind the end: {line}");
            if line.starts_with(':') {
                continue;
            }
            let data = line.strip_prefix("data: ");
            match data.unwrap_or_else(|| panic!("neither data nor a comment: {line}")) {
                "[DONE]" => done = true,
                data => chunks.push(serde_json::from_str(data).expect("JSON")),
            }
        }
        assert!(done, "no end: {text}");
        chunks
    }
}

/// The next chunk of a body of chunks; `None` at its end.
pub(crate) fn read_chunk(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
    let mut chunk = vec![0; size + 2];
    from.read_exact(&mut chunk)?;
    chunk.truncate(size);
    Ok((size > 0).then_some(chunk))
}

/// Text of one of the bundled problems.
pub(crate) fn problem(index: usize) -> String {
    let mut problems = beamgen::bundled::sample().expect("problems").problems;
    problems.swap_remove(index).text
}

/// Returns a chat request for a problem. The seed is 0, unless `own`, the object `beamgen`, sets
/// it.
pub(crate) fn ask(problem: &str, own: Value) -> Value {
    json!({"messages": [{"role": "user", "content": problem}], "seed": 0, "beamgen": own})
}

/// Returns the parts of an answer that do not differ from request to request: times, memory and ids
/// are left out.
pub(crate) fn essence(answer: &Value) -> Value {
    let own = &answer["beamgen"];
    json!([
        answer["choices"],
        answer["usage"],
        own["answer"],
        own["steps"],
        own["score"],
        own["answers"],
        own["finish"],
        own["tree"],
        own["ledger"]["generated_tokens"],
    ])
}
