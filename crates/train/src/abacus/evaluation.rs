//! Evaluation of a generator and a PRM on held-out problems, with float32 weights before their export to bf16.

use super::reward::judge;
use super::tokenizer::{Encoded, encode_chain};
use crate::Result;
use crate::tune::batches::pad;
use crate::tune::{Decoder, Input, RewardHead};
use beamgen_eval::quality;
use beamgen_world::{self as world, Difficulty, Split, Verdict, WorldProblem};
use candle_core::{D, Tensor};
use serde::Serialize;
use std::collections::BTreeMap;
use tokenizers::Tokenizer;

/// The accuracy of greedy decoding, by lines and by problems.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Greedy {
    /// The number of problems in the denominator of `solved`.
    pub problems: usize,
    /// The fraction of right lines; each line is decoded after the right lines before it.
    pub lines: f64,
    /// The fraction of problems whose greedy chain is entirely right.
    pub solved: f64,
}

type Chain = (WorldProblem, Vec<String>);

/// Runs `decoder` over chains, 32 at a time; an end-of-text token follows each chain if `end` is true. Calls `read`
/// with the hidden states of all padded rows, and with each encoded chain and its first row.
fn read_chains(
    decoder: &Decoder,
    tok: &Tokenizer,
    chains: &[Chain],
    end: bool,
    mut read: impl FnMut(&Tensor, &[(usize, Encoded)]) -> Result<()>,
) -> Result<()> {
    for chunk in chains.chunks(32) {
        let encoded = chunk
            .iter()
            .map(|(p, lines)| encode_chain(tok, p, lines, end))
            .collect::<Result<Vec<_>>>()?;
        let (ids, time) = pad(&encoded.iter().map(|c| c.ids.as_slice()).collect::<Vec<_>>());
        let hidden = decoder.forward(Input::Tokens(&ids), time, None)?;
        let placed: Vec<_> = (0..).step_by(time.max(1)).zip(encoded).collect();
        read(&hidden, &placed)?;
    }
    Ok(())
}

/// Returns `count` problems of the test split, which no stage trains on.
pub fn held_out(seed: u64, count: usize, difficulty: Difficulty) -> Vec<WorldProblem> {
    world::problems(seed, difficulty, Split::Test)
        .take(count)
        .collect()
}

/// Measures greedy decoding with one forward pass over the right solution. A chain is decoded right exactly if each
/// of its tokens is the likeliest one after the tokens before it.
///
/// # Errors
/// The tokenizer or a tensor operation fails.
pub fn greedy(decoder: &Decoder, tok: &Tokenizer, problems: &[WorldProblem]) -> Result<Greedy> {
    let (mut lines, mut right, mut solved) = (0usize, 0usize, 0usize);
    let chains: Vec<Chain> = problems.iter().map(|p| (p.clone(), p.solution())).collect();
    read_chains(decoder, tok, &chains, true, |hidden, chains| {
        let logits = hidden.matmul(&decoder.head()?.t()?)?;
        let best: Vec<u32> = logits.argmax(D::Minus1)?.to_vec1()?;
        for (start, c) in chains {
            let mut all = true;
            for r in &c.lines {
                // The row before a token predicts it.
                let ok = r.clone().all(|t| best[start + t - 1] == c.ids[t]);
                lines += 1;
                right += usize::from(ok);
                all &= ok;
            }
            solved += usize::from(all);
        }
        Ok(())
    })?;
    Ok(Greedy {
        problems: problems.len(),
        lines: right as f64 / lines.max(1) as f64,
        solved: solved as f64 / problems.len().max(1) as f64,
    })
}

/// The accuracy of a PRM at finding the first wrong line of chains, from [`detection`].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Detection {
    /// The number of chains; those with a wrong line count for `found`, the others for `clean`.
    pub chains: usize,
    /// The area under the ROC curve over lines; lines after the first wrong one of a chain are left out.
    pub auc: f64,
    /// The area under the ROC curve with the generator's log-probability of a line in place of the PRM's score, for
    /// comparison.
    pub auc_log_probability: f64,
    /// The fraction of wrong chains whose first flagged line is the first wrong line. A line is flagged if its score
    /// is below 0.5.
    pub found: f64,
    /// The fraction of right chains without a flagged line.
    pub clean: f64,
    /// The harmonic mean of `found` and `clean`, as in `ProcessBench` (arXiv 2412.06559).
    pub f1: f64,
}

/// Returns the score of each line for each chain: the sigmoid of the head's output at the newline.
///
/// # Errors
/// The tokenizer or a tensor operation fails.
pub fn line_scores(
    (decoder, head): (&Decoder, &RewardHead),
    tok: &Tokenizer,
    chains: &[Chain],
) -> Result<Vec<Vec<f32>>> {
    let mut out = Vec::with_capacity(chains.len());
    read_chains(decoder, tok, chains, false, |hidden, chains| {
        let at: Vec<u32> = chains
            .iter()
            .flat_map(|(start, c)| c.lines.iter().map(move |r| (start + r.end - 1) as u32))
            .collect();
        let ends = hidden.index_select(&Tensor::new(at, &decoder.device)?, 0)?;
        let z: Vec<f32> = head.log_odds(decoder, &ends)?.to_vec1()?;
        let mut scores = z.into_iter().map(|z| 1.0 / (1.0 + (-z).exp()));
        out.extend(
            chains
                .iter()
                .map(|(_, c)| scores.by_ref().take(c.lines.len()).collect()),
        );
        Ok(())
    })?;
    Ok(out)
}

/// Returns the log-probability of each line under `decoder`, for each chain.
///
/// # Errors
/// The tokenizer or a tensor operation fails.
pub fn line_log_probabilities(
    decoder: &Decoder,
    tok: &Tokenizer,
    chains: &[Chain],
) -> Result<Vec<Vec<f32>>> {
    let mut out = Vec::with_capacity(chains.len());
    read_chains(decoder, tok, chains, false, |hidden, chains| {
        let logits = hidden.matmul(&decoder.head()?.t()?)?;
        let logp = candle_nn::ops::log_softmax(&logits, D::Minus1)?.to_vec2::<f32>()?;
        for (start, c) in chains {
            // The logits of the row before a token predict the token.
            let lines = c.lines.iter().map(|line| {
                line.clone()
                    .map(|t| logp[start + t - 1][c.ids[t] as usize])
                    .sum()
            });
            out.push(lines.collect());
        }
        Ok(())
    })?;
    Ok(out)
}

/// The detection of the first wrong lines of one kind of mistake.
#[derive(Clone, Debug, Serialize)]
pub struct KindDetection {
    /// The name of the kind, one of those of `beamgen_world::mistake`.
    pub kind: &'static str,
    /// The number of chains whose first wrong line is of this kind.
    pub lines: usize,
    /// The fraction of these lines with a score below 0.5.
    pub caught: f64,
    /// The area under the ROC curve that separates these lines from all right lines.
    pub auc: f64,
    /// The area under the ROC curve with the generator's log-probability of a line in place of the PRM's score.
    pub auc_log_probability: f64,
}

/// Measures the detection of wrong lines in `chains` by `prm`, over all mistakes and for each kind. A score below 0.5
/// flags a line. `reference` is the generator that gives the log-probabilities.
///
/// # Errors
/// The tokenizer or a tensor operation fails.
pub fn detection(
    prm: (&Decoder, &RewardHead),
    reference: &Decoder,
    tok: &Tokenizer,
    chains: &[Chain],
) -> Result<(Detection, Vec<KindDetection>)> {
    let scores = line_scores(prm, tok, chains)?;
    let logps = line_log_probabilities(reference, tok, chains)?;
    // Each pair is a line's score and its log-probability.
    let mut right_lines: Vec<(f32, f32)> = Vec::new();
    let mut wrong_lines: BTreeMap<&'static str, Vec<(f32, f32)>> = BTreeMap::new();
    let (mut wrong, mut found, mut right, mut clean) = (0usize, 0usize, 0usize, 0usize);
    for (((p, lines), s), l) in chains.iter().zip(&scores).zip(&logps) {
        let verdicts = judge(p, lines);
        let first = verdicts.iter().position(|v| *v != Verdict::Right);
        let flagged = s.iter().position(|&s| s < 0.5);
        if let Some(i) = first {
            wrong += 1;
            found += usize::from(flagged == first);
            let kind = world::mistake(&lines[i], verdicts[i], i < p.facts.len());
            wrong_lines.entry(kind).or_default().push((s[i], l[i]));
        } else {
            right += 1;
            clean += usize::from(flagged.is_none());
        }
        right_lines.extend((0..first.unwrap_or(lines.len())).map(|i| (s[i], l[i])));
    }
    let (found, clean) = (
        found as f64 / wrong.max(1) as f64,
        clean as f64 / right.max(1) as f64,
    );
    let (auc, auc_log_probability) = areas(&right_lines, wrong_lines.values().flatten());
    let kinds = wrong_lines
        .iter()
        .map(|(kind, lines)| {
            let (auc, auc_log_probability) = areas(&right_lines, lines.iter());
            KindDetection {
                kind,
                lines: lines.len(),
                caught: lines.iter().filter(|x| x.0 < 0.5).count() as f64 / lines.len() as f64,
                auc,
                auc_log_probability,
            }
        })
        .collect();
    let all = Detection {
        chains: chains.len(),
        auc,
        auc_log_probability,
        found,
        clean,
        f1: 2.0 * found * clean / (found + clean).max(1e-9),
    };
    Ok((all, kinds))
}

/// Returns the areas under the ROC curves by the first and by the second number of the pairs.
fn areas<'a>(
    right: &[(f32, f32)],
    wrong: impl Iterator<Item = &'a (f32, f32)> + Clone,
) -> (f64, f64) {
    let right = right.iter().map(|pair| (pair, true));
    let all = right.chain(wrong.map(|pair| (pair, false)));
    let scores = all.clone().map(|(pair, is_right)| (pair.0, is_right));
    let log_probabilities = all.map(|(pair, is_right)| (pair.1, is_right));
    (auc(scores.collect()), auc(log_probabilities.collect()))
}

/// Returns the area under the ROC curve, with ties counted half, or 0 if all items are right or all are wrong.
pub fn auc(mut items: Vec<(f32, bool)>) -> f64 {
    items.sort_by(|a, b| a.0.total_cmp(&b.0));
    let items = items
        .into_iter()
        .map(|(score, is_right)| (score, is_right, 1.0));
    quality::auc(items).unwrap_or(0.0)
}
