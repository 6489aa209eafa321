//! How good a pair is, measured on held-out problems with the trained weights themselves.

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

/// Greedy decoding of held-out problems.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Greedy {
    /// How many were decoded.
    pub problems: usize,
    /// Lines right when everything before them is right.
    pub lines: f64,
    /// Problems solved: all lines right.
    pub solved: f64,
}

/// A problem, and the lines of a chain.
type Chain = (WorldProblem, Vec<String>);

/// Reads chains, some at a time, with the token that ends them if that is wanted. Calls `read` with
/// the hidden states of all padded rows, and each chain with its first row.
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

/// Problems that nothing was trained on.
pub fn held_out(seed: u64, count: usize, difficulty: Difficulty) -> Vec<WorldProblem> {
    world::problems(seed, difficulty, Split::Test)
        .take(count)
        .collect()
}

/// Greedy accuracy in one forward pass a batch: greedy decoding is right as long as every token of
/// the right solution is the likeliest one after those before it.
///
/// # Errors
/// Errors of candle and of the tokenizer.
pub fn greedy(decoder: &Decoder, tok: &Tokenizer, problems: &[WorldProblem]) -> Result<Greedy> {
    let (mut lines, mut right, mut solved) = (0usize, 0usize, 0usize);
    let chains: Vec<Chain> = problems.iter().map(|p| (p.clone(), p.solution())).collect();
    read_chains(decoder, tok, &chains, true, |hidden, chains| {
        let logits = hidden.matmul(&decoder.head()?.t()?)?;
        let best: Vec<u32> = logits.argmax(D::Minus1)?.to_vec1()?;
        for (start, c) in chains {
            let mut all = true;
            for r in &c.lines {
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

/// How well a PRM tells right lines from wrong ones on chains with known truth.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Detection {
    /// How many were read.
    pub chains: usize,
    /// Area under the ROC curve over lines up to and including the first wrong one.
    pub auc: f64,
    /// The same from the log-probability that `reference`, the generator, gave the line.
    pub auc_log_probability: f64,
    /// First wrong line found exactly, over wrong chains.
    pub found: f64,
    /// No line flagged, over right chains.
    pub clean: f64,
    /// Harmonic mean of the two (`ProcessBench`).
    pub f1: f64,
}

/// Scores of every line end, `sigmoid(head)`, chain by chain.
///
/// # Errors
/// Errors of candle and of the tokenizer.
pub fn line_scores(
    (decoder, head): (&Decoder, &RewardHead),
    tok: &Tokenizer,
    chains: &[Chain],
) -> Result<Vec<Vec<f32>>> {
    let mut out = Vec::with_capacity(chains.len());
    read_chains(decoder, tok, chains, false, |hidden, chains| {
        let ends = |(start, c): &(usize, Encoded)| -> Vec<u32> {
            c.lines.iter().map(|r| (start + r.end - 1) as u32).collect()
        };
        let at: Vec<u32> = chains.iter().flat_map(ends).collect();
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

/// Log-probability of every line under a language model, chain by chain.
///
/// # Errors
/// Errors of candle and of the tokenizer.
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
            let log_prob = |t: usize| logp[start + t - 1][c.ids[t] as usize];
            let line = |r: &std::ops::Range<usize>| r.clone().map(log_prob).sum();
            out.push(c.lines.iter().map(line).collect());
        }
        Ok(())
    })?;
    Ok(out)
}

/// How well one kind of wrong line is told from right ones.
#[derive(Clone, Debug, Serialize)]
pub struct KindDetection {
    /// Its name.
    pub kind: &'static str,
    /// First wrong lines of this kind.
    pub lines: usize,
    /// Scored below 0.5.
    pub caught: f64,
    /// Area under the ROC curve against right lines.
    pub auc: f64,
    /// The same from the generator's log-probability of the line.
    pub auc_log_probability: f64,
}

/// Detection figures of `prm` on `chains`, over all and by kind of mistake; a line is flagged
/// below a score of 0.5. `reference` is the generator, for its own log-probability of each line.
///
/// # Errors
/// Errors of candle and of the tokenizer.
pub fn detection(
    prm: (&Decoder, &RewardHead),
    reference: &Decoder,
    tok: &Tokenizer,
    chains: &[Chain],
) -> Result<(Detection, Vec<KindDetection>)> {
    let scores = line_scores(prm, tok, chains)?;
    let logps = line_log_probabilities(reference, tok, chains)?;
    // score, log-probability
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
    let areas = |wrong: &mut dyn Iterator<Item = &(f32, f32)>| {
        let wrong: Vec<&(f32, f32)> = wrong.collect();
        let area = |pick: fn(&(f32, f32)) -> f32| {
            let right = right_lines.iter().map(|x| (pick(x), true));
            auc(right
                .chain(wrong.iter().map(|x| (pick(x), false)))
                .collect())
        };
        (area(|x| x.0), area(|x| x.1))
    };
    let (found, clean) = (
        found as f64 / wrong.max(1) as f64,
        clean as f64 / right.max(1) as f64,
    );
    let (auc, auc_log_probability) = areas(&mut wrong_lines.values().flatten());
    let kinds = wrong_lines
        .iter()
        .map(|(kind, lines)| {
            let (auc, auc_log_probability) = areas(&mut lines.iter());
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

/// The area under the ROC curve, 0 unless there are right and wrong items; ties count half.
pub fn auc(mut items: Vec<(f32, bool)>) -> f64 {
    items.sort_by(|a, b| a.0.total_cmp(&b.0));
    let items = items
        .into_iter()
        .map(|(score, is_right)| (score, is_right, 1.0));
    quality::auc(items).unwrap_or(0.0)
}
