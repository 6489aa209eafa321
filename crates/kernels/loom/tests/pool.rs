//! Runs the unchanged source of the thread pool of `beamgen-kernels` under loom. Loom tries all
//! orders in which the threads can take turns, with at most three preemptions, and all values that
//! a load's ordering allows. A test fails if a task is lost or runs twice in some order, if the
//! caller does not see the writes of a task, or if a thread is never woken.
//!
//! Late threads, which the pool leaves out for a while, are not modelled.

#![allow(missing_docs)]

mod sync;
#[path = "../../src/parallel/workers.rs"]
mod workers;

use std::panic::{AssertUnwindSafe, catch_unwind};

use sync::{AtomicUsize, Condvar, Mutex, Ordering, UnsafeCell};
use workers::{Entered, Workers};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn region(entered: &Entered<'_>, count: usize, task: impl Fn(usize) + Sync) {
    // SAFETY: on the thread that entered, and no task opens a region.
    unsafe { entered.region(count, &task) }
}

/// A number that tasks change without synchronising: loom finds two at once, and one that was not
/// seen.
struct Plain(UnsafeCell<usize>);

// SAFETY: what the models check.
unsafe impl Sync for Plain {}

impl Plain {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn add(&self, n: usize) {
        // SAFETY: what the models check.
        self.0.with_mut(|value| unsafe { *value += n });
    }

    fn get(&self) -> usize {
        // SAFETY: what the models check.
        self.0.with(|value| unsafe { *value })
    }
}

#[test]
fn every_task_runs_once_and_the_caller_sees_what_it_wrote() {
    check(|| {
        let workers = Workers::start(1).expect("threads");
        let data = [(); 3].map(|()| Plain::new());
        let entered = workers.enter().expect("nobody else has");
        region(&entered, 3, |i| data[i].add(i + 1));
        assert_eq!(data.each_ref().map(Plain::get), [1, 2, 3]);
    });
}

#[test]
fn tasks_of_the_next_region_see_what_the_last_one_wrote() {
    check(|| {
        let workers = Workers::start(1).expect("threads");
        let data = [(); 2].map(|()| Plain::new());
        let entered = workers.enter().expect("nobody else has");
        region(&entered, 2, |i| data[i].add(i + 1));
        // The other way round: each thread may have the other's.
        region(&entered, 2, |i| data[1 - i].add(10));
        assert_eq!(data.each_ref().map(Plain::get), [11, 12]);
    });
}

#[test]
fn a_sleeping_worker_is_woken_by_a_region() {
    check(|| {
        let workers = Workers::start(1).expect("threads");
        let entered = workers.enter().expect("nobody else has");
        // Each of the two tasks waits for the other.
        let (arrived, both) = (Mutex::new(0), Condvar::new());
        region(&entered, 2, |_| {
            let mut count = arrived.lock().expect("not poisoned");
            *count += 1;
            both.notify_all();
            while *count < 2 {
                count = both.wait(count).expect("not poisoned");
            }
        });
    });
}

#[test]
fn two_workers_share_a_region_with_the_caller() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(1);
    builder.check(|| {
        let workers = Workers::start(2).expect("threads");
        let ran = [(); 3].map(|()| AtomicUsize::new(0));
        let entered = workers.enter().expect("nobody else has");
        region(&entered, 3, |i| {
            ran[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(ran.iter().all(|ran| ran.load(Ordering::Relaxed) == 1));
    });
}

#[test]
fn a_panic_reaches_the_caller_and_the_threads_go_on() {
    check(|| {
        let workers = Workers::start(1).expect("threads");
        let entered = workers.enter().expect("nobody else has");
        let panicking = AssertUnwindSafe(|| region(&entered, 2, |i| assert!(i == 0, "planned")));
        let thrown = catch_unwind(panicking).expect_err("a task panics");
        assert_eq!(thrown.downcast_ref(), Some(&"planned"));
        let data = Plain::new();
        region(&entered, 1, |_| data.add(1));
        assert_eq!(data.get(), 1);
    });
}

#[test]
fn threads_that_never_worked_end() {
    check(|| drop(Workers::start(2)));
}
