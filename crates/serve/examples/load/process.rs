//! The program `beamgen serve` on a free port.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::Reply;

type Failure = Box<dyn std::error::Error>;

pub(crate) struct Process {
    child: Child,
    address: String,
}

impl Process {
    pub(crate) fn start(binary: &str, flags: &[&str]) -> Result<Self, Failure> {
        let mut child = Command::new(binary)
            .args(["serve", "--port", "0", "--queue", "1024"])
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().ok_or("no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        let address = loop {
            let line = lines.next().ok_or("the server did not start")??;
            if let Some((_, address)) = line.split_once("http://") {
                break address.to_owned();
            }
        };
        // What it says later has to go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address })
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        let most = Some(Duration::from_secs(120));
        stream.set_read_timeout(most).expect("a timeout");
        stream
    }

    /// A metric, its name with all labels and a blank.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let mut stream = self.connect();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("the server reads");
        let reply = Reply::read(&mut BufReader::new(stream)).expect("an answer");
        let text = reply.text();
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }

    /// Waits until nothing waits, is at work or is held; says for how long.
    pub(crate) fn wait_until_idle(&self) -> f64 {
        let started = Instant::now();
        let names = [
            "beamgen_queue_waiting ",
            "beamgen_in_flight ",
            "beamgen_cache_bytes ",
        ];
        while names.iter().any(|name| self.metric(name) > 0.0) {
            let waited = started.elapsed();
            assert!(waited < Duration::from_secs(30), "it never ends");
            std::thread::sleep(Duration::from_millis(2));
        }
        started.elapsed().as_secs_f64()
    }

    /// Memory that is resident, in MiB.
    pub(crate) fn resident_mib(&self) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kib.ok_or("no VmRSS")?.parse::<f64>()? / 1024.0)
    }

    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        if self.child.wait()?.success() {
            Ok(())
        } else {
            Err("the server failed".into())
        }
    }
}
