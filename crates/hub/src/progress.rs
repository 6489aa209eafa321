//! Progress events, which the threads of a download send to the caller's thread.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Progress of a download. Two files are downloaded at once, so their events alternate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The cache has `done` bytes of a file. Sent before the first request, too, since a resumed
    /// file begins with some bytes.
    Bytes {
        /// The name in the repository.
        file: String,
        /// The number of bytes in the cache; decreases if a download is restarted.
        done: u64,
        /// The number of bytes in the file; `None` if the hub does not say.
        total: Option<u64>,
    },
    /// Another process is downloading the file.
    Waiting {
        /// The name in the repository.
        file: String,
    },
    /// The hub limits requests (status 429); the request will be repeated.
    Limited {
        /// The time until the request is repeated.
        wait: Duration,
    },
}

/// The handle with which the threads of one download report progress and stop each other.
#[derive(Debug)]
pub(crate) struct Reporter {
    events: SyncSender<Progress>,
    over: AtomicBool,
}

impl Reporter {
    pub(crate) fn tell(&self, event: Progress) {
        // The receiver is dropped early only if the caller's function panicked: stop the download.
        if self.events.send(event).is_err() {
            self.end();
        }
    }

    /// Asks all threads of the download to stop.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        // `Relaxed` is enough: no other data depends on the flag, and a delay costs one more
        // buffer.
        self.over.load(Ordering::Relaxed)
    }
}

/// Runs `work` on another thread and calls `progress` on this one for each event. `progress` need
/// not be `Send`, so it may change the caller's state.
pub(crate) fn observed<T: Send>(
    progress: &mut dyn FnMut(Progress),
    work: impl FnOnce(&Reporter) -> T + Send,
) -> T {
    thread::scope(|scope| {
        // The channel is bounded: a slow `progress` slows the download instead of filling the
        // memory.
        let (events, received) = sync_channel(64);
        let over = AtomicBool::new(false);
        let worker = scope.spawn(move || work(&Reporter { events, over }));
        // The loop ends when `work` returns and drops the only sender.
        for event in received {
            progress(event);
        }
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
