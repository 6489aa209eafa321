//! The certificates by which servers are trusted: Mozilla's, which are compiled in, the system's,
//! and those of a company.
//!
//! A company's proxy may open every connection and sign it with its own certificate. Programs find
//! that certificate in the files that `SSL_CERT_FILE` and `REQUESTS_CA_BUNDLE` name.
//! [`Certificates`] is the list of these files, for requests to hubs and to servers.
//!
//! If `SSL_CERT_FILE` or `SSL_CERT_DIR` is set, `rustls-native-certs` itself reads them in place of
//! the system's certificates.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io;
use std::iter::successors;
use std::path::PathBuf;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls_native_certs::{load_certs_from_paths, load_native_certs};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// The variables that name a file of certificates, or a folder of such files.
const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"];

/// The advice when a certificate is refused.
pub const ADVICE: &str = "where a company's proxy signs all connections, set SSL_CERT_FILE or REQUESTS_CA_BUNDLE to a file with its certificate";

/// Files of certificates that are trusted in addition to Mozilla's and the system's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    named: Vec<(&'static str, PathBuf)>,
}

/// A file of certificates that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {}: {reason}; it must name a file of certificates in PEM form", path.display())]
pub struct CertificatesError {
    /// The environment variable that names the file.
    pub variable: &'static str,
    /// The path in the variable.
    pub path: PathBuf,
    /// The defect of the file, or the system's error.
    pub reason: String,
}

impl Certificates {
    /// The files that `SSL_CERT_FILE` and `REQUESTS_CA_BUNDLE` name. An empty variable counts as
    /// unset. `lookup` is `|name| std::env::var(name).ok()` in a program.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let named = VARIABLES.into_iter().filter_map(|variable| {
            // Shells unset a variable for one command by setting it to nothing.
            let path = lookup(variable).filter(|path| !path.is_empty())?;
            Some((variable, PathBuf::from(path)))
        });
        Self {
            named: named.collect(),
        }
    }

    /// Reads Mozilla's certificates and those of the files, for clients that add the system's
    /// themselves.
    ///
    /// # Errors
    /// [`CertificatesError`] if a file cannot be read, or has no certificate.
    pub fn own(&self) -> Result<Vec<CertificateDer<'static>>, CertificatesError> {
        let mut all = TLS_SERVER_ROOT_CERTS.to_vec();
        for (variable, path) in &self.named {
            let bad = |reason: String| CertificatesError {
                variable,
                path: path.clone(),
                reason,
            };
            let found = if path.is_dir() {
                load_certs_from_paths(None, Some(path))
            } else {
                load_certs_from_paths(Some(path), None)
            };
            if let Some(reason) = found.errors.first().and_then(|e| causes(e).last()) {
                return Err(bad(reason.to_string()));
            }
            // A file may have certificates that `rustls` rejects; one usable certificate is enough.
            let usable = found.certs.into_iter().filter(is_usable);
            let before = all.len();
            all.extend(usable);
            if all.len() == before {
                return Err(bad("there is no certificate in it".to_owned()));
            }
        }
        Ok(all)
    }

    /// Reads all certificates: those of [`own`](Self::own) and the readable ones of the system.
    ///
    /// # Errors
    /// The errors of [`own`](Self::own).
    pub fn all(&self) -> Result<Vec<CertificateDer<'static>>, CertificatesError> {
        let mut all = self.own()?;
        all.extend(load_native_certs().certs);
        Ok(all)
    }
}

/// Whether `rustls` can trust a certificate.
fn is_usable(certificate: &CertificateDer<'static>) -> bool {
    RootCertStore::empty().add(certificate.clone()).is_ok()
}

/// The reason why a server's certificate was refused; `None` if an error has another cause.
pub fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    match causes(error).find_map(|cause| cause.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(reason)) => Some(reason.to_string()),
        _ => None,
    }
}

/// Iterates over an error, its cause, the cause of that cause, and so on.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        // `io::Error::source` skips the error that it wraps, so the wrapped error is taken
        // directly.
        match error.downcast_ref::<io::Error>().and_then(|e| e.get_ref()) {
            Some(held) => Some(held),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const AUTHORITY: &str = include_str!("../../hub/tests/tls/authority.pem");

    fn named(variable: &str, path: &str) -> Certificates {
        Certificates::from_lookup(|name| (name == variable).then(|| path.to_owned()))
    }

    #[test]
    fn a_companys_certificate_is_added() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("company.pem");
        fs::write(&file, AUTHORITY).expect("written");
        let plain = Certificates::default().own().expect("Mozilla's").len();
        assert!(plain > 50);
        for variable in VARIABLES {
            for place in [file.as_path(), dir.path()] {
                let all = named(variable, place.to_str().expect("UTF-8")).own();
                assert_eq!(all.expect("one more").len(), plain + 1);
            }
            assert_eq!(named(variable, ""), Certificates::default());
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let text = dir.path().join("text.pem");
        fs::write(&text, "no certificate").expect("written");
        for (path, reason) in [
            (text.as_path(), "there is no certificate in it"),
            (&dir.path().join("none.pem"), "No such file"),
        ] {
            let path = path.to_str().expect("UTF-8");
            let error = named("REQUESTS_CA_BUNDLE", path).all().expect_err(path);
            let error = error.to_string();
            assert!(error.starts_with("REQUESTS_CA_BUNDLE: "), "{error}");
            assert!(error.contains(path) && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_refused_certificate_is_found_at_the_bottom() {
        let unknown = rustls::CertificateError::UnknownIssuer;
        let tls = rustls::Error::InvalidCertificate(unknown);
        let inner = io::Error::new(io::ErrorKind::InvalidData, tls);
        let outer = io::Error::other(inner);
        assert!(refusal(&outer).is_some());
        assert_eq!(refusal(&io::Error::other("another")), None);
        assert_eq!(refusal(&rustls::Error::DecryptError), None);
    }
}
