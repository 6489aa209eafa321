//! Pages reserved for steps before they are needed.

use beamgen_engine::{Engine, SeqId};

/// Most pages that a chain takes which leaves `seq` after `unread` more tokens and then reads
/// `step` tokens of its own: new pages, and its copy of the last page it shares.
pub(crate) fn branch_pages(engine: &Engine, seq: SeqId, unread: usize, step: usize) -> usize {
    let shared = engine.pages_needed(seq, unread);
    let all = engine.pages_needed(seq, unread + step);
    all.saturating_sub(shared) + 1
}

/// Bytes of keys and values of one token.
pub(crate) fn bytes_per_token(engine: &Engine) -> u64 {
    engine.kv().token_bytes as u64
}
