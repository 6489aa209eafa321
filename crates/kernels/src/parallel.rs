//! Threads: one pool, entered once a pass, tasks that write disjoint outputs.

use std::num::NonZero;
use std::sync::Arc;

use rayon::prelude::*;

/// Floating-point operations below which a task is not worth handing to another thread
/// (about 10 microseconds of work).
const WORTH_SPLITTING: u64 = 400_000;

/// The threads of one process. Clones share them; both models should use one pool.
#[derive(Clone, Debug)]
pub struct ThreadPool {
    pool: Option<Arc<rayon::ThreadPool>>,
    threads: usize,
}

impl ThreadPool {
    /// A pool of `threads` threads; 0 means one for each CPU the process may use. With one
    /// thread no thread is started and all work runs on the caller's. If the system refuses the
    /// threads, the pool has one.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            n => n,
        };
        let pool = (threads > 1)
            .then(|| {
                rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .thread_name(|i| format!("beamgen-{i}"))
                    .build()
                    .ok()
            })
            .flatten()
            .map(Arc::new);
        let threads = if pool.is_some() { threads } else { 1 };
        Self { pool, threads }
    }

    /// Threads in the pool.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `body` with these threads at its service. `work` is a rough count of the
    /// floating-point operations in it; little work stays on the calling thread.
    pub fn run<R: Send>(&self, work: u64, body: impl FnOnce(Parallel) -> R + Send) -> R {
        match &self.pool {
            Some(pool) if work >= WORTH_SPLITTING => {
                let parallel = Parallel {
                    threads: self.threads,
                };
                // Entered once a pass: inside, a parallel region costs a microsecond, while
                // every entry from outside wakes a thread and puts the caller to sleep.
                pool.install(|| body(parallel))
            }
            _ => body(Parallel::serial()),
        }
    }
}

/// How many threads an operation may use. More than one only inside [`ThreadPool::run`].
#[derive(Clone, Copy, Debug)]
pub struct Parallel {
    threads: usize,
}

impl Parallel {
    /// The calling thread alone.
    #[must_use]
    pub const fn serial() -> Self {
        Self { threads: 1 }
    }

    /// Threads to cut `work` floating-point operations for: 1 if that is too little to share.
    #[must_use]
    pub fn threads_for(self, work: u64) -> usize {
        if work < WORTH_SPLITTING {
            1
        } else {
            self.threads
        }
    }

    /// Calls `task(i)` for each `i < count`, in any order, possibly at once.
    pub fn for_each(self, count: usize, work: u64, task: impl Fn(usize) + Sync + Send) {
        if count > 1 && self.threads_for(work) > 1 {
            (0..count).into_par_iter().with_max_len(1).for_each(task);
        } else {
            (0..count).for_each(task);
        }
    }

    /// Cuts `data` (rows of `width`) into runs of whole rows and calls
    /// `task(first_row, rows_of_the_run)` for each. `work` as in [`ThreadPool::run`].
    pub(crate) fn for_row_runs(
        self,
        data: &mut [f32],
        width: usize,
        work: u64,
        task: impl Fn(usize, &mut [f32]) + Sync + Send,
    ) {
        if data.is_empty() || width == 0 {
            return;
        }
        let rows = data.len() / width;
        let threads = self.threads_for(work);
        if threads > 1 && rows > 1 {
            let run = rows.div_ceil(2 * threads);
            data.par_chunks_mut(run * width)
                .enumerate()
                .for_each(|(i, chunk)| task(i * run, chunk));
        } else {
            task(0, data);
        }
    }
}

/// A pointer that tasks share to write disjoint parts of one output.
#[derive(Clone, Copy)]
pub(crate) struct SharedOut<T = f32>(*mut T);

// SAFETY: it is only an address; every use is an `unsafe` block that says why the parts are
// disjoint.
unsafe impl<T: Send> Send for SharedOut<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedOut<T> {}

impl<T> SharedOut<T> {
    pub(crate) fn new(data: &mut [T]) -> Self {
        Self(data.as_mut_ptr())
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}
