//! Log-probabilities of chains under the starting policy, computed by the engine, which reads a
//! prompt once for all chains of a group.

use beamgen_engine::{Append, Engine, SeqId, Want};

use super::rollout::Group;
use crate::Result;

/// The largest number of logits in memory at a time (64 MiB of f32).
const LOGITS: usize = 16 << 20;

/// A part of a chain that is read in one call: the tokens to read, and the tokens that follow them.
struct Part<'a> {
    seq: SeqId,
    chain: usize,
    tokens: Vec<u32>,
    targets: &'a [u32],
}

/// Computes the log-probabilities of all tokens of the group's chains.
///
/// # Errors
/// The engine cannot run a batch.
pub(super) fn log_probs(engine: &mut Engine, group: &Group) -> Result<Vec<Vec<f32>>> {
    let vocab = engine.model().config().vocab_size;
    let rows = (LOGITS / vocab).max(1);
    let Some((&last, before)) = group.prompt.split_last() else {
        return Ok(vec![Vec::new(); group.chains.len()]);
    };
    // The last token of the prompt is read with each chain: its row predicts the chain's first
    // token.
    let prompt = engine.create();
    engine.logits(&[Append {
        seq: prompt,
        tokens: before,
        want: Want::None,
    }])?;
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut seqs = vec![prompt];
    for (chain, own) in group.chains.iter().enumerate() {
        // All chains share the cache of the prompt.
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
        // A call may hold a sequence only once. All parts but a chain's last fill a whole call, so
        // two parts of a chain never share a call.
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
