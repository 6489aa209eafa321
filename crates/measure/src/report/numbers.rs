//! Formatting of numbers for people.

/// Writes bytes in MB (10^6 bytes), with one digit after the point.
#[must_use]
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Writes a fraction in per cent, with one digit after the point.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
