//! Log-probabilities of the tokens of a step.

/// A token of a step with the model's opinion of it. All log-probabilities are natural logarithms
/// under the model's own distribution: temperature 1, before every filter, penalty, bias and
/// grammar.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// The token that the step has, and its log-probability.
    pub chosen: TokenLogprob,
    /// Whether the token adds its bytes to the chain's text. End-of-text and other special tokens
    /// add none, except tags of thoughts.
    pub in_text: bool,
    /// The likeliest tokens, likeliest first; of equal ones the lowest id first. As many as were
    /// asked for, fewer where other tokens have no probability.
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
    /// The natural log of the token's probability, at most 0; minus infinity for a token that the
    /// model thinks impossible.
    pub logprob: f32,
}
