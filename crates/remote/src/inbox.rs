//! Inboxes, in which answers wait until the search's thread takes them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A counter that rises with each answer in any inbox that shares it, and wakes the search. So the
/// search can wait for steps and scores at the same time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bell(Arc<(Mutex<u64>, Condvar)>);

impl Bell {
    fn count(&self) -> MutexGuard<'_, u64> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        *self.count() += 1;
        // Inboxes share the bell, so the sender does not know which inbox is waited for.
        self.0.1.notify_all();
    }
}

/// An inbox for one kind of answers, such as steps or scores.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    sender: Sender<T>,
    /// The count of the bell when answers were last taken.
    heard: u64,
}

/// The sending end of an inbox. It can be used on any thread.
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

    /// Takes all answers that arrived since the last call.
    pub(crate) fn take(&mut self) -> Vec<T> {
        // The count is read before the answers. An answer that arrives in between raises the count
        // again, so `wait` returns at once and the answer is not missed.
        self.heard = *self.sender.bell.count();
        std::mem::take(&mut *self.sender.answers())
    }

    /// Waits until an answer arrives in any inbox that shares the bell, at most for `longest`.
    /// Returns at once if an answer arrived after the last [`take`](Self::take).
    pub(crate) fn wait(&self, longest: Duration) {
        let bell = &self.sender.bell;
        drop(
            bell.0
                .1
                .wait_timeout_while(bell.count(), longest, |count: &mut u64| {
                    *count == self.heard
                }),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_once_and_wake_all_that_share_the_bell() {
        let bell = Bell::default();
        let (mut steps, mut scores) = (Inbox::new(bell.clone()), Inbox::new(bell));
        let sender = steps.sender();
        let other = scores.sender();
        assert!(steps.take().is_empty());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                other.send("score");
            });
            // An answer in the other inbox wakes this one, too.
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
