//! DAPO's soft penalty of chains that come near the length limit (2503.14476).

/// The part of the limit in which the penalty grows: 4,096 of 20,480 tokens as published.
const PART: f64 = 0.2;

/// What a chain of `length` tokens loses, 0 to 1, where `limit` is the longest that it may be.
#[must_use]
pub fn penalty(length: usize, limit: usize) -> f64 {
    let (length, limit) = (length as f64, limit as f64);
    let free = limit * (1.0 - PART);
    ((length - free) / (limit - free).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_penalty_grows_over_the_last_fifth() {
        for (length, expected) in [
            (0, 0.0),
            (80, 0.0),
            (85, 0.25),
            (90, 0.5),
            (100, 1.0),
            (120, 1.0),
        ] {
            let got = penalty(length, 100);
            assert!((got - expected).abs() < 1e-9, "{length}: {got}");
        }
    }
}
