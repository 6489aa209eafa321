//! Labels of steps by rollouts: the settings of the search, its requests, and the labels that its results give.

use beamgen::result::{Auditor, Evidence};
use beamgen::scorer::ScorerKind;
use beamgen::{
    Choose, Config, Most, Problem, ProblemResult, Request, Settings, Solver, StrategyKind,
};
use beamgen_labels::monte_carlo::{Labelling, Labels, MonteCarlo, graded_by_answer};
use beamgen_labels::{LabelledChain, Policy};

use crate::Error;

/// The settings that labelling controls itself, each with the reason. Files of settings often set the first two for
/// other commands.
pub const OWN: [(&str, &str); 10] = [
    ("n", "`chains` is the number of chains"),
    ("strategy", "`mode` chooses the search"),
    ("choose", "no answer is chosen"),
    ("early_rejection", "every chain is labelled"),
    ("speculate", "chains are not written in rounds"),
    ("rollouts", "`mode` chooses the search"),
    ("consensus", "there is no vote"),
    ("confidence", "`chains` is the number of chains"),
    ("outcome_scores", "every chain is labelled"),
    ("stop_when_verified", "every chain is labelled"),
];

/// Sets what labelling controls itself: the strategy, the number of chains and, without [`MonteCarlo::mine`], that
/// nothing is scored. Every chain is sampled to its end.
pub fn settle(config: &mut Config, options: &mut MonteCarlo) {
    let search = &mut config.search;
    search.strategy = StrategyKind::BEST_OF_N;
    if let Some(mine) = &mut options.mine {
        mine.aggregation = search.aggregation;
        search.choose = Some(Choose::Best);
    } else {
        config.models.scorer = ScorerKind::None;
        config.models.prm = None;
        search.choose = Some(Choose::Majority);
    }
    search.n = options.chains;
    search.early_rejection = 0;
    search.rollouts = None;
    search.speculate = false;
    search.consensus = false;
    search.confidence = 0.0;
    search.outcome_scores = false;
    search.stop_when_verified = false;
}

/// Makes the requests that label problems, and the labels from their results.
pub struct Labeller {
    options: MonteCarlo,
    settings: Settings,
    policy: Policy,
    auditor: Auditor,
}

/// The labelled chains of a problem.
#[derive(Debug)]
pub struct Labelled {
    /// The chains with their labels.
    pub labels: Labels,
    /// The number of right chains that are unsound, by the kind of evidence in [`Evidence::ALL`].
    pub unsound: [u64; 3],
}

impl Labeller {
    /// Prepares labelling with a solver whose settings are [settled](settle).
    ///
    /// # Errors
    /// The checkers that audit chains cannot be started.
    pub fn new(solver: &Solver, options: MonteCarlo) -> Result<Self, Error> {
        let policy = solver.policy();
        Ok(Self {
            options,
            settings: solver.settings(),
            policy: Policy {
                generator: policy.generator,
                temperature: policy.temperature,
            },
            auditor: Auditor::new(solver.config())?,
        })
    }

    /// Returns the request that labels a problem, with a handle to the labels that its strategy records.
    #[must_use]
    pub fn request(&self, problem: &Problem) -> (Request, Labelling) {
        let reference = problem.answer.clone().unwrap_or_default();
        let labelling = self.options.labelling(graded_by_answer(reference));
        let recorded = labelling.clone();
        let request = Request::new(problem.clone(), self.settings.clone())
            .custom_strategy("monte-carlo", move |_| Ok(recorded.strategy()));
        (request, labelling)
    }

    /// Returns the bound of the labelling of one problem.
    #[must_use]
    pub fn most(&self, solver: &Solver) -> Most {
        let settings = solver.settings_in_effect(self.settings.clone());
        self.options.most(&settings.search, &settings.generator)
    }

    /// Returns the labels of a problem whose search has ended.
    pub fn labels(&mut self, labelling: &Labelling, result: &ProblemResult) -> Labelled {
        let seed = self.settings.generator.seed;
        let labels = labelling.labels(&result.problem, seed, &self.policy);
        Labelled {
            unsound: self.unsound(&labels.chains),
            labels,
        }
    }

    /// Counts the right chains that are unsound, by the most trusted evidence.
    fn unsound(&mut self, chains: &[LabelledChain]) -> [u64; 3] {
        let mut counts = [0; 3];
        for chain in chains.iter().filter(|chain| chain.outcome == Some(true)) {
            let steps = chain.steps.iter().map(|step| (step.text.as_str(), None));
            let found = self.auditor.chain(&chain.problem, steps);
            // Rollouts that all failed after a step are evidence that the chain is unsound, although its answer is
            // right. A step without rollouts is no evidence.
            let has_failed = chain.steps.iter().any(|step| {
                let rollouts = step.rollouts.as_ref();
                rollouts.is_some_and(|rollouts| rollouts.n > 0 && rollouts.k == 0)
            });
            let by_label = has_failed.then_some(Evidence::Label);
            if let Some(by) = found.map(|unsound| unsound.by).or(by_label) {
                counts[by as usize] += 1;
            }
        }
        counts
    }
}
