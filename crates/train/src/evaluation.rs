//! How good a pair is, measured on held-out problems with the trained weights themselves.

use crate::Result;
use crate::model::Model;
use crate::reward::judge;
use crate::tokenizer::encode_chain;
use crate::trainer::Batch;
use beamgen_world::{self as world, Difficulty, Split, Verdict, WorldProblem};
use candle_core::D;
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

/// Problems that nothing was trained on.
pub fn held_out(seed: u64, count: usize, difficulty: Difficulty) -> Vec<WorldProblem> {
    world::problems(seed, difficulty, Split::Test)
        .take(count)
        .collect()
}

/// Greedy accuracy in one forward pass a batch: greedy decoding is right as long as every token of
/// the right solution is the likeliest one after those before it.
pub fn greedy(model: &Model, tok: &Tokenizer, problems: &[WorldProblem]) -> Result<Greedy> {
    let (mut lines, mut right, mut solved) = (0usize, 0usize, 0usize);
    for chunk in problems.chunks(32) {
        let chains = chunk
            .iter()
            .map(|p| encode_chain(tok, p, &p.solution(), true))
            .collect::<Result<Vec<_>>>()?;
        let b = Batch::pad(&chains.iter().map(|c| c.ids.clone()).collect::<Vec<_>>());
        let best: Vec<u32> = model
            .hidden(&b.ids, b.time)?
            .matmul(&model.var("model.embed_tokens.weight").t()?)?
            .argmax(D::Minus1)?
            .to_vec1()?;
        for (i, c) in chains.iter().enumerate() {
            let mut all = true;
            for r in &c.lines {
                let ok = r.clone().all(|t| best[i * b.time + t - 1] == c.ids[t]);
                lines += 1;
                right += usize::from(ok);
                all &= ok;
            }
            solved += usize::from(all);
        }
    }
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
    /// Harmonic mean of the two (ProcessBench).
    pub f1: f64,
}

/// Scores of every line end, `sigmoid(head)`, chain by chain.
pub fn line_scores(
    model: &Model,
    tok: &Tokenizer,
    chains: &[(WorldProblem, Vec<String>)],
) -> Result<Vec<Vec<f32>>> {
    let mut out = Vec::with_capacity(chains.len());
    for chunk in chains.chunks(32) {
        let encoded = chunk
            .iter()
            .map(|(p, lines)| encode_chain(tok, p, lines, false))
            .collect::<Result<Vec<_>>>()?;
        let b = Batch::pad(&encoded.iter().map(|c| c.ids.clone()).collect::<Vec<_>>());
        let at: Vec<u32> = encoded
            .iter()
            .enumerate()
            .flat_map(|(i, c)| c.lines.iter().map(move |r| (i * b.time + r.end - 1) as u32))
            .collect();
        let z: Vec<f32> = model
            .scores(&model.hidden(&b.ids, b.time)?, &at)?
            .to_vec1()?;
        let mut z = z.into_iter();
        for c in &encoded {
            out.push(
                z.by_ref()
                    .take(c.lines.len())
                    .map(|z| 1.0 / (1.0 + (-z).exp()))
                    .collect(),
            );
        }
    }
    Ok(out)
}

/// Log-probability of every line under a language model, chain by chain.
pub fn line_log_probabilities(
    model: &Model,
    tok: &Tokenizer,
    chains: &[(WorldProblem, Vec<String>)],
) -> Result<Vec<Vec<f32>>> {
    let mut out = Vec::with_capacity(chains.len());
    for chunk in chains.chunks(32) {
        let encoded = chunk
            .iter()
            .map(|(p, lines)| encode_chain(tok, p, lines, false))
            .collect::<Result<Vec<_>>>()?;
        let b = Batch::pad(&encoded.iter().map(|c| c.ids.clone()).collect::<Vec<_>>());
        let logits = model
            .hidden(&b.ids, b.time)?
            .matmul(&model.var("model.embed_tokens.weight").t()?)?;
        let logp = candle_nn::ops::log_softmax(&logits, D::Minus1)?.to_vec2::<f32>()?;
        for (i, c) in encoded.iter().enumerate() {
            out.push(
                c.lines
                    .iter()
                    .map(|r| {
                        r.clone()
                            .map(|t| logp[i * b.time + t - 1][c.ids[t] as usize])
                            .sum()
                    })
                    .collect(),
            );
        }
    }
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
pub fn detection(
    prm: &Model,
    reference: &Model,
    tok: &Tokenizer,
    chains: &[(WorldProblem, Vec<String>)],
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
        match first {
            Some(i) => {
                wrong += 1;
                found += usize::from(flagged == first);
                let kind = world::mistake(&lines[i], verdicts[i], i < p.facts.len());
                wrong_lines.entry(kind).or_default().push((s[i], l[i]));
            }
            None => {
                right += 1;
                clean += usize::from(flagged.is_none());
            }
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

/// Area under the ROC curve; ties count half.
pub fn auc(mut items: Vec<(f32, bool)>) -> f64 {
    items.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut sum) = (0usize, 0f64);
    let positives = items.iter().filter(|x| x.1).count();
    let mut i = 0;
    while i < items.len() {
        let mut j = i;
        while j < items.len() && items[j].0 == items[i].0 {
            j += 1;
        }
        let ups = items[i..j].iter().filter(|x| x.1).count();
        let downs = j - i - ups;
        sum += ups as f64 * (below as f64 + downs as f64 / 2.0);
        below += downs;
        i = j;
    }
    sum / (positives as f64 * (items.len() - positives) as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::auc;

    #[test]
    fn auc_counts_pairs() {
        assert_eq!(auc(vec![(0.1, false), (0.9, true)]), 1.0);
        assert_eq!(auc(vec![(0.9, false), (0.1, true)]), 0.0);
        assert_eq!(auc(vec![(0.5, false), (0.5, true)]), 0.5);
        assert_eq!(
            auc(vec![(0.1, false), (0.2, true), (0.3, false), (0.4, true)]),
            0.75
        );
    }
}
