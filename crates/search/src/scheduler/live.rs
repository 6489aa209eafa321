//! The problems in flight, with lists of those that changed. A turn of the scheduler looks only at
//! changed problems, so that its cost does not grow with the number of problems in flight.

use std::collections::BTreeMap;
use std::time::Duration;

use super::active::ActiveProblem;
use crate::request::CancelToken;
use crate::result::Stopped;

/// A reason why the scheduler looks at problems. For each reason there is a list of changed
/// problems.
#[derive(Debug, Clone, Copy)]
pub(super) enum Look {
    /// Steps may have been queued, which have to be started.
    Start,
    /// Steps may have become ready to be scored.
    Score,
    /// Chains may have become complete, whose outcomes are wanted.
    Verify,
    /// The strategy may have news, for which it has to be woken.
    Wake,
    /// Tokens or owners of chains may have to be moved to the run's tables.
    Book,
    /// The number of rows may have changed, before which passes have to be charged.
    Rows,
}

const LOOKS: usize = 6;

/// The problems in flight, by their position in the input: the first is the oldest.
#[derive(Default)]
pub(super) struct Live {
    problems: BTreeMap<usize, ActiveProblem>,
    /// The problems that changed, by [`Look`].
    changed: [Vec<usize>; LOOKS],
    /// The problem, its cancel token and its deadline, for each problem that has one of the two.
    limits: Vec<(usize, Option<CancelToken>, Option<Duration>)>,
    /// The number of problems in flight whose settings allow speculative steps.
    pub speculating: usize,
}

impl Live {
    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.problems.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&ActiveProblem> {
        self.problems.get(&index)
    }

    /// Returns a problem to be changed, and puts it on every list of changed problems.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut ActiveProblem> {
        let problem = self.problems.get_mut(&index)?;
        note(&mut self.changed, problem);
        Some(problem)
    }

    /// Returns a problem to be changed without putting it on any list; the caller calls
    /// [`again`](Self::again) for the lists that matter.
    pub(super) fn get_mut_quietly(&mut self, index: usize) -> Option<&mut ActiveProblem> {
        self.problems.get_mut(&index)
    }

    pub(super) fn insert(&mut self, index: usize, problem: ActiveProblem) -> &mut ActiveProblem {
        let (cancel, deadline) = (&problem.request.cancel, problem.request.deadline);
        if cancel.is_some() || deadline.is_some() {
            self.limits.push((index, cancel.clone(), deadline));
        }
        self.speculating += usize::from(problem.config().speculate);
        // The problem that was the only one until now shares the memory from here on.
        if self.problems.len() == 1 {
            self.problems
                .values_mut()
                .for_each(|only| only.ran_with_others = true);
        }
        let has_others = !self.problems.is_empty();
        let problem = self.problems.entry(index).or_insert(problem);
        problem.ran_with_others |= has_others;
        note(&mut self.changed, problem);
        problem
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<ActiveProblem> {
        let problem = self.problems.remove(&index)?;
        self.limits.retain(|limit| limit.0 != index);
        self.speculating -= usize::from(problem.config().speculate);
        Some(problem)
    }

    pub(super) fn youngest_mut(&mut self) -> Option<(usize, &mut ActiveProblem)> {
        let (&index, problem) = self.problems.iter_mut().next_back()?;
        note(&mut self.changed, problem);
        Some((index, problem))
    }

    /// Iterates over all problems, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &ActiveProblem)> {
        self.problems
            .iter()
            .map(|(&index, problem)| (index, problem))
    }

    /// Iterates over all problems, oldest first, and puts each of them on every list of changed
    /// problems.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut ActiveProblem)> {
        let changed = &mut self.changed;
        self.problems.iter_mut().map(|(&index, problem)| {
            note(changed, problem);
            (index, problem)
        })
    }

    /// Takes the problems that changed since the last call with this `look`, oldest first.
    pub(super) fn changed(&mut self, look: Look) -> Vec<usize> {
        let mut indices = std::mem::take(&mut self.changed[look as usize]);
        // Problems are listed in the order of events. Sorted by input, turns are reproducible.
        indices.sort_unstable();
        // A problem may have ended since it was put on the list, or be on it twice: both are
        // skipped.
        indices.retain(|index| {
            self.problems.get_mut(index).is_some_and(|problem| {
                let noted = problem.noted & look.bit() != 0;
                problem.noted &= !look.bit();
                noted
            })
        });
        indices
    }

    /// Puts a problem on the list of one `look`, unless it is on it already.
    pub(super) fn again(&mut self, look: Look, index: usize) {
        if let Some(problem) = self.problems.get_mut(&index)
            && problem.noted & look.bit() == 0
        {
            problem.noted |= look.bit();
            self.changed[look as usize].push(index);
        }
    }

    /// Returns the problems whose deadline leaves no more time than their answers need, after
    /// `passes` passes.
    pub(super) fn in_a_hurry(&self, now: Duration, passes: u64) -> Vec<usize> {
        let due = |&(index, _, deadline): &(usize, _, Option<Duration>)| {
            let left = deadline?.saturating_sub(now).as_secs_f64();
            let problem = self.problems.get(&index)?;
            let settings = &problem.request.settings.generator;
            let reserve = settings.thinking.answer_reserve as f64;
            let answer = reserve * problem.seconds_a_pass(now, passes)?;
            // If there is little time, half of it is for thoughts.
            let half = (left + problem.seconds(now)) / 2.0;
            (left <= answer.min(half)).then_some(index)
        };
        self.limits.iter().filter_map(due).collect()
    }

    /// Returns the problems that were cancelled or are past their deadline, oldest first.
    pub(super) fn overdue(&self, now: Duration) -> Vec<(usize, Stopped)> {
        let mut due = Vec::new();
        for (index, cancel, deadline) in &self.limits {
            let stopped = overdue(cancel.as_ref(), *deadline, now);
            due.extend(stopped.map(|stopped| (*index, stopped)));
        }
        due.sort_unstable_by_key(|(index, _)| *index);
        due
    }
}

/// Returns the reason to end a request at the time `now`; `None` if it may continue.
pub(super) fn overdue(
    cancel: Option<&CancelToken>,
    deadline: Option<Duration>,
    now: Duration,
) -> Option<Stopped> {
    if cancel.is_some_and(CancelToken::is_cancelled) {
        return Some(Stopped::Cancelled);
    }
    (now >= deadline?).then_some(Stopped::Deadline)
}

impl Look {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

fn note(changed: &mut [Vec<usize>; LOOKS], problem: &mut ActiveProblem) {
    for (look, list) in changed.iter_mut().enumerate() {
        if problem.noted & (1 << look) == 0 {
            list.push(problem.index);
        }
    }
    problem.noted = (1 << LOOKS) - 1;
}
