//! Formats of numbers that reports and commands share.

/// Formats bytes in MB of 10^6 bytes, not MiB, with one decimal.
#[must_use]
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Formats a share of 0 to 1 as a percentage with one decimal.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
