//! A small server of the hub's protocol: listings, HEAD and GET with `ETag`, ranges, redirects of
//! large files to a second port, and faults on demand.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

pub(crate) const REPO: &str = "org/tiny";
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const NEXT_COMMIT: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// A fault for requests whose `METHOD path` contains a given text.
#[derive(Clone, Debug)]
pub(crate) enum Trick {
    /// An error status; the second field is `X-Error-Code`, not sent if empty.
    Status(u16, &'static str),
    /// Status 200 with this body.
    Body(&'static str),
    /// Status 302 with this address.
    Redirect(String),
    /// A pause before the answer.
    Late(Duration),
    /// An end of the connection after this many bytes of the body.
    Cut(usize),
    /// A pause after this many bytes of the body, then the end of the connection.
    Stall(usize, Duration),
    /// A pause before each 16 KiB of the body.
    Slow(Duration),
    /// A body with this many bytes more (or, if negative, fewer) and a matching `Content-Length`.
    Longer(isize),
    /// A body with a wrong last byte.
    Damaged,
    /// Status 200 with the whole file, although a range was requested.
    NoRanges,
    /// Status 206 with another range than the requested one.
    OtherRange,
    /// The usual answer without this header.
    Without(&'static str),
    /// The usual answer, in which the named header has this value.
    Header(&'static str, String),
    /// Status 429 with the named header, e.g. `RateLimit`.
    Limited(&'static str, String),
    /// From now on every revision means this commit.
    Move(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub method: String,
    pub path: String,
    pub query: String,
    pub range: Option<String>,
    pub token: Option<String>,
    pub on_cdn: bool,
}

#[derive(Clone)]
struct Stored {
    bytes: Vec<u8>,
    is_large: bool,
}

#[derive(Default)]
struct State {
    /// The files, keyed by repository and name.
    files: Mutex<BTreeMap<(String, String), Stored>>,
    commit: Mutex<String>,
    tricks: Mutex<Vec<(String, usize, Trick)>>,
    seen: Mutex<Vec<Seen>>,
    cdn: Mutex<String>,
    /// The number of redirects; each redirect has its own signature.
    signatures: AtomicUsize,
    /// The number of requests that the storage server is answering; `most_at_work` is the maximum
    /// so far.
    at_work: AtomicUsize,
    most_at_work: AtomicUsize,
}

pub(crate) struct Server {
    pub endpoint: String,
    state: Arc<State>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let state = Arc::new(State::default());
        *state.commit.lock().unwrap() = COMMIT.to_owned();
        let listen = |on_cdn: bool| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = format!("http://{}", listener.local_addr().expect("an address"));
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = Arc::clone(&state);
                    // Errors are ignored: in tests of broken connections the client hangs up.
                    thread::spawn(move || {
                        let at_work = usize::from(on_cdn);
                        let now = state.at_work.fetch_add(at_work, Ordering::SeqCst) + at_work;
                        state.most_at_work.fetch_max(now, Ordering::SeqCst);
                        answer(&state, on_cdn, stream).ok();
                        state.at_work.fetch_sub(at_work, Ordering::SeqCst);
                    });
                }
            });
            address
        };
        *state.cdn.lock().unwrap() = listen(true);
        let endpoint = listen(false);
        Self { endpoint, state }
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        self.store(REPO, name, bytes, false);
    }

    /// Stores a file that the hub redirects to the storage server.
    pub(crate) fn put_large(&self, name: &str, bytes: &[u8]) {
        self.store(REPO, name, bytes, true);
    }

    /// Stores a file in the given repository.
    pub(crate) fn store(&self, repo: &str, name: &str, bytes: &[u8], is_large: bool) {
        let bytes = bytes.to_vec();
        let stored = Stored { bytes, is_large };
        let key = (repo.to_owned(), name.to_owned());
        self.state.files.lock().unwrap().insert(key, stored);
    }

    pub(crate) fn remove(&self, name: &str) {
        let key = (REPO.to_owned(), name.to_owned());
        self.state.files.lock().unwrap().remove(&key);
    }

    pub(crate) fn set_commit(&self, commit: &str) {
        *self.state.commit.lock().unwrap() = commit.to_owned();
    }

    /// Plays a trick on the next `times` requests whose `METHOD path` contains `on`.
    pub(crate) fn trick(&self, on: &str, times: usize, trick: Trick) {
        self.state
            .tricks
            .lock()
            .unwrap()
            .push((on.to_owned(), times, trick));
    }

    /// Returns the maximum number of requests that the storage server answered at the same time.
    pub(crate) fn most_at_work(&self) -> usize {
        self.state.most_at_work.load(Ordering::SeqCst)
    }

    /// Returns and forgets the requests since the last call.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.state.seen.lock().unwrap())
    }
}

pub(crate) fn etag_of(bytes: &[u8], is_large: bool) -> String {
    let digest: String = Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    if is_large {
        digest
    } else {
        digest[..40].to_owned()
    }
}

fn answer(state: &State, on_cdn: bool, stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut words = first.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let path = path.to_owned();
    let trick = {
        let key = format!("{method} {path}");
        let mut tricks = state.tricks.lock().unwrap();
        let found = tricks
            .iter_mut()
            .find(|(on, times, _)| *times > 0 && key.contains(on.as_str()));
        found.map(|(_, times, trick)| {
            *times -= 1;
            trick.clone()
        })
    };
    state.seen.lock().unwrap().push(Seen {
        method: method.clone(),
        path: path.clone(),
        query: query.to_owned(),
        range: headers.get("range").cloned(),
        token: headers.get("authorization").cloned(),
        on_cdn,
    });
    if let Some(Trick::Move(commit)) = trick {
        *state.commit.lock().unwrap() = commit.to_owned();
    }
    let mut reply = match &trick {
        Some(Trick::Status(status, "")) => Reply::new(*status),
        Some(Trick::Status(status, code)) => Reply::new(*status).with("X-Error-Code", code),
        Some(Trick::Limited(name, value)) => Reply::new(429).with(name, value),
        Some(Trick::Body(text)) => Reply::new(200).body(text.as_bytes().to_vec()),
        Some(Trick::Redirect(to)) => Reply::new(302).with("Location", to),
        _ => route(state, on_cdn, &path),
    };
    if let Some(Trick::Late(time)) = trick {
        thread::sleep(time);
    }
    if let Some(Trick::Longer(by)) = trick {
        let len = reply.body.len().checked_add_signed(by).expect("a length");
        reply.body.resize(len, 7);
    }
    if let Some(Trick::Damaged) = trick {
        let last = reply.body.last_mut().expect("a byte");
        *last ^= 1;
    }
    let range = headers
        .get("range")
        .filter(|_| !matches!(trick, Some(Trick::NoRanges)));
    if let Some(range) = range.filter(|_| reply.status == 200) {
        let other = "bytes=1-".to_owned();
        reply = reply.part(if matches!(trick, Some(Trick::OtherRange)) {
            &other
        } else {
            range
        });
    }
    let len = reply.body.len().to_string();
    reply = reply.with("Content-Length", &len);
    if let Some(Trick::Without(name) | Trick::Header(name, _)) = trick {
        reply.headers.retain(|(header, _)| header != name);
    }
    if let Some(Trick::Header(name, value)) = &trick {
        reply = reply.with(name, value);
    }
    let pace = match trick {
        Some(Trick::Slow(pause)) => pause,
        _ => Duration::ZERO,
    };
    let (end, pause) = match trick {
        Some(Trick::Cut(end)) => (end, Duration::ZERO),
        Some(Trick::Stall(end, time)) => (end, time),
        _ => (usize::MAX, Duration::ZERO),
    };
    if method == "HEAD" {
        reply.body.clear();
    }
    reply.send(stream, end, pause, pace)
}

fn route(state: &State, on_cdn: bool, path: &str) -> Reply {
    let files = state.files.lock().unwrap();
    let commit = state.commit.lock().unwrap().clone();
    if on_cdn {
        let found = files
            .values()
            .find(|f| path == format!("/store/{}", etag_of(&f.bytes, true)));
        return found.map_or(Reply::new(403), |found| {
            Reply::new(200)
                .with("ETag", "\"of-the-store\"")
                .body(found.bytes.clone())
        });
    }
    let not_found = |code: &str| Reply::new(404).with("X-Error-Code", code);
    let mut revisions = vec!["main", "branch", "refs%2Fpr%2F1", commit.as_str()];
    let api = path.strip_prefix("/api/models/");
    // Data sets are stored under `datasets/ORG/NAME`.
    let data_api = path.strip_prefix("/api/datasets/");
    let data = data_api.or_else(|| path.strip_prefix("/datasets/"));
    let api = api.or(data_api);
    let mut parts = data.or(api).unwrap_or(&path[1..]).splitn(4, '/');
    let mut part = || parts.next().unwrap_or_default();
    let mut repo = format!("{}/{}", part(), part());
    if data.is_some() {
        repo = format!("datasets/{repo}");
        // The Hub converts small sets of any format.
        if files
            .keys()
            .any(|(of, name)| *of == repo && name.ends_with("/0000.parquet"))
        {
            revisions.push("refs%2Fconvert%2Fparquet");
        }
    }
    let (kind, rest) = (part(), part());
    if repo != REPO && !files.keys().any(|(of, _)| *of == repo) {
        return not_found("RepoNotFound");
    }
    let mut listed = files.iter().filter(|((of, _), _)| *of == repo);
    if api.is_some() && !revisions.contains(&rest) {
        return not_found("RevisionNotFound");
    }
    match (api.is_some(), kind) {
        (true, "revision") => {
            let siblings: Vec<_> = listed
                .map(|((_, name), _)| json!({"rfilename": name}))
                .collect();
            let info = json!({"id": repo, "sha": commit, "private": false, "siblings": siblings});
            return Reply::new(200).body(info.to_string().into_bytes());
        }
        (true, "tree") => {
            let entries = listed.map(|((_, name), file)| {
                let mut entry = json!({
                    "type": "file", "path": name, "size": file.bytes.len(), "oid": etag_of(&file.bytes, false)
                });
                if file.is_large {
                    entry["lfs"] = json!({"oid": etag_of(&file.bytes, true), "size": file.bytes.len(), "pointerSize": 130});
                }
                entry
            });
            let entries: Vec<_> = entries.collect();
            return Reply::new(200).body(json!(entries).to_string().into_bytes());
        }
        (false, "resolve") => (),
        _ => return not_found("RepoNotFound"),
    }
    let name = rest.split_once('/').map(|(_, name)| name);
    let found = listed.find(|((_, of), _)| Some(of.as_str()) == name);
    let Some((_, file)) = found else {
        return not_found("EntryNotFound");
    };
    let etag = format!("\"{}\"", etag_of(&file.bytes, file.is_large));
    if !file.is_large {
        return Reply::new(200)
            .with("ETag", &etag)
            .with("X-Repo-Commit", &commit)
            .body(file.bytes.clone());
    }
    let cdn = state.cdn.lock().unwrap();
    Reply::new(302)
        .with(
            "Location",
            &format!(
                "{cdn}/store/{}?signature=x%2Fy{}",
                etag_of(&file.bytes, true),
                state.signatures.fetch_add(1, Ordering::SeqCst)
            ),
        )
        .with("X-Repo-Commit", &commit)
        .with("X-Linked-Etag", &etag)
        .with("X-Linked-Size", &file.bytes.len().to_string())
}

struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Reply {
    fn new(status: u16) -> Self {
        Self {
            status,
            headers: vec![],
            body: vec![],
        }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// Cuts the body to a range such as `bytes=5-` or `bytes=0-0`.
    fn part(mut self, range: &str) -> Self {
        let (start, end) = range
            .strip_prefix("bytes=")
            .and_then(|range| range.split_once('-'))
            .expect("a range");
        let total = self.body.len();
        let start: usize = start.parse().expect("a number");
        let end = end.parse().map_or(total, |last: usize| last + 1).min(total);
        if start >= total {
            return Self::new(416).with("Content-Range", &format!("bytes */{total}"));
        }
        self.status = 206;
        self.body = self.body[start..end].to_vec();
        self.with(
            "Content-Range",
            &format!("bytes {start}-{}/{total}", end - 1),
        )
    }

    fn send(
        self,
        mut stream: TcpStream,
        end: usize,
        pause: Duration,
        pace: Duration,
    ) -> std::io::Result<()> {
        write!(
            stream,
            "HTTP/1.1 {} Reason\r\nConnection: close\r\n",
            self.status
        )?;
        for (name, value) in &self.headers {
            write!(stream, "{name}: {value}\r\n")?;
        }
        write!(stream, "\r\n")?;
        let end = end.min(self.body.len());
        for part in self.body[..end].chunks(16 << 10) {
            thread::sleep(pace);
            stream.write_all(part)?;
        }
        stream.flush()?;
        thread::sleep(pause);
        stream.shutdown(Shutdown::Write)
    }
}
