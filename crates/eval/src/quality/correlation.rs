//! Correlation of pairs of numbers: Pearson's, from weighted sums, and Spearman's.

/// Weighted sums of two variables.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Moments {
    /// Adds a pair. The caller subtracts the means of both variables first: squares of numbers far from 0 lose
    /// digits, and rounding would look like a small variance.
    pub(super) fn add(&mut self, x: f64, y: f64) {
        self.weight += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.yy += y * y;
        self.xy += x * y;
    }

    /// Adds other sums, `weight` times.
    pub(super) fn merge(&mut self, other: &Self, weight: f64) {
        self.weight += weight * other.weight;
        self.x += weight * other.x;
        self.y += weight * other.y;
        self.xx += weight * other.xx;
        self.yy += weight * other.yy;
        self.xy += weight * other.xy;
    }

    /// Returns Pearson's correlation, -1 to 1, or `None` if `x` or `y` is constant.
    #[must_use]
    pub(super) fn correlation(&self) -> Option<f64> {
        if self.weight <= 0.0 {
            return None;
        }
        let x = self.variance(self.x, self.xx)?;
        let y = self.variance(self.y, self.yy)?;
        let both = self.xy / self.weight - self.x * self.y / (self.weight * self.weight);
        Some((both / (x * y).sqrt()).clamp(-1.0, 1.0))
    }

    fn variance(&self, sum: f64, squares: f64) -> Option<f64> {
        let variance = squares / self.weight - (sum / self.weight).powi(2);
        // Below this bound the variance of equal values is only rounding. Scores are f32 and lengths are integers, so
        // different values have a larger variance.
        (variance > 1e-20).then_some(variance)
    }
}

/// Returns Pearson's correlation; `None` with fewer than two pairs, or if one of the numbers never changes.
#[must_use]
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let mut moments = Moments::default();
    for pair in pairs {
        moments.add(pair.0 - x, pair.1 - y);
    }
    moments.correlation()
}

/// Returns Spearman's rank correlation: Pearson's of the ranks, where equal numbers share the mean of their ranks.
#[must_use]
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let x = ranks(pairs.iter().map(|pair| pair.0));
    let y = ranks(pairs.iter().map(|pair| pair.1));
    pearson(&x.into_iter().zip(y).collect::<Vec<_>>())
}

fn ranks(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = numbers.enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut ranks = vec![0.0; order.len()];
    let mut from = 0;
    for tied in order.chunk_by(|a, b| a.1 == b.1) {
        let mean = from as f64 + (tied.len() + 1) as f64 / 2.0;
        for &(at, _) in tied {
            ranks[at] = mean;
        }
        from += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_have_the_values_of_their_formulas() {
        // Means 2 and 3: the products of deviations sum to 3, their squares to 2 and 6.
        let pairs = [(1.0, 2.0), (2.0, 2.0), (3.0, 5.0)];
        let expected = 3.0 / (2.0f64 * 6.0).sqrt();
        assert!((pearson(&pairs).unwrap() - expected).abs() < 1e-12);
        // Ranks 1, 2, 3 and 1.5, 1.5, 3.
        let expected = 1.5 / (2.0f64 * 1.5).sqrt();
        assert!((spearman(&pairs).unwrap() - expected).abs() < 1e-12);
        let rising: Vec<(f64, f64)> = (1..9).map(|x| (f64::from(x), f64::from(x).exp())).collect();
        assert!((spearman(&rising).unwrap() - 1.0).abs() < 1e-12);
        assert!(pearson(&rising).unwrap() < 0.9);
        assert_eq!(pearson(&[(1.0, 2.0)]), None);
        assert_eq!(spearman(&[(1.0, 2.0), (2.0, 2.0)]), None);
    }
}
