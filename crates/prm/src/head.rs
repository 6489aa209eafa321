use beamgen_engine::Weights;

use crate::error::Error;
use crate::spec::PrmSpec;

/// A linear output and the logistic function.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// `[hidden]`
    weight: Vec<f32>,
    bias: f32,
}

impl Head {
    /// `weight: [hidden]`.
    pub fn new(weight: Vec<f32>, bias: f32) -> Self {
        Self { weight, bias }
    }

    /// The head that `spec` names among a checkpoint's tensors.
    ///
    /// # Errors
    /// A tensor is missing or has another shape than `[1, hidden]` and `[1]`.
    pub fn load(spec: &PrmSpec, weights: &Weights, hidden: usize) -> Result<Self, Error> {
        let weight = weights.values(&spec.weight, &[1, hidden])?;
        let bias = match &spec.bias {
            Some(name) => weights.values(name, &[1])?[0],
            None => 0.0,
        };
        Ok(Self { weight, bias })
    }

    /// Values of a hidden state.
    pub fn width(&self) -> usize {
        self.weight.len()
    }

    /// Probability from a hidden state `[hidden]`; always summed in the same order.
    pub fn probability(&self, hidden: &[f32]) -> f32 {
        let logit = self
            .weight
            .iter()
            .zip(hidden)
            .fold(f64::from(self.bias), |sum, (&w, &h)| {
                sum + f64::from(w) * f64::from(h)
            });
        (1.0 / (1.0 + (-logit).exp())) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logit_becomes_a_probability() {
        let head = Head::new(vec![1.0, -2.0], 0.5);
        assert_eq!(head.probability(&[1.5, 1.0]), 0.5);
        let expected = 1.0 / (1.0 + (-2.5f64).exp());
        assert_eq!(head.probability(&[2.0, 0.0]), expected as f32);
    }

    /// Far logits round to 0 and 1, which are probabilities like any other.
    #[test]
    fn extreme_logits_are_probabilities() {
        let head = Head::new(vec![1e30], 0.0);
        assert_eq!(head.probability(&[-1e30]), 0.0);
        assert_eq!(head.probability(&[1e30]), 1.0);
    }
}
