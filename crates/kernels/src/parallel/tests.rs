use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

/// More work than any limit for splitting it, so that all threads are used.
const MUCH: u64 = u64::MAX;

fn counts(n: usize) -> Vec<AtomicUsize> {
    (0..n).map(|_| AtomicUsize::new(0)).collect()
}

#[test]
fn every_task_of_many_small_regions_runs_once() {
    for threads in [1, 2, 3, 5] {
        let pool = ThreadPool::new(threads);
        assert_eq!(pool.threads(), threads);
        for pass in 0..200 {
            pool.run(MUCH, |parallel| {
                for region in 0..100 {
                    let count = (pass + region) % 17;
                    let ran = counts(count);
                    parallel.for_each(count, MUCH, |i| {
                        ran[i].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(ran.iter().all(|ran| ran.load(Ordering::Relaxed) == 1));
                }
            });
        }
    }
}

#[test]
fn what_tasks_write_is_seen_by_the_caller_and_by_the_next_tasks() {
    let pool = ThreadPool::new(3);
    let mut data = vec![0u64; 1000];
    pool.run(MUCH, |parallel| {
        for turn in 0..1000 {
            parallel.for_pieces(&mut data, 1 + turn % 300, MUCH, |_, piece| {
                for x in piece {
                    *x += 1;
                }
            });
            assert_eq!(data[turn], turn as u64 + 1);
        }
    });
    assert_eq!(data, [1000; 1000]);
}

#[test]
fn workers_and_callers_wake_up() {
    let milliseconds = std::time::Duration::from_millis;
    for _ in 0..5 {
        let pool = ThreadPool::new(2);
        std::thread::sleep(milliseconds(2));
        pool.run(MUCH, |parallel| {
            // The worker sleeps by now. Each of the two tasks waits for the other.
            let both = std::sync::Barrier::new(2);
            parallel.for_each(2, MUCH, |_| {
                both.wait();
            });
            // The caller sleeps before the longer task is finished.
            let caller = std::thread::current().id();
            parallel.for_each(2, MUCH, |_| {
                let worker = std::thread::current().id() != caller;
                std::thread::sleep(milliseconds(if worker { 3 } else { 1 }));
            });
        });
    }
}

/// Runs a region in which the worker sleeps for `by` within its task.
fn hold_up(parallel: Parallel<'_>, by: std::time::Duration) {
    let both = std::sync::Barrier::new(2);
    let caller = std::thread::current().id();
    parallel.for_each(2, MUCH, |_| {
        both.wait();
        if std::thread::current().id() != caller {
            std::thread::sleep(by);
        }
    });
}

#[test]
fn late_workers_are_left_alone_for_a_while() {
    let pool = ThreadPool::new(2);
    pool.run(MUCH, |parallel| {
        // If the caller is held up, too, it does not wait for the worker and does not count it as late.
        let start = std::time::Instant::now();
        while parallel.threads_for(MUCH) > 1 {
            assert!(start.elapsed().as_secs() < 60);
            hold_up(parallel, std::time::Duration::from_millis(100));
        }
        let here = std::thread::current().id();
        parallel.for_each(50, MUCH, |_| assert_eq!(std::thread::current().id(), here));
    });
    let threads = || pool.run(MUCH, |parallel| parallel.threads_for(MUCH));
    assert_eq!(threads(), 1);
    let start = std::time::Instant::now();
    while threads() == 1 {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn the_regions_after_a_late_worker_run_whole_alone_and_then_shared() {
    let pool = ThreadPool::new(2);
    let mut data = vec![0u32; 1000];
    let mut turns = 0;
    let mut turn = |parallel: Parallel<'_>| {
        turns += 1;
        parallel.for_pieces(&mut data, 7, MUCH, |_, piece| {
            for x in piece {
                *x += 1;
            }
        });
        assert!(data.iter().all(|x| *x == turns));
    };
    for _ in 0..3 {
        pool.run(MUCH, |parallel| {
            // The worker may have been late for other reasons, so this waits until it counts as on
            // time.
            let start = std::time::Instant::now();
            while parallel.threads_for(MUCH) == 1 {
                assert!(start.elapsed().as_secs() < 60);
                turn(parallel);
            }
            hold_up(parallel, std::time::Duration::from_millis(20));
            let mut shared = 0;
            while shared < 20 {
                assert!(start.elapsed().as_secs() < 60);
                if parallel.threads_for(MUCH) == 2 {
                    // Ends only if the worker takes part.
                    hold_up(parallel, std::time::Duration::ZERO);
                    shared += 1;
                }
                turn(parallel);
            }
        });
    }
}

#[test]
fn many_pools_begin_and_end() {
    for round in 0..50 {
        let pools: Vec<ThreadPool> = (0..5).map(|i| ThreadPool::new(1 + i)).collect();
        let sum = AtomicUsize::new(0);
        for pool in &pools {
            // Some pools end without a region, and others directly after a region.
            if round % 3 > 0 {
                pool.clone().run(MUCH, |parallel| {
                    parallel.for_each(8, MUCH, |i| {
                        sum.fetch_add(i, Ordering::Relaxed);
                    });
                });
            }
        }
        let expected = if round % 3 > 0 { 5 * 28 } else { 0 };
        assert_eq!(sum.into_inner(), expected);
    }
}

#[test]
fn a_panic_of_a_task_reaches_the_caller_after_the_other_tasks() {
    for threads in [1, 2, 3] {
        let pool = ThreadPool::new(threads);
        for at in [0, 3, 7] {
            let ran = AtomicUsize::new(0);
            let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pool.run(MUCH, |parallel| {
                    parallel.for_each(8, MUCH, |i| {
                        assert!(i != at, "task {i}");
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                });
            }))
            .unwrap_err();
            let said = thrown.downcast_ref::<String>().unwrap();
            assert!(said.contains(&format!("task {at}")), "{said}");
            assert!(threads == 1 || ran.into_inner() == 7);
        }
        // The pool still works after a panic.
        let ran = AtomicUsize::new(0);
        pool.run(MUCH, |parallel| {
            parallel.for_each(8, MUCH, |_| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(ran.into_inner(), 8);
    }
}

#[test]
fn a_region_inside_a_task_is_serial() {
    let pool = ThreadPool::new(3);
    let inner = counts(6);
    pool.run(MUCH, |parallel| {
        parallel.for_each(6, MUCH, |i| {
            let here = std::thread::current().id();
            pool.run(MUCH, |parallel| {
                assert_eq!(parallel.threads_for(MUCH), 1);
                parallel.for_each(10, MUCH, |_| {
                    assert_eq!(std::thread::current().id(), here);
                    inner[i].fetch_add(1, Ordering::Relaxed);
                });
            });
        });
        // A thread that enters the pool a second time gets no further threads.
        pool.run(MUCH, |parallel| assert_eq!(parallel.threads_for(MUCH), 1));
    });
    assert!(inner.iter().all(|ran| ran.load(Ordering::Relaxed) == 10));
}

#[test]
fn a_second_caller_runs_on_its_own_thread() {
    let pool = ThreadPool::new(2);
    let (entered, wait_for_entry) = mpsc::channel();
    let (finished, wait_for_end) = mpsc::channel();
    std::thread::scope(|scope| {
        let first = pool.clone();
        scope.spawn(move || {
            first.run(MUCH, |_| {
                entered.send(()).unwrap();
                wait_for_end.recv().unwrap();
            });
        });
        wait_for_entry.recv().unwrap();
        pool.run(MUCH, |parallel| {
            assert_eq!(parallel.threads_for(MUCH), 1);
            let ran = AtomicUsize::new(0);
            parallel.for_each(9, MUCH, |_| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(ran.into_inner(), 9);
        });
        finished.send(()).unwrap();
    });
    pool.run(MUCH, |parallel| assert_eq!(parallel.threads_for(MUCH), 2));
}

#[test]
fn little_work_stays_on_the_calling_thread() {
    let pool = ThreadPool::new(2);
    pool.run(WORTH_SPLITTING - 1, |parallel| {
        assert_eq!(parallel.threads_for(MUCH), 1);
    });
    pool.run(WORTH_SPLITTING, |parallel| {
        assert_eq!(parallel.threads_for(WORTH_SPLITTING - 1), 1);
        assert_eq!(parallel.threads_for(WORTH_SPLITTING), 2);
    });
}
