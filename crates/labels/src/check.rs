//! What a chain must hold to be of use.

use crate::{LabelledChain, LabelledStep, Policy, Reason};

impl LabelledChain {
    /// Whether every text is there and every number makes sense.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), Reason> {
        if self.problem.trim().is_empty() {
            return Err(Reason::new(
                "field \"problem\": empty: add the problem's text",
            ));
        }
        if self.steps.is_empty() {
            return Err(Reason::new(
                "field \"steps\": empty: a chain has at least one step",
            ));
        }
        let count = self.steps.len() as i64;
        if self
            .first_error
            .is_some_and(|at| !(-1..count).contains(&at))
        {
            return Err(Reason::new(
                "field \"first_error\": write the index of a step from 0, or -1 for none",
            ));
        }
        policy(self.policy.as_ref())?;
        for (i, step) in self.steps.iter().enumerate() {
            step.check()
                .and_then(|()| step.alternatives.iter().try_for_each(alternative))
                .map_err(|reason| Reason::with(reason.what, format!("step {}", i + 1)))?;
        }
        Ok(())
    }
}

impl LabelledStep {
    fn check(&self) -> Result<(), Reason> {
        if self.text.trim().is_empty() {
            return Err(Reason::new("field \"text\": a step is empty: leave it out"));
        }
        if self
            .rating
            .is_some_and(|rating| !(-1..=1).contains(&rating))
        {
            return Err(Reason::new("field \"rating\": write 1, 0 or -1"));
        }
        // NaN is in no range.
        if self.soft.is_some_and(|soft| !(0.0..=1.0).contains(&soft)) {
            return Err(Reason::new("field \"soft\": write a number from 0 to 1"));
        }
        if self.second.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
            return Err(Reason::new("field \"second\": write a number from 0 to 1"));
        }
        let Some(rollouts) = &self.rollouts else {
            return Ok(());
        };
        if rollouts.k > rollouts.n {
            return Err(Reason::new("field \"rollouts\": k is more than n"));
        }
        policy(rollouts.policy.as_ref())
    }
}

fn alternative(step: &LabelledStep) -> Result<(), Reason> {
    match step.alternatives.is_empty() {
        true => step.check(),
        false => Err(Reason::new(
            "field \"alternatives\": an alternative has none of its own",
        )),
    }
}

fn policy(policy: Option<&Policy>) -> Result<(), Reason> {
    match policy.and_then(|policy| policy.temperature) {
        Some(t) if !(t.is_finite() && t >= 0.0) => Err(Reason::new(
            "field \"temperature\": write a number of at least 0",
        )),
        _ => Ok(()),
    }
}
