//! Averages over the losses of tokens, as the weight of each token of a chain.

/// The divisor of the losses of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// The chain's length, then the number of chains: the mean over chains of their mean losses
    /// (GRPO).
    Sequence,
    /// The longest allowed length of a chain, then the number of chains (Dr. GRPO).
    Constant,
    /// Only the number of chains: the tokens of a chain are summed (RLOO).
    SequenceSum,
    /// The number of tokens of all chains together (DAPO).
    Token,
}

impl Average {
    /// Returns the weight of each token of a chain, for chains of these `lengths`. No length may be
    /// above `longest`.
    #[must_use]
    pub fn weights(self, lengths: &[usize], longest: usize) -> Vec<f64> {
        let chains = lengths.len() as f64;
        // At least 1, so that chains without tokens do not divide by 0.
        let tokens = lengths.iter().sum::<usize>().max(1) as f64;
        lengths
            .iter()
            .map(|&length| match self {
                Self::Sequence => 1.0 / (chains * length.max(1) as f64),
                Self::Constant => 1.0 / (chains * longest.max(1) as f64),
                Self::SequenceSum => 1.0 / chains,
                Self::Token => 1.0 / tokens,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_average_weighs_tokens_as_its_paper_says() {
        let weights = |average: Average| average.weights(&[2, 8], 20);
        assert_eq!(weights(Average::Sequence), [0.25, 0.0625]);
        assert_eq!(weights(Average::Constant), [0.025, 0.025]);
        assert_eq!(weights(Average::SequenceSum), [0.5, 0.5]);
        assert_eq!(weights(Average::Token), [0.1, 0.1]);
    }
}
