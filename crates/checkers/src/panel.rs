//! Several checkers asked together, and what they said, counted.

use std::collections::HashMap;
use std::ops::AddAssign;

use beamgen_search::ScoreId;
use serde::{Deserialize, Serialize};

use crate::{CheckItem, Checker, Lost, UnknownChecker, Verdict, named};

/// What one checker says of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opinion {
    /// The checker's name.
    pub checker: String,
    /// What it says.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// How many steps got which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Passed.
    pub pass: u64,
    /// Failed.
    pub fail: u64,
    /// Abstained from.
    pub abstain: u64,
    /// Lost.
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

    /// All verdicts.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.pass + self.fail + self.abstain + self.lost
    }

    /// The share of steps that passed or failed.
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

/// Checkers by name, which look at the same chains.
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
    /// There is no checker of a name.
    pub fn built_in(names: &[impl AsRef<str>]) -> Result<Self, UnknownChecker> {
        let mut panel = Self::default();
        for name in names {
            let row = named(name.as_ref())?;
            panel.add(row.name, row.open());
        }
        Ok(panel)
    }

    /// Returns the first step of a chain that a checker proves wrong, by its number from 0, and that
    /// checker's opinion. Of several checkers the first counts.
    pub fn first_fail(&mut self, problem: &str, steps: Vec<&str>) -> Option<(usize, Opinion)> {
        if self.is_empty() {
            return None;
        }
        let id = self.open(problem);
        let said = self.check(&[CheckItem { id, steps }]);
        self.release(id);
        let opinions = said.into_iter().flatten().enumerate();
        let mut all = opinions.flat_map(|(step, all)| all.into_iter().map(move |of| (step, of)));
        all.find(|(_, opinion)| opinion.verdict.is_fail())
    }

    /// Adds a checker. Call it before any chain is opened.
    pub fn add(&mut self, name: impl Into<String>, checker: Box<dyn Checker>) {
        self.checkers.push((name.into(), checker));
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.checkers.iter().map(|(name, _)| name.as_str())
    }

    /// What went wrong with checkers, by their names.
    pub fn lost(&self) -> impl Iterator<Item = (&str, Lost)> {
        let each = self.checkers.iter();
        each.filter_map(|(name, checker)| Some((name.as_str(), checker.lost()?)))
    }

    /// Whether there is no checker.
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

    /// A chain without steps, of a problem with this text.
    pub fn open(&mut self, problem: &str) -> ScoreId {
        let open = |(_, checker): &mut (String, Box<dyn Checker>)| checker.open(problem);
        let ids = self.checkers.iter_mut().map(open).collect();
        self.register(ids)
    }

    /// A second chain with the same contents.
    ///
    /// # Panics
    /// There is no such chain.
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

    /// For each item, for each of its steps, what each checker says, in the order of the checkers.
    ///
    /// # Panics
    /// There is no such chain.
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
