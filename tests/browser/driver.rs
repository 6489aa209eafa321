//! A real browser: Debian's Chromium, driven over HTTP by its own chromedriver.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use beamgen_test_support::{Missing, skip};
use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::Agent;

/// Without the flags on background work Chromium asks for hosts of its maker at every start.
const FLAGS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
];

/// A browser with one window. It ends when this is dropped.
pub(super) struct Browser {
    driver: Child,
    agent: Agent,
    address: String,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser; `None` after a skip, where there is none.
    #[track_caller]
    pub(super) fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("a free port").port();
        let spawned = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut driver) = spawned else {
            skip(
                Missing::Tool,
                "no chromedriver (Debian's package chromium-driver)",
            );
            return None;
        };
        let stdout = BufReader::new(driver.stdout.take().expect("a pipe"));
        let mut lines = stdout.lines().map_while(Result::ok);
        assert!(
            lines.any(|line| line.contains("started successfully")),
            "chromedriver starts"
        );
        // What it writes later has to be read, or it would wait.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = tempfile::tempdir().expect("a folder");
        let mut flags = FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let config = Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(120)))
            .http_status_as_error(false);
        let mut browser = Self {
            driver,
            agent: config.build().into(),
            address: format!("http://127.0.0.1:{port}/session"),
            session: String::new(),
            _profile: profile,
        };
        let wanted = json!({
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
        });
        let session = browser.post("", &json!({"capabilities": {"alwaysMatch": wanted}}));
        let id = session["sessionId"].as_str().expect("a session");
        browser.session = format!("/{id}");
        // The page of a new window asks for its own parts.
        browser.open("about:blank");
        browser.requests();
        browser.console();
        Some(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let address = format!("{}{}{path}", self.address, self.session);
        let reply = self
            .agent
            .post(&address)
            .content_type("application/json")
            .send(body.to_string());
        let mut reply = reply.expect("chromedriver answers");
        let text = reply
            .body_mut()
            .with_config()
            .limit(1 << 28)
            .read_to_string();
        let reply: Value = serde_json::from_str(&text.expect("text")).expect("JSON");
        assert!(
            reply["value"]["error"].is_null(),
            "{path}: {}",
            reply["value"]["message"]
        );
        reply["value"].clone()
    }

    pub(super) fn open(&self, address: &str) {
        self.post("/url", &json!({"url": address}));
    }

    /// Runs a script in the page and returns what the script returns.
    pub(super) fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script returns something true, and returns it.
    #[track_caller]
    pub(super) fn wait(&self, script: &str) -> Value {
        let from = Instant::now();
        loop {
            let value = self.script(script);
            if ![Value::Null, json!(false), json!(0), json!("")].contains(&value) {
                return value;
            }
            assert!(
                from.elapsed() < Duration::from_secs(60),
                "never true: {script}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks the element of a selector, as a mouse does.
    #[track_caller]
    pub(super) fn click(&self, selector: &str) {
        let element = self.post(
            "/element",
            &json!({"using": "css selector", "value": selector}),
        );
        let id = element
            .as_object()
            .and_then(|of| of.values().next())
            .expect("an element");
        let id = id.as_str().expect("an id");
        self.post(&format!("/element/{id}/click"), &json!({}));
    }

    /// Presses keys on what has the focus, one after the other.
    pub(super) fn press(&self, keys: &[&str]) {
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})))
            .collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.post("/actions", &json!({"actions": [keyboard]}));
    }

    /// Tells pages the colours that are liked, the width of the window, and whether motion is.
    pub(super) fn emulate(&self, colours: &str, width: u32, height: u32) {
        let run = |command: &str, params: Value| {
            self.post(
                "/goog/cdp/execute",
                &json!({"cmd": command, "params": params}),
            );
        };
        let feature = json!({"name": "prefers-color-scheme", "value": colours});
        run("Emulation.setEmulatedMedia", json!({"features": [feature]}));
        run(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
    }

    /// The window as a PNG.
    pub(super) fn screenshot(&self) -> Vec<u8> {
        let shot = self.post(
            "/goog/cdp/execute",
            &json!({"cmd": "Page.captureScreenshot", "params": {}}),
        );
        let text = shot["data"].as_str().expect("base64");
        BASE64_STANDARD.decode(text).expect("base64")
    }

    /// The addresses that pages asked for since the last call.
    pub(super) fn requests(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "performance"}));
        let messages = entries
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let message = serde_json::from_str::<Value>(entry["message"].as_str()?).ok()?;
                let message = &message["message"];
                let is_request = message["method"] == "Network.requestWillBeSent";
                let url = message["params"]["request"]["url"].as_str()?;
                is_request.then(|| url.to_owned())
            });
        messages.collect()
    }

    /// Returns the console's messages since the last call: errors, and what the security policy
    /// blocked.
    pub(super) fn console(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "browser"}));
        let entries = entries.as_array().into_iter().flatten();
        entries.map(|entry| entry["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let address = format!("{}{}", self.address, self.session);
        let _ = self.agent.delete(&address).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
