//! Numbers as people read them.

/// `1234567` as `1 234 567`. A comma would be a decimal point in some countries.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Bytes in MB (10^6 bytes).
#[must_use]
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A fraction in per cent.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 12, 123, 1234, 1_000_000].map(grouped),
            ["0", "12", "123", "1 234", "1 000 000"]
        );
    }
}
