//! The log-probabilities of sampled chains under the starting policy. The engine computes them and reads a prompt
//! only once for all chains of a group.

use beamgen_engine::{Append, Engine, SeqId, Want};

use super::rollout::Group;
use crate::Result;

/// The largest number of logits in memory at a time, 64 MiB of f32.
const LOGITS: usize = 16 << 20;

/// A piece of a chain: tokens to read in one call of the engine, and the token that follows each.
struct Part<'a> {
    seq: SeqId,
    chain: usize,
    tokens: Vec<u32>,
    targets: &'a [u32],
}

/// Returns the log-probability of each token of the group's chains.
///
/// # Errors
/// The engine cannot read the tokens.
pub(super) fn log_probs(engine: &mut Engine, group: &Group) -> Result<Vec<Vec<f32>>> {
    let vocab = engine.model().config().vocab_size;
    let rows = (LOGITS / vocab).max(1);
    let Some((&last, before)) = group.prompt.split_last() else {
        return Ok(vec![Vec::new(); group.chains.len()]);
    };
    // The prompt is read without its last token. Each chain reads this token itself, since the row of this token
    // predicts the chain's first token.
    let prompt = engine.create();
    engine.logits(&[Append {
        seq: prompt,
        tokens: before,
        want: Want::None,
    }])?;
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut seqs = vec![prompt];
    for (chain, own) in group.chains.iter().enumerate() {
        // The fork lets all chains share the prompt's cache.
        let seq = engine.fork(prompt);
        seqs.push(seq);
        let mut read = last;
        for targets in own.tokens.chunks(rows) {
            let mut tokens = vec![read];
            tokens.extend_from_slice(&targets[..targets.len() - 1]);
            read = targets[targets.len() - 1];
            parts.push(Part {
                seq,
                chain,
                tokens,
                targets,
            });
        }
    }
    let mut out = vec![Vec::new(); group.chains.len()];
    let mut from = 0;
    while from < parts.len() {
        // A call of the engine may contain a sequence only once. Two pieces of a chain are never in one call, because
        // all pieces of a chain but the last fill a call.
        let mut to = from + 1;
        let mut held = parts[from].tokens.len();
        while to < parts.len() && held + parts[to].tokens.len() <= rows {
            held += parts[to].tokens.len();
            to += 1;
        }
        let call = &parts[from..to];
        let items: Vec<Append<'_>> = call
            .iter()
            .map(|part| Append {
                seq: part.seq,
                tokens: &part.tokens,
                want: Want::All,
            })
            .collect();
        let targets: Vec<u32> = call.iter().flat_map(|part| part.targets).copied().collect();
        let logits = engine.logits(&items)?;
        let mut found = Vec::new();
        engine.log_probs(&logits, &targets, &mut found)?;
        engine.recycle_logits(logits);
        let mut found = found.into_iter();
        for part in call {
            out[part.chain].extend(found.by_ref().take(part.targets.len()));
        }
        from = to;
    }
    for seq in seqs {
        engine.free(seq);
    }
    Ok(out)
}
