//! Counts the tokens of the current request in a task-local variable, so that handlers and streams
//! need not pass a counter on. The middleware reads the sum at the end of the answer.

use std::sync::{Arc, Mutex, PoisonError};

use beamgen::result::Ledger;

use crate::log::Tokens;

tokio::task_local! {
    static SPENT: Spent;
}

/// The tokens of one request so far; `None` before its first search finishes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spent(Arc<Mutex<Option<Tokens>>>);

impl Spent {
    /// Runs a handler. Searches that finish in it count for this request.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        SPENT.scope(self.clone(), work).await
    }

    /// Runs a part of a streamed answer. Searches that finish in it count for this request.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        SPENT.sync_scope(self.clone(), work)
    }

    /// Returns the tokens of the finished searches; `None` if no search finished.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a finished search for the current request. Does nothing outside of a request.
pub(crate) fn count(ledger: &Ledger) {
    let _ = SPENT.try_with(|spent| {
        let mut spent = spent.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = spent.get_or_insert_default();
        tokens.prompt += ledger.prompt_tokens;
        tokens.generated += ledger.generated_tokens;
        tokens.scored += ledger.scored_tokens;
    });
}
