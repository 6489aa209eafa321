//! The loss of a token: the clipped surrogate of PPO (arXiv 1707.06347), and a divergence from a reference policy.

/// The settings of the loss, equal for all tokens of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The allowed range of importance ratios, `1 - clip.0` to `1 + clip.1`.
    pub clip: (f64, f64),
    /// The coefficient of the divergence from the reference policy; 0 ignores the reference.
    pub kl: f64,
}

/// The inputs of a sampled token's loss. The log-probability under the current policy is a separate argument of
/// [`Objective::loss`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// The factor of the loss, from [`Average::weights`](super::Average::weights).
    pub weight: f64,
    /// The advantage of the token's step; a positive advantage makes the token more probable.
    pub advantage: f64,
    /// The log-probability under the sampling policy; `None` means that the policy has not changed since.
    pub old: Option<f64>,
    /// The log-probability under the reference policy; `None` drops the divergence term.
    pub reference: Option<f64>,
}

/// The loss of a token, the derivative that training needs, and figures for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenLoss {
    /// The loss, multiplied by [`Token::weight`].
    pub loss: f64,
    /// The derivative of `loss` by the log-probability under the current policy.
    pub slope: f64,
    /// True if the ratio was clipped, so that the surrogate has no gradient.
    pub clipped: bool,
    /// The divergence from the sampling policy at this token, in nats by [`k3`].
    pub kl_old: f64,
}

/// Returns an estimate of the divergence of `policy` from `other`, in nats: `other / policy - log(other / policy) -
/// 1`. The arguments are log-probabilities of a token that `policy` sampled. The estimate is unbiased and never
/// negative (k3 in Schulman, "Approximating KL divergence").
#[must_use]
pub fn k3(policy: f64, other: f64) -> f64 {
    let difference = other - policy;
    difference.exp() - difference - 1.0
}

impl Objective {
    /// Returns the loss `weight * (kl * k3 - min(ratio A, clip(ratio) A))` of `token`, where `log_prob` is its
    /// log-probability under the current policy.
    #[must_use]
    pub fn loss(&self, token: &Token, log_prob: f64) -> TokenLoss {
        let old = token.old.unwrap_or(log_prob);
        let ratio = (log_prob - old).exp();
        let a = token.advantage;
        let free = ratio * a;
        let bounded = ratio.clamp(1.0 - self.clip.0, 1.0 + self.clip.1) * a;
        // `min` clips a ratio only where that lowers the gain, so an update can always undo a bad change.
        let clipped = bounded < free;
        let mut loss = -free.min(bounded);
        // The derivative of `ratio` by `log_prob` is `ratio`, so the slope of the unclipped term is `-ratio A`.
        let mut slope = if clipped { 0.0 } else { -free };
        if let Some(reference) = token.reference {
            loss += self.kl * k3(log_prob, reference);
            slope += self.kl * (1.0 - (reference - log_prob).exp());
        }
        TokenLoss {
            loss: token.weight * loss,
            slope: token.weight * slope,
            clipped,
            // The first argument of `k3` is the policy that sampled the token.
            kl_old: k3(old, log_prob),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIP: Objective = Objective {
        clip: (0.2, 0.28),
        kl: 0.0,
    };

    fn token(advantage: f64, ratio: f64) -> TokenLoss {
        let token = Token {
            weight: 1.0,
            advantage,
            old: Some(-1.0),
            reference: None,
        };
        CLIP.loss(&token, -1.0 + f64::ln(ratio))
    }

    #[test]
    fn ratios_are_clipped_where_that_lowers_the_gain() {
        for (advantage, ratio, loss, clipped) in [
            (1.0, 1.0, -1.0, false),
            (1.0, 1.2, -1.2, false),
            (1.0, 1.5, -1.28, true),
            (1.0, 0.5, -0.5, false),
            (-1.0, 0.5, 0.8, true),
            (-1.0, 0.9, 0.9, false),
            (-1.0, 1.5, 1.5, false),
        ] {
            let got = token(advantage, ratio);
            assert!(
                (got.loss - loss).abs() < 1e-12,
                "{advantage} {ratio}: {got:?}"
            );
            assert_eq!(got.clipped, clipped, "{advantage} {ratio}");
        }
    }

    #[test]
    fn without_old_probabilities_the_gradient_is_that_of_reinforce() {
        let token = Token {
            weight: 0.5,
            advantage: 3.0,
            old: None,
            reference: None,
        };
        let got = CLIP.loss(&token, -2.0);
        assert_eq!((got.loss, got.slope), (-1.5, -1.5));
        assert_eq!((got.clipped, got.kl_old), (false, 0.0));
    }

    #[test]
    fn slopes_are_those_of_finite_differences() {
        let with_kl = Objective {
            clip: (0.2, 0.28),
            kl: 0.3,
        };
        for advantage in [-1.5, 0.0, 0.7] {
            for log_prob in [-3.0, -1.31, -1.0, -0.9, -0.5] {
                let token = Token {
                    weight: 0.25,
                    advantage,
                    old: Some(-1.0),
                    reference: Some(-1.2),
                };
                let at = |x: f64| with_kl.loss(&token, x).loss;
                let h = 1e-6;
                let expected = (at(log_prob + h) - at(log_prob - h)) / (2.0 * h);
                let got = with_kl.loss(&token, log_prob).slope;
                assert!(
                    (got - expected).abs() < 1e-6,
                    "{advantage} {log_prob}: {got} against {expected}"
                );
            }
        }
    }

    #[test]
    fn the_k3_estimate_is_zero_for_equal_policies_and_never_negative() {
        assert_eq!(k3(-1.0, -1.0), 0.0);
        // Half the probability: 1/2 + log 2 - 1.
        let half = k3(-1.0, -1.0 - f64::ln(2.0));
        assert!((half - (0.5 + f64::ln(2.0) - 1.0)).abs() < 1e-12);
        assert!(k3(-3.0, -1.0) > 0.0 && k3(-1.0, -3.0) > 0.0);
    }
}
