//! The thread pool. A forward pass enters it once; its operations then run tasks that write
//! disjoint outputs.

mod cores;
mod sync;
mod workers;

use std::marker::PhantomData;
use std::sync::Arc;

use workers::{Entered, Workers};

/// The fewest floating-point operations that are split between threads. One thread needs about 4
/// microseconds for them. A region costs half a microsecond, and moves its data between caches.
const WORTH_SPLITTING: u64 = 400_000;

/// Floating-point operations of a task, unless that makes more than [`TASKS_PER_THREAD`] tasks.
const WORTH_A_TASK: u64 = 50_000;

const TASKS_PER_THREAD: usize = 8;

/// The most rows of a matrix product in one task ([`Parallel::row_tasks`]).
pub(crate) const TASK_ROWS: usize = 96;

/// The worker threads of a process. Clones share the threads, and all models should use one pool.
/// The threads end with the last clone.
#[derive(Clone, Debug)]
pub struct ThreadPool {
    workers: Option<Arc<Workers>>,
}

impl ThreadPool {
    /// The most threads of a pool. Operating systems kill processes that start tens of thousands.
    pub const MAX_THREADS: usize = 1024;

    /// Starts a pool of `threads` threads, the caller's included. 0 means one for each physical
    /// core that the process may use. With 1, or if the system refuses to start threads, all work
    /// runs on the caller's thread. Numbers above [`MAX_THREADS`](Self::MAX_THREADS) are lowered to
    /// it.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        let threads = match threads {
            0 => cores::physical_cores(),
            n => n.min(Self::MAX_THREADS),
        };
        let workers = (threads > 1).then(|| Workers::start(threads - 1)).flatten();
        Self {
            workers: workers.map(Arc::new),
        }
    }

    /// The number of threads of a region, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.as_ref().map_or(1, |workers| workers.threads())
    }

    /// Runs `body`, whose operations may use these threads. `work` is a rough count of its
    /// floating-point operations. Everything runs on the calling thread in three cases: if the work
    /// is small, if another call uses the pool (also a call whose task makes this one), and for a
    /// while after other processes have delayed the pool's threads.
    ///
    /// # Panics
    /// If `body` or one of its tasks does.
    pub fn run<R>(&self, work: u64, body: impl FnOnce(Parallel<'_>) -> R) -> R {
        let workers = self.workers.as_ref().filter(|_| work >= WORTH_SPLITTING);
        // The threads wake now and stay awake from one region of the pass to the next.
        match workers.and_then(|workers| workers.enter()) {
            Some(entered) => body(Parallel {
                threads: Some(&entered),
                on_this_thread: PhantomData,
            }),
            None => body(Parallel::serial()),
        }
    }
}

/// The threads that an operation may use. More than one only inside [`ThreadPool::run`], on the
/// thread that called it: what a task does is serial.
#[derive(Clone, Copy, Debug)]
pub struct Parallel<'a> {
    threads: Option<&'a Entered<'a>>,
    /// Neither `Send` nor `Sync`, so that no task can have it.
    on_this_thread: PhantomData<*const ()>,
}

impl<'a> Parallel<'a> {
    /// Uses only the calling thread, so that operations need no pool.
    #[must_use]
    pub const fn serial() -> Self {
        Self {
            threads: None,
            on_this_thread: PhantomData,
        }
    }

    fn entered(self, work: u64) -> Option<&'a Entered<'a>> {
        self.threads
            .filter(|entered| work >= WORTH_SPLITTING && entered.threads() > 1)
    }

    /// The number of threads for `work` floating-point operations: 1 if that is too little to
    /// split.
    #[must_use]
    pub fn threads_for(self, work: u64) -> usize {
        self.entered(work).map_or(1, Entered::threads)
    }

    /// The number of tasks to split `work` floating-point operations into: 1 if that is too little,
    /// otherwise several for each thread. A thread that is late, or has longer tasks, then leaves
    /// some of its tasks to other threads.
    #[must_use]
    pub fn tasks_for(self, work: u64) -> usize {
        match self.threads_for(work) {
            1 => 1,
            threads => {
                let tasks = usize::try_from(work / WORTH_A_TASK).unwrap_or(usize::MAX);
                tasks.clamp(threads, TASKS_PER_THREAD * threads)
            }
        }
    }

    /// The number of runs of rows to split a matrix product into; the weights have `bytes` bytes. A
    /// run is short enough for its inputs to stay in the second-level cache while the weights
    /// stream through. Many rows are split evenly between the threads, so that a thread finds its
    /// rows of the previous operation in its cache. Few rows are split only if the weights fit in
    /// each thread's cache.
    pub(crate) fn row_tasks(self, rows: usize, bytes: usize, work: u64) -> usize {
        const SMALL: usize = 512 << 10;
        let threads = self.threads_for(work);
        let runs = rows.div_ceil(TASK_ROWS);
        let worth = if bytes <= SMALL { 8 } else { 64 };
        if rows < worth * threads {
            runs
        } else {
            runs.next_multiple_of(threads)
        }
    }

    /// Calls `task(i)` for each `i < count`, in any order, possibly at once.
    ///
    /// # Panics
    /// If a task does, after the others are finished.
    pub fn for_each(self, count: usize, work: u64, task: impl Fn(usize) + Sync) {
        match self.entered(work) {
            // SAFETY: `self` is on the only thread that can have it, and no task can.
            Some(entered) if count > 1 => unsafe { entered.region(count, &task) },
            _ => (0..count).for_each(task),
        }
    }

    /// Cuts `data` into pieces of `len`, the last one shorter, and calls `task(i, piece)` for each.
    /// `work` as in [`ThreadPool::run`].
    pub(crate) fn for_pieces<T: Send>(
        self,
        data: &mut [T],
        len: usize,
        work: u64,
        task: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let (all, shared) = (data.len(), SharedOut::new(data));
        self.for_each(all.div_ceil(len), work, |i| {
            let first = i * len;
            // SAFETY: inside `data`, which is borrowed uniquely, and no other task's.
            let piece = unsafe {
                std::slice::from_raw_parts_mut(shared.get().add(first), len.min(all - first))
            };
            task(i, piece);
        });
    }

    /// Cuts `data` (rows of `width`) into runs of whole rows and calls
    /// `task(first_row, rows_of_the_run)` for each. `work` as in [`ThreadPool::run`].
    pub(crate) fn for_row_runs(
        self,
        data: &mut [f32],
        width: usize,
        work: u64,
        task: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        if data.is_empty() || width == 0 {
            return;
        }
        let rows = data.len() / width;
        let run = rows.div_ceil(self.tasks_for(work));
        self.for_pieces(data, run * width, work, |i, rows| task(i * run, rows));
    }
}

/// A pointer that tasks share to write disjoint parts of one output.
#[derive(Clone, Copy)]
pub(crate) struct SharedOut<T = f32>(*mut T);

// SAFETY: a `SharedOut` is only an address; every use is an `unsafe` block that says why the parts
// are disjoint.
unsafe impl<T: Send> Send for SharedOut<T> {}
// SAFETY: sharing a `SharedOut` shares an address only; see `Send`.
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

#[cfg(test)]
mod tests;
