//! The news of a download, from its threads to the caller's.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Progress of a download. Two files may be on their way at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Bytes of a file are in the cache. Reported at the beginning, too: a resumed file has some.
    Bytes {
        /// The file.
        file: String,
        /// Bytes so far; fewer than before if the file has to be begun anew.
        done: u64,
        /// Bytes of the file, if the hub says.
        total: Option<u64>,
    },
    /// Another process is downloading the file.
    Waiting {
        /// The file.
        file: String,
    },
    /// The hub has had too many requests, and is asked again later.
    Limited {
        /// The time until then, as the hub says.
        wait: Duration,
    },
}

/// Where the threads of a download tell how far they are, and hear that it has failed elsewhere.
#[derive(Debug)]
pub(crate) struct Reporter {
    events: SyncSender<Progress>,
    over: AtomicBool,
}

impl Reporter {
    pub(crate) fn tell(&self, event: Progress) {
        // Nobody listens any more after a panic of the caller's function.
        if self.events.send(event).is_err() {
            self.end();
        }
    }

    /// Ends what other threads do for this download.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a thread of its own, and tells this one's `progress` of it.
pub(crate) fn observed<T: Send>(
    progress: &mut dyn FnMut(Progress),
    work: impl FnOnce(&Reporter) -> T + Send,
) -> T {
    thread::scope(|scope| {
        let (events, told) = sync_channel(64);
        let over = AtomicBool::new(false);
        let worker = scope.spawn(move || work(&Reporter { events, over }));
        for event in told {
            progress(event);
        }
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
