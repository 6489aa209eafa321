//! Fingerprints of contents, so that a run is not resumed with other problems or models.

use sha2::{Digest, Sha256};

/// The prefix of a fingerprint. Fingerprints of builds that did not use SHA-256 lack it.
const KIND: &str = "sha256:";
/// The number of digest bytes in a fingerprint: enough to distinguish contents, not to prevent forgery.
const SHOWN: usize = 16;

/// Computes the fingerprint of a sequence of fields, independent of build and machine.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a field with its length, so that fields cannot run into each other.
    pub fn field(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// Returns the prefix `sha256:` with the first 32 hexadecimal digits of the digest.
    pub fn finish(self) -> String {
        let digest = self.0.finalize();
        let digits = digest[..SHOWN].iter().map(|byte| format!("{byte:02x}"));
        KIND.chars().map(String::from).chain(digits).collect()
    }
}

/// Whether `there` may be a fingerprint of an older build, which cannot be compared with `here`.
pub(crate) fn is_of_older_kind(here: &str, there: &str) -> bool {
    here.starts_with(KIND)
        && matches!(there.len(), 16 | 32)
        && there.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(fields: &[&str]) -> String {
        let mut hash = Fingerprint::default();
        for field in fields {
            hash.field(field.as_bytes());
        }
        hash.finish()
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        assert_ne!(fingerprint(&["ab", "c"]), fingerprint(&["a", "bc"]));
        assert_ne!(fingerprint(&["ab"]), fingerprint(&["ab", ""]));
        assert_eq!(fingerprint(&["ab", "c"]), fingerprint(&["ab", "c"]));
    }

    /// `printf '\x02\0\0\0\0\0\0\0ab' | sha256sum`
    #[test]
    fn a_fingerprint_is_the_head_of_the_sha256_sum() {
        assert_eq!(
            fingerprint(&["ab"]),
            "sha256:5dff2b3fa79721a8181b9beb1db6bcce"
        );
    }

    #[test]
    fn fingerprints_of_older_builds_are_recognised() {
        let new = fingerprint(&["ab"]);
        assert!(is_of_older_kind(&new, "0123456789abcdef"));
        assert!(!is_of_older_kind(&new, &fingerprint(&["c"])));
        assert!(!is_of_older_kind("0.5", "0123456789abcdef"));
    }
}
