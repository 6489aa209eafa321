//! A panel: several checkers that judge the same chains, and counts of their verdicts.

use std::collections::HashMap;
use std::ops::AddAssign;

use beamgen_search::ScoreId;
use serde::{Deserialize, Serialize};

use crate::{CheckItem, Checker, Lost, UnknownChecker, Verdict, named};

/// The verdict of one named checker on a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opinion {
    /// The checker's name.
    pub checker: String,
    /// The verdict; serialized next to the checker's name.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The number of steps per kind of verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The number of steps with [`Verdict::Pass`].
    pub pass: u64,
    /// The number of steps with [`Verdict::Fail`].
    pub fail: u64,
    /// The number of steps with [`Verdict::Abstain`].
    pub abstain: u64,
    /// The number of steps with [`Verdict::Lost`]. Files of older versions do not have the field.
    #[serde(default)]
    pub lost: u64,
}

impl Tally {
    /// Counts a verdict.
    pub fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Pass => self.pass += 1,
            Verdict::Fail { .. } => self.fail += 1,
            Verdict::Abstain => self.abstain += 1,
            Verdict::Lost => self.lost += 1,
        }
    }

    /// Returns the number of counted steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.pass + self.fail + self.abstain + self.lost
    }

    /// Returns the share of counted steps that passed or failed; `None` if no step was counted.
    #[must_use]
    pub fn coverage(&self) -> Option<f64> {
        let steps = self.steps();
        (steps > 0).then(|| (self.pass + self.fail) as f64 / steps as f64)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.pass += other.pass;
        self.fail += other.fail;
        self.abstain += other.abstain;
        self.lost += other.lost;
    }
}

/// Named checkers that all judge the same chains.
#[derive(Default)]
pub struct Panel {
    checkers: Vec<(String, Box<dyn Checker>)>,
    chains: HashMap<ScoreId, Vec<ScoreId>>,
    next: u64,
}

impl Panel {
    /// Returns the built-in checkers of these names.
    ///
    /// # Errors
    /// Returns an error for the first name that is not a built-in checker.
    pub fn built_in(names: &[impl AsRef<str>]) -> Result<Self, UnknownChecker> {
        let mut panel = Self::default();
        for name in names {
            let row = named(name.as_ref())?;
            panel.add(row.name, row.open());
        }
        Ok(panel)
    }

    /// Returns the index of the first step that is proved wrong, and the verdict of the first
    /// checker that proves it.
    pub fn first_fail(&mut self, problem: &str, steps: Vec<&str>) -> Option<(usize, Opinion)> {
        if self.is_empty() {
            return None;
        }
        let id = self.open(problem);
        let checked = self.check(&[CheckItem { id, steps }]);
        self.release(id);
        let steps = checked.into_iter().flatten().enumerate();
        let mut all = steps.flat_map(|(step, all)| all.into_iter().map(move |one| (step, one)));
        all.find(|(_, opinion)| opinion.verdict.is_fail())
    }

    /// Adds a checker. Call this before the first chain is opened: the new checker does not know
    /// chains that are open.
    pub fn add(&mut self, name: impl Into<String>, checker: Box<dyn Checker>) {
        self.checkers.push((name.into(), checker));
    }

    /// Returns the checkers' names, in the order in which the checkers were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.checkers.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the names and losses of those checkers that can lose verdicts.
    pub fn lost(&self) -> impl Iterator<Item = (&str, Lost)> {
        let each = self.checkers.iter();
        each.filter_map(|(name, checker)| Some((name.as_str(), checker.lost()?)))
    }

    /// Whether no checker was added, so that [`check`](Self::check) returns no verdicts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checkers.is_empty()
    }

    fn register(&mut self, ids: Vec<ScoreId>) -> ScoreId {
        self.next += 1;
        let id = ScoreId(self.next);
        self.chains.insert(id, ids);
        id
    }

    /// Starts a chain without steps for the problem in every checker, and returns its id.
    pub fn open(&mut self, problem: &str) -> ScoreId {
        // Every checker has its own ids, so a chain of the panel stands for one id per checker.
        let checkers = self.checkers.iter_mut();
        let ids = checkers.map(|(_, checker)| checker.open(problem)).collect();
        self.register(ids)
    }

    /// Copies a chain and returns the id of the copy. Later steps of one do not affect the other.
    ///
    /// # Panics
    /// Panics if the id is unknown.
    pub fn fork(&mut self, id: ScoreId) -> ScoreId {
        let each = self.checkers.iter_mut().zip(&self.chains[&id]);
        let ids = each.map(|((_, checker), &id)| checker.fork(id)).collect();
        self.register(ids)
    }

    /// Forgets a chain.
    pub fn release(&mut self, id: ScoreId) {
        let ids = self.chains.remove(&id).unwrap_or_default();
        for ((_, checker), id) in self.checkers.iter_mut().zip(ids) {
            checker.release(id);
        }
    }

    /// Appends each item's steps to its chain. Returns verdicts by item, by step, and by checker in
    /// the order of [`names`](Self::names).
    ///
    /// # Panics
    /// Panics if the id of an item is unknown.
    pub fn check(&mut self, items: &[CheckItem<'_>]) -> Vec<Vec<Vec<Opinion>>> {
        let mut all: Vec<Vec<Vec<Opinion>>> = items
            .iter()
            .map(|item| vec![Vec::new(); item.steps.len()])
            .collect();
        for (index, (name, checker)) in self.checkers.iter_mut().enumerate() {
            let own: Vec<CheckItem<'_>> = items
                .iter()
                .map(|item| CheckItem {
                    id: self.chains[&item.id][index],
                    steps: item.steps.clone(),
                })
                .collect();
            for (steps, verdicts) in all.iter_mut().zip(checker.check(&own)) {
                for (opinions, verdict) in steps.iter_mut().zip(verdicts) {
                    opinions.push(Opinion {
                        checker: name.clone(),
                        verdict,
                    });
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_that_any_checker_fails_is_found() {
        let mut panel = Panel::built_in(&["exact", "arithmetic"]).expect("rows");
        let problem = "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?";
        let right = "Mia has 34 pens: 34.";
        let found = |panel: &mut Panel, problem, steps| {
            let (step, opinion) = panel.first_fail(problem, steps)?;
            Some((step, opinion.checker))
        };
        let wrong = "Leo has 8 more pens than Mia: 34 + 8 = 43.";
        let both = Some((1, "exact".to_owned()));
        assert_eq!(found(&mut panel, problem, vec![right, wrong]), both);
        let other = Some((0, "arithmetic".to_owned()));
        assert_eq!(found(&mut panel, "How many?", vec!["34 + 8 = 43."]), other);
        assert_eq!(found(&mut panel, problem, vec![right]), None);
        assert_eq!(found(&mut Panel::default(), problem, vec![wrong]), None);
        assert!(Panel::built_in(&["exact", "magic"]).is_err());
    }
}
