//! How the losses of tokens are averaged: the weight of each token of a chain.

/// What the losses of tokens are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// The chain's length, then the number of chains: the mean over chains of their means.
    Sequence,
    /// The longest length that a chain may have, then the number of chains.
    Constant,
    /// The number of chains alone: a chain's tokens are summed.
    SequenceSum,
    /// The number of tokens of all chains together.
    Token,
}

impl Average {
    /// The weight of each token of chains of these lengths, of which none may be longer than
    /// `longest`.
    #[must_use]
    pub fn weights(self, lengths: &[usize], longest: usize) -> Vec<f64> {
        let chains = lengths.len() as f64;
        let tokens = lengths.iter().sum::<usize>().max(1) as f64;
        let of = |&length: &usize| match self {
            Self::Sequence => 1.0 / (chains * length.max(1) as f64),
            Self::Constant => 1.0 / (chains * longest.max(1) as f64),
            Self::SequenceSum => 1.0 / chains,
            Self::Token => 1.0 / tokens,
        };
        lengths.iter().map(of).collect()
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
