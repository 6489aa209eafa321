//! Evaluation of a generator and a PRM on held-out problems, with the trained weights themselves.

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

/// The accuracy of greedy decoding on held-out problems.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Greedy {
    /// The number of decoded problems.
    pub problems: usize,
    /// The fraction of right lines, each decoded after a right prefix.
    pub lines: f64,
    /// The fraction of problems with only right lines.
    pub solved: f64,
}

/// A problem and the lines of a chain.
type Chain = (WorldProblem, Vec<String>);

/// Runs `decoder` over chains, 32 at a time, with the end-of-text token if `end` asks for it. Calls
/// `read` with the hidden states of all padded rows, and with each chain and its first row.
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

/// Returns `count` problems of the test split, on which nothing is trained.
pub fn held_out(seed: u64, count: usize, difficulty: Difficulty) -> Vec<WorldProblem> {
    world::problems(seed, difficulty, Split::Test)
        .take(count)
        .collect()
}

/// Measures greedy decoding without decoding: a forward pass over the right solution suffices,
/// since greedy decoding is right as long as each token is the likeliest after those before it.
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
                // A token is predicted by the row before it.
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

/// The accuracy of a PRM on chains whose right and wrong lines are known.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Detection {
    /// The number of judged chains, right and wrong ones.
    pub chains: usize,
    /// The area under the ROC curve over lines, up to and including the first wrong line of a
    /// chain.
    pub auc: f64,
    /// The area under the ROC curve over the same lines, with the generator's log-probability of a
    /// line as its score.
    pub auc_log_probability: f64,
    /// The fraction of wrong chains whose first wrong line is the first line flagged.
    pub found: f64,
    /// The fraction of right chains without a flagged line.
    pub clean: f64,
    /// The harmonic mean of `found` and `clean`, the F1 of `ProcessBench` (2412.06559).
    pub f1: f64,
}

/// Returns the score of each line, `sigmoid(head)` at its newline, for each chain.
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

/// Returns the log-probability of each line under a language model, for each chain.
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
            // The row before a token has its log-probability.
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

/// The detection of one kind of mistake.
#[derive(Clone, Debug, Serialize)]
pub struct KindDetection {
    /// The name of the kind, as `beamgen_world::mistake` gives it.
    pub kind: &'static str,
    /// The number of first wrong lines of this kind.
    pub lines: usize,
    /// The fraction of these lines that are scored below 0.5.
    pub caught: f64,
    /// The area under the ROC curve of these lines against all right lines.
    pub auc: f64,
    /// The area under the ROC curve of the same lines, with the generator's log-probability of a
    /// line as its score.
    pub auc_log_probability: f64,
}

/// Measures the detection of wrong lines in `chains` by `prm`, over all mistakes and for each kind.
/// A line is flagged if its score is below 0.5. `reference` is the generator, for its
/// log-probability of each line.
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
    // Pairs of a line's score and log-probability.
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

/// Returns the areas under the ROC curves of both elements of pairs, right lines against wrong
/// ones.
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

/// Returns the area under the ROC curve; ties count half. The area is 0 unless both right and wrong
/// items exist.
pub fn auc(mut items: Vec<(f32, bool)>) -> f64 {
    items.sort_by(|a, b| a.0.total_cmp(&b.0));
    let items = items
        .into_iter()
        .map(|(score, is_right)| (score, is_right, 1.0));
    quality::auc(items).unwrap_or(0.0)
}
