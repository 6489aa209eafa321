//! Tests web pages of other origins, which the options allow.

use beamgen_serve::{Error, ServeOptions, Server};
use serde_json::json;

use crate::client::{Reply, Running, ask, problem, request};

const PAGE: &str = "https://app.example";
const CHAT: &str = "/v1/chat/completions";
const KEY: &str = "correct-horse-battery";

fn with(origins: &[&str], key: Option<&str>) -> ServeOptions {
    ServeOptions {
        allow_origins: origins.iter().map(|text| text.parse().unwrap()).collect(),
        keys: key.iter().map(|key| key.parse().unwrap()).collect(),
        ..ServeOptions::default()
    }
}

fn preflight(server: &Running, origin: &str, headers: &str) -> Reply {
    let bytes = format!(
        "OPTIONS {CHAT} HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nConnection: close\r\n\
         Access-Control-Request-Method: POST\r\n{headers}\r\n"
    );
    server.send(bytes.as_bytes()).unwrap()
}

#[test]
fn a_page_of_an_allowed_origin_asks_first_and_then_gets_an_answer_that_it_may_read() {
    let server = Running::start(with(&["https://other.example", PAGE], Some(KEY)));
    let asked = "authorization,content-type,x-request-id,x-stainless-lang,x-stainless-retry-count";
    let asking = format!("Access-Control-Request-Headers: {asked}\r\n");
    let reply = preflight(&server, PAGE, &asking);
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    for (name, value) in [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-methods", "GET, POST"),
        ("access-control-allow-headers", asked),
        ("access-control-max-age", "600"),
        ("vary", "Origin"),
    ] {
        assert_eq!(reply.header(name), Some(value), "{name}");
    }
    assert!(reply.header("x-request-id").is_some());
    assert_eq!(reply.header("access-control-allow-credentials"), None);

    for (key, body, status) in [
        (KEY, ask(&problem(0), json!({"n": 2, "m": 1})), 200),
        (KEY, json!({"messages": 3}), 400),
        // A page must be able to read the refusal of a wrong key.
        ("another-long-key-42", json!({}), 401),
    ] {
        let headers = format!("Origin: {PAGE}\r\nAuthorization: Bearer {key}\r\n");
        let reply = server
            .send(&request(CHAT, &body.to_string(), &headers))
            .unwrap();
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some(PAGE));
        assert_eq!(reply.header("vary"), Some("Origin"));
        let readable = reply.header("access-control-expose-headers").unwrap();
        assert!(readable.contains("X-Request-ID"), "{readable}");
    }
}

#[test]
fn other_pages_stay_outside() {
    let server = Running::start(with(&[PAGE], None));
    for origin in ["https://evil.example", "http://app.example", "null"] {
        let reply = preflight(&server, origin, "");
        assert_eq!(reply.refusal().1, "cross_origin", "{origin}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
        let headers = format!("Origin: {origin}\r\n");
        let reply = server.send(&request(CHAT, "{}", &headers)).unwrap();
        assert_eq!(reply.refusal().1, "cross_origin", "{origin}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    // Programs send no Origin header. Vary tells caches that the answer depends on the header.
    let reply = server.get("/v1/models");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("vary"), Some("Origin"));
    assert_eq!(reply.header("access-control-allow-origin"), None);
    // An allowed page must still use a valid Host header.
    let bytes = format!(
        "GET /health HTTP/1.1\r\nHost: evil.example\r\nOrigin: {PAGE}\r\nConnection: close\r\n\r\n"
    );
    let reply = server.send(bytes.as_bytes()).unwrap();
    assert_eq!(reply.refusal().1, "host_not_allowed");
    assert_eq!(reply.header("access-control-allow-origin"), None);
}

#[test]
fn what_a_preflight_request_asks_for_is_bounded() {
    let server = Running::start(with(&[PAGE], None));
    let long = "x-y,".repeat(1000);
    for asked in ["a b", "x\u{e9}", long.as_str()] {
        let headers = format!("Access-Control-Request-Headers: {asked}\r\n");
        let reply = preflight(&server, PAGE, &headers);
        assert_eq!(reply.status, 204);
        assert_eq!(
            reply.header("access-control-allow-headers"),
            None,
            "{asked}"
        );
    }
    // Without the headers of a preflight request, OPTIONS is an unsupported method.
    let bytes = format!(
        "OPTIONS {CHAT} HTTP/1.1\r\nHost: localhost\r\nOrigin: {PAGE}\r\nConnection: close\r\n\r\n"
    );
    let reply = server.send(bytes.as_bytes()).unwrap();
    assert_eq!(reply.refusal().1, "method_not_allowed");
}

#[test]
fn every_page_is_let_in_with_a_key_only() {
    let refused = Server::bind(ServeOptions {
        allow_anyone: true,
        ..with(&["*"], None)
    });
    assert!(matches!(refused, Err(Error::EveryOrigin)));
    let server = Running::start(with(&["*"], Some(KEY)));
    for origin in [PAGE, "null"] {
        let reply = preflight(&server, origin, "");
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        let headers = format!("Origin: {origin}\r\n");
        let reply = server.send(&request(CHAT, "{}", &headers)).unwrap();
        assert_eq!(reply.refusal().1, "invalid_api_key");
    }
    // The output of `printf 'me:correct-horse-battery' | base64`. A browser adds a remembered
    // password by itself, so a password does not prove that the page knows the key.
    for (scheme, status) in [
        ("Basic bWU6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", 401),
        ("Bearer correct-horse-battery", 200),
    ] {
        let bytes = format!(
            "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: {PAGE}\r\nConnection: close\r\n\
             Authorization: {scheme}\r\n\r\n"
        );
        let reply = server.send(bytes.as_bytes()).unwrap();
        assert_eq!(reply.status, status, "{scheme}");
    }
}
