//! What the starting policy thinks of given chains, by the engine: it reads a prompt once for all
//! chains of a group.

use beamgen_engine::{Append, Engine, SeqId, Want};

use super::rollout::Group;
use crate::Result;

/// Values of the logits that are held at a time.
const LOGITS: usize = 16 << 20;

/// A part of a chain that is read in one call, and the tokens that follow its rows.
struct Part<'a> {
    seq: SeqId,
    chain: usize,
    tokens: Vec<u32>,
    targets: &'a [u32],
}

/// The log-probabilities of all tokens of the group's chains.
///
/// # Errors
/// What the engine says.
pub(super) fn log_probs(engine: &mut Engine, group: &Group) -> Result<Vec<Vec<f32>>> {
    let vocab = engine.model().config().vocab_size;
    let rows = (LOGITS / vocab).max(1);
    let Some((&last, before)) = group.prompt.split_last() else {
        return Ok(vec![Vec::new(); group.chains.len()]);
    };
    let prompt = engine.create();
    engine.logits(&[Append {
        seq: prompt,
        tokens: before,
        want: Want::None,
    }])?;
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut seqs = vec![prompt];
    for (chain, own) in group.chains.iter().enumerate() {
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
        // Only the last part of a chain is shorter than a call, so none is in a call twice.
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
