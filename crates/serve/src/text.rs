//! Splits the text of an answer into steps, and assigns the tokens to the steps.

use beamgen::ProblemResult;
use beamgen::generator::{TokenLogprob, TokenLogprobs};
use beamgen::strategy::NodeId;
use serde_json::{Map, Value, json};

use crate::ask::{Ask, Shape};

/// A step of an answer, or the part of it that the answer returns.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub text: String,
    /// Whether the text belongs to the thought before the answer.
    pub is_thought: bool,
    /// The tokens that begin in the piece, each with its offset in the answer in characters.
    pub tokens: Vec<(usize, TokenLogprobs)>,
    /// The offset in bytes of the piece's text from the first sampled byte; negative in given
    /// steps.
    begin: isize,
}

impl Piece {
    pub(crate) fn new(text: &str, tokens: Vec<(usize, TokenLogprobs)>) -> Self {
        Self {
            text: text.to_owned(),
            is_thought: false,
            tokens,
            begin: 0,
        }
    }
}

/// Returns the number of bytes at the beginning of a chain that come from the request.
fn given_bytes(result: &ProblemResult, path: &[NodeId]) -> usize {
    let steps = path.iter().take(result.problem.steps.len());
    let steps = steps.map(|&id| result.tree.node(id).text.len());
    steps.sum::<usize>() + result.problem.prefix.len()
}

/// Returns the number of steps of a chain that come entirely from the request.
pub(crate) fn given_steps(result: &ProblemResult, node: NodeId) -> usize {
    let path = result.tree.path(node);
    let mut left = given_bytes(result, &path);
    let given = path.iter().take_while(|&&id| {
        let bytes = result.tree.node(id).text.len();
        let is_given = (1..=left).contains(&bytes);
        left -= if is_given { bytes } else { 0 };
        is_given
    });
    given.count()
}

/// Returns the number of sampled tokens in the steps that come entirely from the request.
pub(crate) fn given_tokens(result: &ProblemResult, node: NodeId) -> usize {
    let path = result.tree.path(node).into_iter();
    let given = path.take(given_steps(result, node));
    given.map(|id| result.tree.node(id).sampled_tokens()).sum()
}

/// Returns the steps of a chain, without the beginning that the request gave as a message. In the
/// answer of a chat, the thought of a step is a piece of its own, without its tags. If there is no
/// given beginning and no stop text, white space at both ends is removed.
pub(crate) fn pieces(ask: &Ask, result: &ProblemResult, node: NodeId) -> Vec<Piece> {
    let (tree, path) = (&result.tree, result.tree.path(node));
    let mut begin = -(given_bytes(result, &path) as isize);
    let mut pieces = Vec::new();
    let has_prefix = !result.problem.prefix.is_empty();
    for &id in &path {
        let text = tree.node(id).text.as_str();
        let after = begin + text.len() as isize;
        let given = if has_prefix {
            begin.min(0).unsigned_abs()
        } else {
            0
        };
        // A chain that ended early may end within the given beginning, even within a character of
        // it. A thought comes before the answer, so the pieces are in the order of the text.
        let thought = tree.node(id).thought;
        let thought = thought.filter(|_| ask.shape == Shape::Chat);
        let (open, close) = thought.map_or((0, 0), |t| (t.open, t.bytes - t.close));
        let spoken = thought.map_or(0, |thought| thought.bytes);
        for (is_thought, from, to) in [(true, open, close), (false, spoken, text.len())] {
            let from = from.max(given);
            let text = text.get(from..to.max(from)).unwrap_or_default();
            pieces.push(Piece {
                text: text.to_owned(),
                is_thought,
                tokens: Vec::new(),
                begin: begin + from as isize,
            });
        }
        begin = after;
    }
    let (mut thoughts, mut answer): (Vec<_>, Vec<_>) =
        pieces.into_iter().partition(|piece| piece.is_thought);
    trim(&mut thoughts);
    if !has_prefix && ask.settings.generator.stop.is_empty() {
        trim(&mut answer);
    }
    let mut pieces = thoughts;
    pieces.append(&mut answer);
    pieces.retain(|piece| !piece.text.is_empty());
    place(&mut pieces, tree.token_logprobs(node));
    pieces
}

fn trim(pieces: &mut Vec<Piece>) {
    // Once blank steps at both ends are gone, trimming the first and the last piece trims the whole
    // text.
    let blank = pieces
        .iter()
        .take_while(|piece| piece.text.trim().is_empty());
    let blank = blank.count();
    pieces.drain(..blank);
    while pieces
        .last()
        .is_some_and(|piece| piece.text.trim().is_empty())
    {
        pieces.pop();
    }
    if let Some(first) = pieces.first_mut() {
        let text = first.text.trim_start().to_owned();
        first.begin += (first.text.len() - text.len()) as isize;
        first.text = text;
    }
    if let Some(last) = pieces.last_mut() {
        last.text.truncate(last.text.trim_end().len());
    }
}

/// Assigns each token to the first piece that contains one of its bytes.
fn place<'a>(pieces: &mut [Piece], tokens: impl Iterator<Item = &'a TokenLogprobs>) {
    let (mut at, mut begin, mut before) = (0, 0_isize, 0);
    for token in tokens.filter(|token| token.in_text) {
        let end = begin + token.chosen.bytes.len() as isize;
        while let Some(piece) = pieces.get(at)
            && piece.begin + piece.text.len() as isize <= begin
        {
            before += piece.text.chars().count();
            at += 1;
        }
        if let Some(piece) = pieces.get_mut(at)
            && piece.begin < end
        {
            let own = (begin - piece.begin).max(0) as usize;
            let own = piece.text.char_indices().filter(|(byte, _)| *byte < own);
            let offset = before + own.count();
            piece.tokens.push((offset, token.clone()));
        }
        begin = end;
    }
}

/// Returns tokens with log-probabilities in the form of OpenAI's API; `most` is the number of
/// alternatives for each token.
pub(crate) fn logprobs(shape: Shape, tokens: &[(usize, TokenLogprobs)], most: usize) -> Value {
    let tokens = tokens.iter();
    match shape {
        Shape::Chat => {
            let content = tokens.map(|(_, token)| {
                let mut entry = entry(&token.chosen);
                entry["top_logprobs"] = token.top.iter().map(self::entry).collect();
                entry
            });
            json!({"content": content.collect::<Vec<_>>(), "refusal": null})
        }
        Shape::Completion => {
            let tops = tokens.clone().map(|(_, token)| {
                let top = token.top.iter().map(|top| (text(top), json!(number(top))));
                // Clients look up the sampled token here, even if it is not among the likeliest
                // ones.
                let own = (text(&token.chosen), json!(number(&token.chosen)));
                Value::Object(Map::from_iter(top.chain([own])))
            });
            let tops = (most > 0).then(|| tops.collect::<Vec<_>>());
            let tokens: Vec<_> = tokens.collect();
            json!({
                "tokens": tokens.iter().map(|(_, token)| text(&token.chosen)).collect::<Vec<_>>(),
                "token_logprobs": tokens.iter().map(|(_, token)| number(&token.chosen)).collect::<Vec<_>>(),
                "top_logprobs": tops,
                "text_offset": tokens.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(),
            })
        }
    }
}

fn entry(token: &TokenLogprob) -> Value {
    json!({"token": text(token), "logprob": number(token), "bytes": token.bytes})
}

fn text(token: &TokenLogprob) -> String {
    String::from_utf8_lossy(&token.bytes).into_owned()
}

/// Returns a log-probability. JSON has no infinity, so OpenAI and vLLM write -9999 as the lowest
/// value.
fn number(token: &TokenLogprob) -> f32 {
    token.logprob.max(-9999.0)
}
