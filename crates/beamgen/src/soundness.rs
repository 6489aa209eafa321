//! Audits answers. An answer is unsound if a checker proves a step of its chain wrong, or if a step
//! scores below a bound.

use std::ops::ControlFlow;

use beamgen_checkers::Panel;
use beamgen_search::{Event, Evidence, Node, ProblemResult, Sink, Unsound};

use crate::{Config, Error};

/// Finds the step that makes a chain unsound, by the settings `audit` and `sound_above` of
/// [`CheckersConfig`](crate::scorer::CheckersConfig).
pub struct Auditor {
    panel: Panel,
    /// The least score of a sound step.
    above: f32,
    scorer: &'static str,
}

impl Auditor {
    /// Returns an auditor with the checkers and the bound of `config`.
    ///
    /// # Errors
    /// Returns an error if a setting of the checkers is invalid, such as an unknown name.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let checkers = &config.checkers;
        checkers.check()?;
        let panel = Panel::built_in(checkers.auditors());
        Ok(Self {
            panel: panel.map_err(|error| Error::Refused(error.into()))?,
            above: checkers.sound_above,
            scorer: config.models.scorer.name(),
        })
    }

    /// Whether the settings turn off both the checkers and the bound.
    pub fn is_off(&self) -> bool {
        self.panel.is_empty() && self.above == 0.0
    }

    /// Returns the first step that a checker proves wrong, or else the first step that scores below
    /// the bound. Each of `steps` is a text with its score.
    pub fn chain<'a>(
        &mut self,
        problem: &str,
        steps: impl IntoIterator<Item = (&'a str, Option<f32>)>,
    ) -> Option<Unsound> {
        let steps = steps
            .into_iter()
            .map(|(text, score)| (text.trim_start_matches('\n').trim_end(), score));
        let (texts, scores): (Vec<&str>, Vec<Option<f32>>) = steps.unzip();
        if let Some((step, opinion)) = self.panel.first_fail(problem, texts) {
            return Some(Unsound {
                step,
                by: Evidence::Checker,
                reason: opinion.verdict.reason().unwrap_or_default().to_owned(),
                source: opinion.checker,
            });
        }
        // A proof counts more than a score, so the scores are looked at only if no checker proves a
        // step wrong.
        let step = scores
            .iter()
            .position(|score| score.is_some_and(|score| score < self.above))?;
        Some(Unsound {
            step,
            by: Evidence::Scorer,
            source: self.scorer.to_owned(),
            reason: format!("scored below {}", self.above),
        })
    }

    /// Audits the chain of the answer, and sets [`ProblemResult::unsound`]. Does nothing if there
    /// is no answer, or if the answer is withheld.
    pub fn result(&mut self, result: &mut ProblemResult) {
        let steps = result.steps();
        let steps = steps.iter().map(|node: &&Node| (node.spoken(), node.score));
        let is_given = result.answer.is_some() && !self.is_off();
        result.unsound = is_given
            .then(|| self.chain(&result.problem.with_context(), steps))
            .flatten();
    }
}

/// A sink that audits each result, then passes it to another sink.
pub(crate) struct Audited<'a> {
    pub(crate) auditor: Auditor,
    pub(crate) sink: &'a mut dyn Sink,
    /// Whether an unsound answer is withheld, or only marked.
    pub(crate) require: bool,
    /// The number of answers withheld by the audit so far.
    pub(crate) withheld: usize,
}

impl Sink for Audited<'_> {
    fn event(&mut self, event: Event<'_>) {
        self.sink.event(event);
    }

    fn result(&mut self, mut result: ProblemResult) -> ControlFlow<()> {
        self.auditor.result(&mut result);
        if self.require && result.unsound.is_some() {
            result.withheld = result.answer.take();
            self.withheld += 1;
        }
        self.sink.result(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_checker_proves_goes_before_what_the_scorer_says() {
        let mut config = Config::default();
        config.checkers.sound_above = 0.5;
        let mut auditor = Auditor::new(&config).expect("checkers");
        let mut by = |steps: [(&str, Option<f32>); 2]| {
            let found = auditor.chain("How many?", steps)?;
            Some((found.step, found.by, found.source))
        };
        let (right, wrong) = ("1 + 1 = 2\n", "\n1 + 1 = 3\n");
        let proved = Some((1, Evidence::Checker, "arithmetic".to_owned()));
        assert_eq!(by([(right, Some(0.1)), (wrong, Some(0.9))]), proved);
        let low = Some((1, Evidence::Scorer, "prm".to_owned()));
        assert_eq!(by([(right, Some(0.5)), (right, Some(0.4))]), low);
        assert_eq!(by([(right, None), (right, Some(0.5))]), None);
        config.checkers.audit = vec!["none".to_owned()];
        config.checkers.sound_above = 0.0;
        assert!(Auditor::new(&config).expect("none").is_off());
    }
}
