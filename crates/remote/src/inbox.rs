//! Where answers wait for the thread that runs the search.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Rings when an answer came for any of those who share it: the search waits for steps and for
/// scores at the same time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bell(Arc<(Mutex<u64>, Condvar)>);

impl Bell {
    fn count(&self) -> MutexGuard<'_, u64> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        *self.count() += 1;
        self.0.1.notify_all();
    }
}

/// Answers of one kind.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    sender: Sender<T>,
    /// How often the bell had rung when it was looked into last.
    heard: u64,
}

/// Puts answers into an inbox, from any thread.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    answers: Arc<Mutex<Vec<T>>>,
    bell: Bell,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            answers: Arc::clone(&self.answers),
            bell: self.bell.clone(),
        }
    }
}

impl<T> Sender<T> {
    fn answers(&self) -> MutexGuard<'_, Vec<T>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&self, answer: T) {
        self.answers().push(answer);
        self.bell.ring();
    }
}

impl<T> Inbox<T> {
    pub(crate) fn new(bell: Bell) -> Self {
        Self {
            sender: Sender {
                answers: Arc::default(),
                bell,
            },
            heard: 0,
        }
    }

    pub(crate) fn sender(&self) -> Sender<T> {
        self.sender.clone()
    }

    /// What came since the last look.
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.heard = *self.sender.bell.count();
        std::mem::take(&mut *self.sender.answers())
    }

    /// Waits until the bell rings for any inbox that shares it, at most so long. Returns at once if
    /// it rang since the last look.
    pub(crate) fn wait(&self, longest: Duration) {
        let bell = &self.sender.bell;
        let quiet = |count: &mut u64| *count == self.heard;
        drop(bell.0.1.wait_timeout_while(bell.count(), longest, quiet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_once_and_wake_whoever_shares_the_bell() {
        let bell = Bell::default();
        let (mut steps, mut scores) = (Inbox::new(bell.clone()), Inbox::new(bell));
        let sender = steps.sender();
        let other = scores.sender();
        assert!(steps.take().is_empty());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                other.send("score");
            });
            // Woken by what is not its own.
            steps.wait(Duration::from_secs(60));
        });
        assert!(steps.take().is_empty());
        assert_eq!(scores.take(), ["score"]);
        sender.send(1);
        sender.send(2);
        steps.wait(Duration::from_secs(60));
        assert_eq!((steps.take(), steps.take()), (vec![1, 2], vec![]));
        steps.wait(Duration::from_millis(1));
    }
}
