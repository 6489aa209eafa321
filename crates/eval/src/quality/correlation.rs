//! Pearson's correlation from weighted sums.

/// Weighted sums of two variables.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Moments {
    /// Adds a pair, `weight` times. Centre both variables roughly beforehand: sums of squares far
    /// from 0 lose digits.
    pub fn add(&mut self, x: f64, y: f64, weight: f64) {
        self.weight += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.yy += weight * y * y;
        self.xy += weight * x * y;
    }

    /// Pearson's correlation; `None` if one of the variables does not vary.
    #[must_use]
    pub fn correlation(&self) -> Option<f64> {
        if self.weight <= 0.0 {
            return None;
        }
        let variance = |sum: f64, squares: f64| {
            let variance = squares / self.weight - (sum / self.weight).powi(2);
            // What is left of equal values is rounding.
            (variance > 1e-12 * (squares / self.weight)).then_some(variance)
        };
        let (x, y) = (variance(self.x, self.xx)?, variance(self.y, self.yy)?);
        let both = self.xy / self.weight - self.x * self.y / (self.weight * self.weight);
        Some((both / (x * y).sqrt()).clamp(-1.0, 1.0))
    }
}
