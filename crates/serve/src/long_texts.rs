//! Requests with long texts, whose tokens are counted: off the thread that serves all.

use tokio::sync::Mutex;

use crate::refusal::Refusal;

/// Bytes of a text whose tokens are counted within a few milliseconds.
const SHORT: usize = 16 << 10;

/// Counts one long text at a time: the other cores are the engine's.
#[derive(Default)]
pub(crate) struct LongTexts {
    turn: Mutex<()>,
}

impl LongTexts {
    /// Runs work that counts the tokens of so many bytes.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        if bytes <= SHORT {
            return Ok(work());
        }
        let turn = self.turn.lock().await;
        let done = tokio::task::spawn_blocking(work).await;
        drop(turn);
        done.map_err(|_| Refusal::stopping())
    }
}
