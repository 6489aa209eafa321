//! Whom the program trusts, and with what: certificates of a company, and the token of a hub.

use crate::bad_hub::{file, online_solve};
use crate::run::{Place, Ran};
use crate::server::{REPO, Server, Trick};
use crate::tls::{AUTHORITY, front, proxy};

const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"];

/// A place with the authority's certificate.
fn place() -> Place {
    let place = Place::new();
    place.write("p.jsonl", "{\"problem\": \"What is 1 + 1?\"}\n");
    place.write("company.pem", AUTHORITY);
    place
}

/// A hub with a tiny generator. No file is in a store, which would be another server.
fn hub() -> Server {
    let server = Server::start();
    for name in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors",
    ] {
        server.put(name, &file(name));
    }
    server
}

fn assert_untrusted(ran: &Ran, words: &[&str]) {
    let advice = ["certificate", "is not trusted", VARIABLES[0], VARIABLES[1]];
    ran.assert_refused("untrusted", &[&advice[..], words].concat());
}

#[test]
fn a_hub_behind_a_companys_proxy() {
    for variable in VARIABLES {
        let (place, server) = (place(), hub());
        let endpoint = format!("https://{}", front(&server.endpoint));
        let company = place.path("company.pem").display().to_string();
        let refused = online_solve(&place, &[("HF_ENDPOINT", &endpoint)], REPO);
        assert_untrusted(&refused, &[REPO, "127.0.0.1"]);
        let none = [("HF_ENDPOINT", endpoint.as_str()), (variable, "none.pem")];
        let refused = online_solve(&place, &none, REPO);
        refused.assert_refused("no file", &[variable, "none.pem", "No such file"]);
        let trusted = [("HF_ENDPOINT", endpoint.as_str()), (variable, &company)];
        online_solve(&place, &trusted, REPO).ok();
    }
}

#[cfg(feature = "remote")]
#[test]
fn a_server_behind_a_companys_proxy() {
    let (place, server) = (place(), hub());
    let url = format!("https://{}", front(&server.endpoint));
    let args = ["models", "--generator-url", &url];
    assert_untrusted(&place.run(&args), &[&url]);
    let company = place.path("company.pem").display().to_string();
    for variable in VARIABLES {
        // It answers, and is no engine.
        let ran = place.run_with(&[(variable, &company)], &args);
        ran.assert_refused("trusted", &[&url, "it answers as none of"]);
        let ran = place.run_with(&[(variable, "none.pem")], &args);
        ran.assert_refused("no file", &[variable, "none.pem", "No such file"]);
    }
}

/// The token goes to the endpoint and to the public hub, not to where others send on.
#[test]
fn a_token_follows_to_the_public_hub_alone() {
    let (mirror, public, other) = (hub(), hub(), hub());
    let listing = format!("/api/models/{REPO}/revision/main");
    let send_on = |from: &Server, on: &str, to: &str| {
        from.trick(on, 99, Trick::Redirect(format!("https://{to}{on}")));
    };
    send_on(&mirror, &listing, "huggingface.co");
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        let path = format!("/{REPO}/resolve/{}/{name}", crate::server::COMMIT);
        send_on(&mirror, &path, "hf.co");
    }
    let weights = format!(
        "/{REPO}/resolve/{}/model.safetensors",
        crate::server::COMMIT
    );
    send_on(&mirror, &weights, "other.test");
    let proxy = proxy(vec![
        ("mirror.test", front(&mirror.endpoint)),
        ("huggingface.co", front(&public.endpoint)),
        ("hf.co", front(&public.endpoint)),
        ("other.test", front(&other.endpoint)),
    ]);
    let place = place();
    let company = place.path("company.pem").display().to_string();
    let variables = [
        ("HF_ENDPOINT", "https://mirror.test"),
        ("HF_TOKEN", "hf_secret"),
        ("HTTPS_PROXY", &proxy),
        ("SSL_CERT_FILE", &company),
    ];
    online_solve(&place, &variables, REPO).ok();
    let expected = [
        (mirror, Some("Bearer hf_secret")),
        (public, Some("Bearer hf_secret")),
        (other, None),
    ];
    for (server, token) in expected {
        let seen = server.seen();
        assert!(!seen.is_empty());
        for seen in seen {
            assert_eq!(seen.token.as_deref(), token, "{seen:?}");
        }
    }
}
