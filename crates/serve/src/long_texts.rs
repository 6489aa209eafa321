//! Counts the tokens of long texts, away from the thread that serves all requests.

use tokio::sync::Mutex;

use crate::refusal::Refusal;

/// The bytes of a text up to which its tokens are counted within a few milliseconds.
const SHORT: usize = 16 << 10;

/// Counts a single long text at a time, since the engine needs the other cores.
#[derive(Default)]
pub(crate) struct LongTexts {
    turn: Mutex<()>,
}

impl LongTexts {
    /// Runs work that counts the tokens of `bytes` bytes of text.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        if bytes <= SHORT {
            return Ok(work());
        }
        // Fair in order of arrival; the lock is held while the blocking thread works.
        let turn = self.turn.lock().await;
        let done = tokio::task::spawn_blocking(work).await;
        drop(turn);
        done.map_err(|_| Refusal::stopping())
    }
}
