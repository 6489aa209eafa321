//! Averages over the losses of tokens, expressed as a weight for each token.

/// The divisor of a token's loss, by which published algorithms differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// The length of the token's chain times the number of chains, as in GRPO: the mean over chains of their mean
    /// losses.
    Sequence,
    /// The longest allowed length times the number of chains, as in Dr. GRPO.
    Constant,
    /// The number of chains, as in RLOO: losses are summed within a chain.
    SequenceSum,
    /// The number of tokens in all chains, as in DAPO.
    Token,
}

impl Average {
    /// Returns the weight of a token in each chain; `lengths` are the chains' numbers of tokens and `longest` is the
    /// largest allowed one.
    #[must_use]
    pub fn weights(self, lengths: &[usize], longest: usize) -> Vec<f64> {
        let chains = lengths.len() as f64;
        // Chains without tokens must not divide by 0.
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
