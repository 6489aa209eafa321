//! Validation of a chain after it was read.

use crate::{LabelledChain, LabelledStep, Policy, Reason};

impl LabelledChain {
    /// Checks that no text is blank, every number is in its range, and no alternative has
    /// alternatives.
    ///
    /// # Errors
    /// Returns the first fault; a fault of a step names the step, from 1.
    pub fn check(&self) -> Result<(), Reason> {
        let no_problem = self.problem.trim().is_empty();
        refuse_if(
            no_problem,
            "field \"problem\": empty: add the problem's text",
        )?;
        let no_steps = self.steps.is_empty();
        refuse_if(
            no_steps,
            "field \"steps\": empty: a chain has at least one step",
        )?;
        let indices = -1..self.steps.len() as i64;
        refuse_if(
            self.first_error.is_some_and(|at| !indices.contains(&at)),
            "field \"first_error\": write the index of a step from 0, or -1 for none",
        )?;
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
        fn is_outside(p: f64) -> bool {
            !(0.0..=1.0).contains(&p)
        }
        let is_blank = self.text.trim().is_empty();
        refuse_if(is_blank, "field \"text\": a step is empty: leave it out")?;
        let by_name = self.ratings.values().filter_map(|rated| rated.rating);
        let mut all = self.rating.into_iter().chain(by_name);
        let is_other = all.any(|rating| !(-1..=1).contains(&rating));
        refuse_if(is_other, "field \"rating\": write 1, 0 or -1")?;
        // `!contains` instead of two comparisons: NaN is refused, too.
        let soft = "field \"soft\": write a number from 0 to 1";
        refuse_if(self.soft.is_some_and(is_outside), soft)?;
        let any_outside = self.opinions.values().copied().any(is_outside);
        refuse_if(
            any_outside,
            "field \"opinions\": write a number from 0 to 1",
        )?;
        let Some(rollouts) = &self.rollouts else {
            return Ok(());
        };
        let is_more = rollouts.k > rollouts.n;
        refuse_if(is_more, "field \"rollouts\": k is more than n")?;
        policy(rollouts.policy.as_ref())
    }
}

fn alternative(step: &LabelledStep) -> Result<(), Reason> {
    refuse_if(
        !step.alternatives.is_empty(),
        "field \"alternatives\": an alternative cannot have alternatives: remove them",
    )?;
    step.check()
}

fn policy(policy: Option<&Policy>) -> Result<(), Reason> {
    let temperature = policy.and_then(|policy| policy.temperature);
    refuse_if(
        temperature.is_some_and(|t| !(t.is_finite() && t >= 0.0)),
        "field \"temperature\": write a number of at least 0",
    )
}

fn refuse_if(is_wrong: bool, what: &str) -> Result<(), Reason> {
    (!is_wrong).then_some(()).ok_or_else(|| Reason::new(what))
}
