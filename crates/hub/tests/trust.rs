//! Tests of the certificates that the client trusts.

use std::path::Path;
use std::time::Duration;

use beamgen_hub::{Certificates, RequestError};

use crate::server::REPO;
use crate::setup::{Setup, setup};
use crate::tls::{AUTHORITY, front};

const GGUF: &str = "org/tiny:a.gguf";

/// A hub behind TLS with a certificate that a company signed.
fn behind_tls() -> Setup {
    let mut setup = setup();
    setup.server.put("a.gguf", b"bytes");
    setup.config.endpoint = format!("https://{}", front(&setup.server.endpoint));
    setup
}

fn named(variable: &str, path: &Path) -> Certificates {
    let path = path.to_str().expect("UTF-8");
    Certificates::from_lookup(|name| (name == variable).then(|| path.to_owned()))
}

#[test]
fn a_companys_certificate() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("company.pem");
    std::fs::write(&file, AUTHORITY).expect("written");
    for variable in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"] {
        let mut setup = behind_tls();
        setup.config.retries = 3;
        let text = setup.refusal(GGUF);
        for word in [
            "certificate",
            "127.0.0.1",
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        // There was no retry, since waiting does not make a certificate trusted.
        assert_eq!(setup.clock.waited(), Duration::ZERO);
        setup.config.certificates = named(variable, &file);
        setup.fetch(GGUF).expect("the file");
        // While the hub is not trusted, the cached model is used.
        setup.config.certificates = Certificates::default();
        let cached = setup.fetch(GGUF).expect("the cached file");
        let note = cached.note.expect("a note");
        assert!(note.contains("is not trusted"), "{note}");
    }
}

#[test]
fn a_file_without_certificates() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut setup = setup();
    setup.config.certificates = named("REQUESTS_CA_BUNDLE", &dir.path().join("none.pem"));
    let error = setup.fetch(REPO).expect_err("no file");
    let text = error.to_string();
    assert!(
        text.contains("REQUESTS_CA_BUNDLE: ") && text.contains("none.pem"),
        "{text}"
    );
    assert!(matches!(
        error.request_error(),
        Some(RequestError::Certificates(_))
    ));
    assert!(setup.server.seen().is_empty());
}
