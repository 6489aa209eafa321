//! Runs work on long texts, such as tokenization, outside of the thread that serves all requests.

use tokio::sync::Mutex;

use crate::refusal::Refusal;

/// The length in bytes up to which a text is tokenized within a few milliseconds.
const SHORT: usize = 16 << 10;

/// Runs work on one long text at a time, since the engine needs the other cores.
#[derive(Default)]
pub(crate) struct LongTexts {
    turn: Mutex<()>,
}

impl LongTexts {
    /// Runs `work` on `bytes` bytes of text: at once if they are few, or else on another thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        if bytes <= SHORT {
            return Ok(work());
        }
        // Tokio's mutex is fair: long texts are processed in order of arrival.
        let turn = self.turn.lock().await;
        let done = tokio::task::spawn_blocking(work).await;
        drop(turn);
        done.map_err(|_| Refusal::stopping())
    }
}
