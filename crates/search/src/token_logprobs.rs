//! Log-probabilities of the tokens of a step.

/// A token of a step with its likeliest alternatives. All log-probabilities are natural logarithms
/// under the model's own distribution: temperature 1, before every filter, penalty, bias and
/// grammar.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// The token that was sampled, and its log-probability.
    pub chosen: TokenLogprob,
    /// Whether the token adds its bytes to the chain's text. End-of-text and other special tokens
    /// add none, except tags of thoughts.
    pub in_text: bool,
    /// Whether the token was not sampled, but closes a thought at its limit. It has no
    /// log-probability: 0 stands for it.
    pub forced: bool,
    /// The likeliest tokens, likeliest first, at most the requested number; of equal ones the
    /// lowest id first. Tokens without a probability are left out.
    pub top: Vec<TokenLogprob>,
}

/// A token and its log-probability.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// The token's id. 0 if the generator knows no ids.
    pub token: u32,
    /// The bytes that the token stands for, which may be a part of a character; the name of a
    /// special token.
    pub bytes: Vec<u8>,
    /// The natural logarithm of the token's probability; minus infinity for probability 0.
    pub logprob: f32,
}
