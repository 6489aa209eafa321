//! Pearson's correlation from weighted sums.

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
