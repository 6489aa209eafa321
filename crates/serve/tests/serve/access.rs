//! Who gets in.

use std::net::SocketAddr;

use beamgen_serve::{Error, ServeOptions, Server};
use serde_json::json;

use crate::client::{Running, ask, problem};

const KEY: &str = "correct-horse-battery";

fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").into_bytes()
}

#[test]
fn an_address_that_others_reach_needs_a_key_or_leave() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let open = ServeOptions {
        address: everywhere,
        ..ServeOptions::default()
    };
    let refused = Server::bind(open.clone());
    assert!(matches!(refused, Err(Error::Open { .. })));
    let with_key = ServeOptions {
        keys: vec![KEY.parse().unwrap()],
        ..open.clone()
    };
    assert!(Server::bind(with_key).is_ok());
    let on_purpose = ServeOptions {
        allow_anyone: true,
        ..open
    };
    assert!(Server::bind(on_purpose).is_ok());
}

#[test]
fn all_routes_but_health_are_behind_the_key() {
    let server = Running::start(ServeOptions {
        keys: vec![KEY.parse().unwrap()],
        ..ServeOptions::default()
    });
    assert_eq!(server.get("/health").status, 200);
    for path in [
        "/",
        "/ready",
        "/metrics",
        "/v1/models",
        "/v1/models/fast",
        "/v1/problems",
        "/other",
    ] {
        let reply = server.get(path);
        assert_eq!(reply.refusal().0, 401, "{path}");
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        assert!(
            reply
                .header("www-authenticate")
                .unwrap()
                .starts_with("Bearer")
        );
        let wrong = "Host: localhost\r\nAuthorization: Bearer correct-horse-batterx\r\n";
        assert_eq!(
            server.send(&get(path, wrong)).unwrap().status,
            401,
            "{path}"
        );
        let right = format!("Host: localhost\r\nAuthorization: Bearer {KEY}\r\n");
        assert_ne!(
            server.send(&get(path, &right)).unwrap().status,
            401,
            "{path}"
        );
    }
    for path in [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/score",
        "/v1/refine",
        "/v1/guard",
    ] {
        assert_eq!(
            server.post(path, &ask(&problem(0), json!({}))).refusal().0,
            401
        );
    }
    // `printf 'me:correct-horse-battery' | base64`, as a browser sends it.
    let basic = "Host: localhost\r\nAuthorization: Basic bWU6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5\r\n";
    assert_eq!(server.send(&get("/", basic)).unwrap().status, 200);
}

#[test]
fn other_hosts_and_origins_are_refused_on_every_route() {
    let server = Running::start(ServeOptions {
        host_names: vec!["solver.example".to_owned()],
        ..ServeOptions::default()
    });
    let port = server.address.port();
    for (path, headers, status) in [
        ("/health", "Host: evil.example\r\n", 421),
        ("/v1/models", "Host: evil.example\r\n", 421),
        ("/v1/models", "", 421),
        ("/v1/models", "Host: localhost\r\nHost: localhost\r\n", 421),
        ("/v1/models", "Host: solver.example\r\n", 200),
        ("/v1/models", "Host: 127.0.0.1\r\n", 200),
        ("http://evil.example/v1/models", "Host: localhost\r\n", 421),
        (
            "/v1/models",
            "Host: localhost\r\nOrigin: http://evil.example\r\n",
            403,
        ),
        ("/v1/models", "Host: localhost\r\nOrigin: null\r\n", 403),
    ] {
        let reply = server.send(&get(path, headers)).unwrap();
        assert_eq!(reply.status, status, "{path} {headers:?}");
        let allowed = reply
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("access-control"));
        assert!(!allowed, "{:?}", reply.headers);
    }
    let own = format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n");
    assert_eq!(server.send(&get("/v1/models", &own)).unwrap().status, 200);
    // A browser asks first whether a page may; nothing in the answer says that it may.
    let preflight = b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\
                      Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n";
    assert_eq!(server.send(preflight).unwrap().status, 403);
}
