//! The tokens of the request whose code runs. The middleware asks for them at the end of an answer;
//! handlers and streams need not pass them on.

use std::sync::{Arc, Mutex, PoisonError};

use beamgen::result::Ledger;

use crate::log::Tokens;

tokio::task_local! {
    static SPENT: Spent;
}

/// The tokens of a request so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spent(Arc<Mutex<Option<Tokens>>>);

impl Spent {
    /// Runs a handler, whose searches count here.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        SPENT.scope(self.clone(), work).await
    }

    /// Runs a part of an answer, whose searches count here.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        SPENT.sync_scope(self.clone(), work)
    }

    /// Returns the tokens of finished searches; `None` if there was none.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a finished search for the request that runs now. Outside of requests, nothing is counted.
pub(crate) fn count(ledger: &Ledger) {
    let _ = SPENT.try_with(|spent| {
        let mut spent = spent.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = spent.get_or_insert_default();
        tokens.prompt += ledger.prompt_tokens;
        tokens.generated += ledger.generated_tokens;
        tokens.scored += ledger.scored_tokens;
    });
}
