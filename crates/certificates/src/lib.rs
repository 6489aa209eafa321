//! The certificate authorities that clients trust: Mozilla's, which are compiled in, those of the
//! system, and those that the user names.
//!
//! A company's proxy may decrypt every connection and sign it with the company's own certificate.
//! Users name the file of that certificate in `SSL_CERT_FILE` or `REQUESTS_CA_BUNDLE`.
//! [`Certificates`] has these files, for requests to hubs and to model servers.
//!
//! If `SSL_CERT_FILE` or `SSL_CERT_DIR` is set, `rustls-native-certs` returns the certificates in
//! there instead of the system's.

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

/// The files of certificates that are trusted in addition to those of Mozilla and the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    named: Vec<(&'static str, PathBuf)>,
}

/// A file of certificates that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {}: {reason}; it must name a file of certificates in PEM form", path.display())]
pub struct CertificatesError {
    /// The variable that names the file: `SSL_CERT_FILE` or `REQUESTS_CA_BUNDLE`.
    pub variable: &'static str,
    /// The file or folder that the variable names.
    pub path: PathBuf,
    /// The fault of the file, or the error of the operating system.
    pub reason: String,
}

impl Certificates {
    /// The files that `SSL_CERT_FILE` and `REQUESTS_CA_BUNDLE` name. An empty variable counts as
    /// unset. `lookup` is `|name| std::env::var(name).ok()` in a program.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let named = VARIABLES.into_iter().filter_map(|variable| {
            // An empty variable counts as unset: that is how shells unset a variable for one
            // command.
            let path = lookup(variable).filter(|path| !path.is_empty())?;
            Some((variable, PathBuf::from(path)))
        });
        Self {
            named: named.collect(),
        }
    }

    /// Returns Mozilla's certificates and those of the files. For clients that add the system's
    /// certificates by themselves.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or has no usable certificate.
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
            // `rustls` may reject some certificates of a file; one usable certificate is enough.
            let usable = found.certs.into_iter().filter(is_usable);
            let before = all.len();
            all.extend(usable);
            if all.len() == before {
                return Err(bad("there is no certificate in it".to_owned()));
            }
        }
        Ok(all)
    }

    /// Returns the certificates of [`own`](Self::own) and the system's. Unreadable ones of the
    /// system are skipped.
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

/// Returns why a server's certificate was refused; `None` if the error has another cause.
pub fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    match causes(error).find_map(|cause| cause.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(reason)) => Some(reason.to_string()),
        _ => None,
    }
}

/// Iterates over an error and its chain of causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        // `io::Error::source` skips the wrapped error and returns that error's cause: take the
        // wrapped error.
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
