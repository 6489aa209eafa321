//! Progress events, sent from the threads of a download to the caller's thread.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Progress of a download. Events of two files may alternate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// More bytes of a file are in the cache. Also sent once before the first byte is requested,
    /// because a resumed file already has some.
    Bytes {
        /// The file's name in the repository.
        file: String,
        /// Bytes in the cache; less than in the last event if the download has to start again.
        done: u64,
        /// Bytes of the whole file; `None` if the hub does not state it.
        total: Option<u64>,
    },
    /// Another process is downloading the file.
    Waiting {
        /// The file's name in the repository.
        file: String,
    },
    /// The hub limits requests (status 429), so the request is repeated later.
    Limited {
        /// The time until the next request.
        wait: Duration,
    },
}

/// The threads' end of a download: sends progress, and holds the flag that another thread failed.
#[derive(Debug)]
pub(crate) struct Reporter {
    events: SyncSender<Progress>,
    over: AtomicBool,
}

impl Reporter {
    pub(crate) fn tell(&self, event: Progress) {
        // The receiver is gone only after a panic in the caller's function: stop the download then.
        if self.events.send(event).is_err() {
            self.end();
        }
    }

    /// Asks all threads of this download to stop.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        // Relaxed is enough: the flag guards no other data, and a late read costs one more buffer.
        self.over.load(Ordering::Relaxed)
    }
}

/// Runs `work` on another thread and calls `progress` on this one for every event. `progress` is
/// not `Send`, so the caller may print or update its own state.
pub(crate) fn observed<T: Send>(
    progress: &mut dyn FnMut(Progress),
    work: impl FnOnce(&Reporter) -> T + Send,
) -> T {
    thread::scope(|scope| {
        // Bounded: a slow `progress` slows the download instead of filling the memory with events.
        let (events, received) = sync_channel(64);
        let over = AtomicBool::new(false);
        let worker = scope.spawn(move || work(&Reporter { events, over }));
        // Ends when `work` returns, because that drops the only sender.
        for event in received {
            progress(event);
        }
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
