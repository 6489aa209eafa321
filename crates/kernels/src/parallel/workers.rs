//! The threads of a pool. They run one region at a time: a closure that is called for each of
//! `count` tasks.
//!
//! Each thread has a share of the tasks, which is the same part in every region. A thread's results
//! of one region are therefore in its cache in the next. A thread that has finished its share takes
//! tasks from other threads' shares.
//!
//! The caller publishes a region in three steps: it writes the [`Job`], then the number of tasks in
//! each share, then the number of the region. Every thread, the caller included, lowers a share by
//! one for each task that it takes. When it finds no more tasks it subtracts those it has finished
//! from `unfinished`; at zero the region is over. A worker that comes late finds nothing to take
//! and delays nobody.
//!
//! `crates/kernels/loom` checks all of this under loom.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::time::Duration;

use super::sync::{
    Arc, AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Builder, Condvar, Instant, JoinHandle,
    LoadSeqCst, Mutex, MutexGuard, Ordering, Publish, UnsafeCell, comes_soon,
};

/// The time that a caller waits for the workers, beyond its own working time, before they count as
/// late. Other processes may have their cores, perhaps for time slices of milliseconds.
const LATE: Duration = Duration::from_micros(200);

/// After late workers, the caller works by itself for this many times its waiting time, so that
/// little time is lost on a busy machine.
const ALONE: u32 = 16;

/// Worker threads, ended and joined when dropped.
#[derive(Debug)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// A value with a cache line of its own; two lines, because processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

#[derive(Debug)]
struct Shared {
    /// The number of the region.
    region: Line<AtomicU64>,
    /// For each thread, how many tasks of its share are left. Below zero after attempts to take
    /// more.
    shares: Vec<Line<AtomicIsize>>,
    /// Tasks of the region that are not finished.
    unfinished: Line<AtomicUsize>,
    /// The tasks of the current region, written before the region's shares are published.
    job: UnsafeCell<Job>,
    /// Whether a thread has entered. That thread is the caller, the only one that may open regions.
    entered: AtomicBool,
    /// Whether the caller sleeps, so that the thread with the last task must wake it.
    caller_sleeps: AtomicBool,
    panicked: AtomicBool,
    /// The number of workers that sleep or are about to.
    sleepers: AtomicUsize,
    state: Mutex<State>,
    /// Wakes workers: there will soon be something to do.
    wake: Condvar,
    /// Wakes the caller: the region is over.
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of calls to the workers. A sleeping worker wakes when the number changes.
    calls: u64,
    stop: bool,
    /// The time until which the caller works by itself because the workers were late.
    alone_until: Option<Instant>,
    /// The first panic of the region.
    panic: Option<Box<dyn Any + Send>>,
}

/// Tasks `0..count` of a closure.
#[derive(Clone, Copy, Debug)]
struct Job {
    task: *const (),
    /// Calls the closure at `task`.
    call: unsafe fn(*const (), usize),
    count: usize,
}

// SAFETY: what is not atomic or locked is `job`, with the address of a closure that is `Sync`. It
// is written by the caller between regions and read by whoever has taken a task, which makes the
// region last until the task is finished.
unsafe impl Send for Shared {}
// SAFETY: threads that share it use `job` in turns, as `Send` says; all else is atomic or locked.
unsafe impl Sync for Shared {}

impl Workers {
    /// Starts `count` worker threads. Returns `None` if the system refuses one of them.
    pub(super) fn start(count: usize) -> Option<Self> {
        let shared = Arc::new(Shared {
            region: Line(AtomicU64::new(0)),
            shares: (0..=count).map(|_| Line(AtomicIsize::new(0))).collect(),
            unfinished: Line(AtomicUsize::new(0)),
            job: UnsafeCell::new(Job {
                task: std::ptr::null(),
                call: |_, _| {},
                count: 0,
            }),
            entered: AtomicBool::new(false),
            caller_sleeps: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
            wake: Condvar::new(),
            over: Condvar::new(),
        });
        // If a later thread cannot be started, dropping this value ends those that were started.
        let mut workers = Self {
            shared,
            threads: Vec::with_capacity(count),
        };
        for i in 1..=count {
            let shared = Arc::clone(&workers.shared);
            let thread = Builder::new()
                .name(format!("beamgen-{i}"))
                .spawn(move || shared.work(i));
            workers.threads.push(thread.ok()?);
        }
        Some(workers)
    }

    /// The number of threads of a region, the caller's included.
    pub(super) fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Makes the calling thread the one that may open regions, and wakes the workers. `None` while
    /// another thread has entered, or this one has in a function further up.
    pub(super) fn enter(&self) -> Option<Entered<'_>> {
        // The acquire pairs with the release in `Drop`, so that this thread sees all writes of the
        // previous caller.
        if self.shared.entered.swap(true, Ordering::Acquire) {
            return None;
        }
        let entered = Entered {
            workers: self,
            alone_until: Cell::new(self.shared.state().alone_until),
        };
        if entered.threads() > 1 {
            self.shared.call_workers();
        }
        Some(entered)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The lock ensures that no worker is between its check of `stop` and its sleep.
        self.shared.state().stop = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // A worker catches the panics of its tasks, so it does not end with one.
            let _ = thread.join();
        }
    }
}

/// The right to open regions, for the thread that has it.
#[derive(Debug)]
pub(super) struct Entered<'a> {
    workers: &'a Workers,
    /// A copy of [`State::alone_until`], which the caller reads without the lock.
    alone_until: Cell<Option<Instant>>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.workers.shared.entered.store(false, Ordering::Release);
    }
}

impl Entered<'_> {
    /// The number of threads of the next region: 1 while the workers count as late.
    pub(super) fn threads(&self) -> usize {
        match self.alone_until.get() {
            Some(until) if Instant::now() < until => 1,
            _ => {
                self.alone_until.set(None);
                self.workers.threads()
            }
        }
    }

    /// Calls `task(i)` for each `i < count`, on all threads. Returns when all tasks are finished.
    /// If tasks panicked, panics with the payload of the first.
    ///
    /// # Safety
    /// No other call may be under way: `self` must not be used by two threads, nor in a task.
    pub(super) unsafe fn region<F: Fn(usize) + Sync>(&self, count: usize, task: &F) {
        /// # Safety
        /// `task` must be the address of an `F` that lives.
        unsafe fn call<F: Fn(usize)>(task: *const (), i: usize) {
            // SAFETY: the caller's promise.
            unsafe { (*task.cast::<F>())(i) }
        }
        let shared = &*self.workers.shared;
        let start = Instant::now();
        let job = Job {
            task: std::ptr::from_ref(task).cast(),
            call: call::<F>,
            count,
        };
        // SAFETY: the last region is over, so no worker has a task, and only who has one reads
        // `job`. This thread is the only caller.
        shared.job.with_mut(|place| unsafe { *place = job });
        // Relaxed order suffices, because the shares below are published with release order.
        shared.unfinished.0.store(count, Ordering::Relaxed);
        for (t, share) in shared.shares.iter().enumerate() {
            // Publishing a share also publishes the job. A worker that still looks for tasks of the
            // previous region may take one of these tasks before it sees the new region's number.
            let tasks = shared.share(count, t).len().cast_signed();
            share.0.publish(tasks);
        }
        // Sequentially consistent with `sleepers`: a worker that is going to sleep sees the new
        // region, or this thread sees that it sleeps.
        shared.region.0.fetch_add(1, Ordering::SeqCst);
        if shared.sleepers.load_seq_cst() > 0 {
            shared.call_workers();
        }
        shared.take_tasks(0);
        self.alone_until.set(shared.wait_for_the_end(start));
        if shared.panicked.load(Ordering::Relaxed) {
            shared.panicked.store(false, Ordering::Relaxed);
            let thrown = shared.state().panic.take();
            resume_unwind(thrown.unwrap_or_else(|| Box::new("a task panicked")));
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panics with the lock leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call_workers(&self) {
        if self.sleepers.load_seq_cst() > 0 {
            self.state().calls += 1;
            self.wake.notify_all();
        }
    }

    /// The tasks of thread `t` if `count` tasks are split between all threads.
    fn share(&self, count: usize, t: usize) -> std::ops::Range<usize> {
        let threads = self.shares.len();
        // Not `t * count / threads`, which could overflow.
        let first = |t: usize| t * (count / threads) + t.min(count % threads);
        first(t)..first(t + 1)
    }

    /// Takes tasks until none is left, starting with the share of thread `own`.
    fn take_tasks(&self, own: usize) {
        let mut done = 0;
        let threads = self.shares.len();
        for t in (own..threads).chain(0..own) {
            let share = &self.shares[t].0;
            // The check comes first, because a subtraction takes the cache line from other threads
            // even if no task is left.
            while share.load(Ordering::Relaxed) > 0 {
                let left = share.fetch_sub(1, Ordering::AcqRel);
                if left <= 0 {
                    break;
                }
                // SAFETY: a task was taken, so the region lasts, and its job was published before.
                let job = self.job.with(|job| unsafe { *job });
                let i = self.share(job.count, t).end - left.cast_unsigned();
                // SAFETY: the closure lives as long as the region.
                let result = catch_unwind(AssertUnwindSafe(|| unsafe { (job.call)(job.task, i) }));
                if let Err(thrown) = result {
                    let mut state = self.state();
                    match &state.panic {
                        None => state.panic = Some(thrown),
                        // Dropping it could panic again, and the caller would wait for ever.
                        Some(_) => std::mem::forget(thrown),
                    }
                    drop(state);
                    self.panicked.store(true, Ordering::Relaxed);
                }
                done += 1;
            }
        }
        if done > 0
            && self.unfinished.0.fetch_sub(done, Ordering::SeqCst) == done
            && self.caller_sleeps.load_seq_cst()
        {
            // Taking the lock makes sure that the caller is not between its last look and its
            // sleep.
            drop(self.state());
            self.over.notify_one();
        }
    }

    /// Waits until the region is over, which was opened at `start`. If the workers were late,
    /// returns the time until which the caller should work by itself.
    fn wait_for_the_end(&self, start: Instant) -> Option<Instant> {
        let is_over = || self.unfinished.0.load(Ordering::Acquire) == 0;
        if is_over() {
            return None;
        }
        let worked = start.elapsed();
        if comes_soon(is_over) {
            return None;
        }
        let mut state = self.state();
        self.caller_sleeps.store(true, Ordering::SeqCst);
        while self.unfinished.0.load_seq_cst() > 0 {
            state = wait(&self.over, state);
        }
        self.caller_sleeps.store(false, Ordering::Relaxed);
        let now = Instant::now();
        let waited = (now - start).saturating_sub(worked);
        if waited <= worked + LATE {
            return None;
        }
        state.alone_until = now.checked_add(waited * ALONE);
        state.alone_until
    }

    /// The loop of worker `t`, which ends with the pool.
    fn work(&self, t: usize) {
        let mut seen = 0;
        loop {
            if comes_soon(|| self.region.0.load(Ordering::Relaxed) != seen) {
                seen = self.region.0.load(Ordering::Acquire);
                self.take_tasks(t);
                continue;
            }
            let mut state = self.state();
            let calls = state.calls;
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            while !state.stop && state.calls == calls && self.region.0.load_seq_cst() == seen {
                state = wait(&self.wake, state);
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
            if state.stop {
                return;
            }
        }
    }
}

fn wait<'a>(what: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    what.wait(state).unwrap_or_else(PoisonError::into_inner)
}
