//! Formats of numbers that reports and commands share.

/// Formats bytes in MB of 10^6 bytes, not MiB, with one decimal.
#[must_use]
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Formats floating-point operations with a decimal prefix, for example as `84.4 G`.
#[must_use]
pub fn operations(flops: u64) -> String {
    let prefixes = ["", " k", " M", " G", " T", " P", " E"];
    let (mut value, mut at) = (flops as f64, 0);
    // 999.95 would be shown as 1000.0.
    while value >= 999.95 && at + 1 < prefixes.len() {
        value /= 1e3;
        at += 1;
    }
    let digits = usize::from(at > 0);
    format!("{value:.digits$}{}", prefixes[at])
}

/// Formats a share of 0 to 1 as a percentage with one decimal.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::operations;

    #[test]
    fn operations_have_a_prefix() {
        let shown = [0, 999, 1000, 999_949, 999_951, 84_432_100_000, u64::MAX].map(operations);
        let wanted = ["0", "999", "1.0 k", "999.9 k", "1.0 M", "84.4 G", "18.4 E"];
        assert_eq!(shown, wanted);
    }
}
