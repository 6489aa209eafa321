//! A server for tests that writes HTTP/1.1 directly: libraries do not allow most of its faults.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

/// A request that the server received.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub path: String,
    /// The headers; their names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Seen {
    /// Whether the request asks for a step of a search. Requests of the probe have no session.
    pub(crate) fn is_step(&self) -> bool {
        self.path == "/v1/completions" && self.header("x-session-id") != Some("")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The reaction of the server to a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Json(u16, Value),
    /// Sends a status, further headers and a text.
    With(u16, Vec<(&'static str, String)>, String),
    /// Sends nothing until the client disconnects.
    Hang,
    /// Sends the first bytes of an answer, then nothing until the client disconnects.
    HangInBody(Value),
    /// Sends the first half of an answer and closes the connection.
    Cut(Value),
    /// Sends the answer byte by byte, slowly.
    Drip(Value, Duration),
    /// Closes the connection at once.
    Close,
    /// Sends server-sent events and ends the stream.
    Events(Vec<Value>),
    /// Sends server-sent events, then nothing until the client disconnects.
    EventsAndHang(Vec<Value>),
    /// Sends the beginning of a JSON text, the given number of bytes of `0,0,0`, and its end.
    Zeros(&'static str, usize, &'static str),
}

/// A piece of a list of numbers.
const ZEROS: [u8; 4096] = {
    let mut zeros = [b'0'; 4096];
    let mut at = 1;
    while at < zeros.len() {
        zeros[at] = b',';
        at += 2;
    }
    zeros
};

type Handler = dyn Fn(&Seen) -> Reply + Send + Sync;

pub(crate) struct Fake {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// The number of requests whose client disconnected before the answer was complete.
    gone: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    pub(crate) fn start(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), handler)
    }

    /// Starts a server at a given address, for example that of a server that was killed.
    pub(crate) fn at(
        address: SocketAddr,
        handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = (0..200)
            .find_map(|_| {
                let bound = TcpListener::bind(address);
                if bound.is_err() {
                    thread::sleep(Duration::from_millis(20));
                }
                bound.ok()
            })
            .expect("the address is free");
        let address = listener.local_addr().unwrap();
        let (seen, gone) = (
            Arc::<Mutex<Vec<Seen>>>::default(),
            Arc::<AtomicUsize>::default(),
        );
        let (stop, open) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<TcpStream>>>::default(),
        );
        let handler: Arc<Handler> = Arc::new(handler);
        let thread = thread::spawn({
            let (seen, gone) = (Arc::clone(&seen), Arc::clone(&gone));
            let (stop, open) = (Arc::clone(&stop), Arc::clone(&open));
            move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(stream) = stream else { continue };
                    stream.set_nodelay(true).unwrap();
                    open.lock().unwrap().push(stream.try_clone().unwrap());
                    let (seen, gone) = (Arc::clone(&seen), Arc::clone(&gone));
                    let (stop, handler) = (Arc::clone(&stop), Arc::clone(&handler));
                    thread::spawn(move || serve(&stream, &*handler, &seen, &gone, &stop));
                }
            }
        });
        Self {
            address,
            seen,
            gone,
            stop,
            open,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn gone(&self) -> usize {
        self.gone.load(Ordering::SeqCst)
    }

    /// Stops the server, breaks its connections, and returns its address.
    pub(crate) fn kill(mut self) -> SocketAddr {
        self.end();
        self.address
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(
    stream: &TcpStream,
    handler: &Handler,
    seen: &Mutex<Vec<Seen>>,
    gone: &AtomicUsize,
    stop: &AtomicBool,
) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        seen.lock().unwrap().push(request.clone());
        let reply = handler(&request);
        if stop.load(Ordering::SeqCst) || answer(stream, reply, gone).is_none() {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Seen {
        path,
        headers,
        body,
    })
}

/// Sends the reply to a request; `None` if the connection is closed then.
fn answer(mut stream: &TcpStream, reply: Reply, gone: &AtomicUsize) -> Option<()> {
    let head = |status: u16, kind: &str, headers: &[(&str, String)], length: usize| {
        let mut head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n"
    };
    let json = "application/json";
    match reply {
        Reply::Json(status, value) => {
            let text = value.to_string();
            let all = head(status, json, &[], text.len()) + &text;
            stream.write_all(all.as_bytes()).ok()
        }
        Reply::With(status, headers, text) => {
            let all = head(status, json, &headers, text.len()) + &text;
            stream.write_all(all.as_bytes()).ok()
        }
        Reply::Hang => wait_for_the_end(stream, gone),
        Reply::HangInBody(value) => {
            let text = value.to_string();
            let all = head(200, json, &[], text.len()) + &text[..text.len() / 2];
            stream.write_all(all.as_bytes()).ok()?;
            wait_for_the_end(stream, gone)
        }
        Reply::Cut(value) => {
            let text = value.to_string();
            let all = head(200, json, &[], text.len()) + &text[..text.len() / 2];
            let _ = stream.write_all(all.as_bytes());
            None
        }
        Reply::Drip(value, pause) => {
            let text = value.to_string();
            stream
                .write_all(head(200, json, &[], text.len()).as_bytes())
                .ok()?;
            for byte in text.bytes() {
                thread::sleep(pause);
                if stream.write_all(&[byte]).is_err() {
                    gone.fetch_add(1, Ordering::SeqCst);
                    return None;
                }
            }
            Some(())
        }
        Reply::Close => None,
        Reply::Events(all) => {
            events(stream, &all)?;
            let _ = stream.write_all(b"data: [DONE]\n\n");
            None
        }
        Reply::EventsAndHang(all) => {
            events(stream, &all)?;
            wait_for_the_end(stream, gone)
        }
        Reply::Zeros(begin, bytes, end) => {
            let rounds = bytes / ZEROS.len();
            let length = begin.len() + rounds * ZEROS.len() + 1 + end.len();
            let head = head(200, json, &[], length) + begin;
            stream.write_all(head.as_bytes()).ok()?;
            for _ in 0..rounds {
                stream.write_all(&ZEROS).ok()?;
            }
            stream.write_all(format!("0{end}").as_bytes()).ok()
        }
    }
}

fn events(mut stream: &TcpStream, all: &[Value]) -> Option<()> {
    let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).ok()?;
    for event in all {
        let event = format!(": alive\n\ndata: {event}\n\n");
        stream.write_all(event.as_bytes()).ok()?;
    }
    Some(())
}

fn wait_for_the_end(mut stream: &TcpStream, gone: &AtomicUsize) -> Option<()> {
    let mut byte = [0];
    if !matches!(stream.read(&mut byte), Ok(1..)) {
        gone.fetch_add(1, Ordering::SeqCst);
    }
    None
}
