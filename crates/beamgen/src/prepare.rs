//! Prepares models: finds them, reports all faults, and plans the memory, before weights are read.
//!
//! [`Prepared::new`] has four parts, each with its own file: the generator, the scorer, the judges,
//! and the memory (`plan.rs`). Afterwards, `load.rs` reads the weights.

pub(crate) mod calibration;
mod generator;
mod identity;
mod judges;
mod load;
pub(crate) mod plan;
mod reward;
mod scorer;

use std::cell::RefCell;

use beamgen_checkers::Verifiers;
use beamgen_engine::ThreadPool;
use beamgen_eval::MathAnswers;
use beamgen_generator::Prompts;
use beamgen_prm::QuantileReader;
use beamgen_search::{GenError, Problem, Scorer};

use self::generator::{FoundGenerator, find_generator};
use self::judges::{PreparedJudge, find_judges, joined, scorer_name};
use self::plan::{Opened, PlannedMemory, engine_config, plan_memory};
use self::reward::RewardModels;
use self::scorer::{FoundScorer, find_scorer};
use crate::calibrated::Calibrated;
use crate::long_texts::TextLimits;
use crate::memory::MemoryPlan;
use crate::own::OwnParts;
use crate::served::Served;
use crate::source::Finder;
use crate::{Config, Error, Solver};

/// Models that were found and checked, with a plan of the memory that they need.
pub struct Prepared {
    config: Config,
    own: OwnParts,
    generator: FoundGenerator,
    scorer: FoundScorer,
    judges: Vec<PreparedJudge>,
    verifiers: Verifiers,
    memory: PlannedMemory,
    /// A callback for the hidden state of each step that [`reward_model`](Self::reward_model)
    /// scores.
    observer: RefCell<Option<QuantileReader>>,
    notes: Vec<String>,
    #[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "there are none"))]
    served: Served,
}

/// The models to prepare: generator and reward model, or the reward model only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Pair,
    RewardModel,
}

/// The inputs of each part of the preparation. A part may complete settings and add notes.
struct Inputs {
    config: Config,
    own: OwnParts,
    finder: Finder,
    served: Served,
}

impl Inputs {
    /// Whether a search asks the scorer, or the builder wants it loaded for requests that do.
    fn asks_scorer(&self) -> bool {
        self.own.load_scorer || self.config.search.uses_scores()
    }
}

impl Prepared {
    pub(crate) fn new(
        config: Config,
        wanted: Wanted,
        own: OwnParts,
        finder: Finder,
    ) -> Result<Self, Error> {
        // The settings are checked first, since the parts below may download gigabytes.
        config.check_beside(!own.judges.is_empty(), own.verifier.is_some())?;
        let config = config.resolved();
        let mut inputs = Inputs {
            served: Served::open(&config)?,
            config,
            own,
            finder,
        };
        let generator = match wanted {
            Wanted::Pair => find_generator(&mut inputs)?,
            Wanted::RewardModel => FoundGenerator::default(),
        };
        let scorer = find_scorer(&mut inputs, wanted, &generator)?;
        let judges = find_judges(&mut inputs, wanted, &generator)?;
        let verifiers = find_verifiers(&mut inputs, wanted)?;
        let opened = Opened {
            generator: generator.opened.as_ref(),
            reward: scorer.reward.as_ref(),
            judges: &judges,
        };
        if let Some(prompts) = &generator.prompts {
            inputs.config.generator.thinking = prompts.thinking_config().clone();
        }
        // Planning comes last, since the parts above find the models and complete the settings.
        let memory = plan_memory(&inputs.config, &opened, &mut inputs.finder.notes)?;
        Ok(Self {
            config: inputs.config,
            own: inputs.own,
            generator,
            scorer,
            judges,
            verifiers,
            memory,
            observer: RefCell::new(None),
            notes: inputs.finder.notes,
            served: inputs.served,
        })
    }

    /// Returns the memory plan, which is made before weights are read.
    pub fn plan(&self) -> &MemoryPlan {
        &self.memory.plan
    }

    /// Returns the notes for the user, one line each.
    pub fn notes(&self) -> Vec<String> {
        let noted = self.notes.iter().cloned();
        noted.chain(self.memory.compute.note()).collect()
    }

    /// Checks that a problem fits the generator. A generator of the caller's own has unknown
    /// prompts, so every problem passes.
    ///
    /// # Errors
    /// Returns an error if the problem does not fit into the context, or if the template or the
    /// tokenizer refuses it.
    pub fn validate(&self, problem: &Problem) -> Result<(), GenError> {
        match &self.generator.prompts {
            Some(prompts) => prompts.prompt(problem).map(drop),
            None => Ok(()),
        }
    }

    /// Returns the most tokens of a thought before an answer; `None` if the generator is not known to
    /// think, or does not.
    pub fn thought_budget(&self) -> Option<usize> {
        let thinking = &self.config.generator.thinking;
        thinking.budget.filter(|&budget| budget > 0)
    }

    /// Whether the generator has a chat template. Without one, the prompt is the problem's text.
    pub fn has_chat_template(&self) -> bool {
        let prompts = self.generator.prompts.as_ref();
        prompts.is_some_and(Prompts::has_chat_template)
    }

    /// Whether all models are bundled, none named by the caller.
    pub fn is_bundled(&self) -> bool {
        self.own.generator.is_none()
            && self.generator.candle.is_none()
            && self.scorer.classifier.is_none()
            && self.opened().models().all(|model| model.bundled)
    }

    /// Whether one of the models is bundled, and so knows only problems of [the bundled
    /// world](crate::bundled).
    pub fn has_bundled(&self) -> bool {
        self.opened().models().any(|model| model.bundled)
    }

    fn opened(&self) -> Opened<'_> {
        Opened {
            generator: self.generator.opened.as_ref(),
            reward: self.scorer.reward.as_ref(),
            judges: &self.judges,
        }
    }

    /// Reads the weights of all models, and returns the finished solver.
    ///
    /// # Errors
    /// Returns an error that names the file, field or tensor with the fault.
    pub fn solver(mut self) -> Result<Solver, Error> {
        if let Some(candle) = self.generator.candle.take() {
            self.own.generator = Some(candle.load(&self.memory.plan)?);
        }
        self.load_classifier()?;
        if self.generator.opened.is_none() && self.own.generator.is_none() {
            return Err(Error::NoGenerator);
        }
        let loaded = self.or_on_cpu(Self::load)?;
        // The identity contains the device, so it is computed after loading: if a device fails,
        // everything moves to the CPU.
        let models = self.identity()?;
        let has_bundled = self.has_bundled();
        let prompts = self.generator.prompts.as_ref();
        let chat_template = prompts.and_then(Prompts::chat_template).map(str::to_owned);
        // The value is copied because the parts below move out of `self`.
        let prm = self.prm_fingerprint().unwrap_or_default().to_owned();
        let limits = TextLimits {
            generator: self.generator.prompts.as_ref().map(Prompts::text_limit),
            scorer: self.scorer.reward.as_ref().map(RewardModels::text_limit),
        };
        let effective = self.effective()?;
        if let Some(generator) = &loaded.generator {
            self.notes.extend_from_slice(generator.notes());
        }
        let lost = self.judges.iter();
        let lost = lost.filter_map(|judge| Some((judge.name.clone(), judge.lost.clone()?)));
        let lost = lost.chain(self.verifiers.lost().iter().cloned()).collect();
        let name = scorer_name(&self.config, &self.own).unwrap_or("prm");
        let name = name.to_owned();
        let mut scorer = loaded.scorer.or(self.own.scorer.map(|(_, scorer)| scorer));
        if let Some(found) = &self.scorer.calibration {
            let (map, score_as) = (found.calibration.map.clone(), self.config.models.score_as);
            // Judges are not calibrated: the calibration was fitted to the raw scores of the
            // scorer.
            scorer = scorer.map(|scorer| {
                let calibrated = Calibrated {
                    scorer,
                    map,
                    score_as,
                };
                Box::new(calibrated) as Box<dyn Scorer + Send>
            });
        }
        let judges = self.judges.into_iter().zip(loaded.judges);
        let rule = self.config.models.combine;
        let scorer = joined(scorer, name, judges, &self.memory.plan, rule)?;
        let generator = match (loaded.generator, self.own.generator) {
            (Some(generator), _) => Box::new(generator),
            (None, Some((_, own))) => own,
            (None, None) => return Err(Error::NoGenerator),
        };
        let answers = self.own.answers;
        let mut solver = Solver {
            config: loaded.config,
            generator,
            scorer,
            answers: answers.unwrap_or_else(|| Box::new(MathAnswers)),
            verifiers: self.verifiers,
            models,
            notes: self.notes,
            compute: self.memory.compute,
            has_bundled,
            chat_template,
            limits,
            memory: self.memory.plan,
            effective,
            lost,
            #[cfg(feature = "remote")]
            served: self.served.connections,
        };
        if let Some(found) = self.scorer.calibration {
            // Thresholds are stored under the identity of a search, which only a finished solver
            // has.
            solver.calibrate(&found.calibration, &found.path, &prm)?;
        }
        Ok(solver)
    }

    /// Reads the weights of the reward model only, to score given chains
    /// ([`score_chains`](crate::scorer::score_chains)).
    ///
    /// # Errors
    /// Returns an error that names the file, field or tensor with the fault, or an error if the
    /// settings have no reward model.
    pub fn reward_model(&mut self) -> Result<Box<dyn Scorer + Send>, Error> {
        self.load_classifier()?;
        if let Some((_, scorer)) = self.own.scorer.take() {
            return Ok(scorer);
        }
        let model = self.or_on_cpu(|this| {
            let pool = ThreadPool::new(this.config.engine.threads);
            let engine = engine_config(&this.memory.plan, &this.config, "prm");
            let reward = this.scorer.reward.as_ref().ok_or(Error::NoScorer)?;
            let mut model = reward.load(&this.config, &this.memory.compute, engine, None, pool)?;
            // The callback is moved only after the load succeeded, since a load that fails on a
            // device is repeated on the CPU.
            if let Some(observer) = this.observer.take() {
                model.read_quantiles(observer);
            }
            Ok(model)
        })?;
        Ok(Box::new(model))
    }

    /// Calls `observer` for each step that the model of [`reward_model`](Self::reward_model)
    /// scores, with the step's hidden state and score, in the order of chains and steps. The
    /// quantiles that `observer` returns are ignored. Only models that this process runs have
    /// hidden states; for others, `observer` is never called.
    pub fn observe_hidden(&mut self, observer: QuantileReader) {
        self.observer = RefCell::new(Some(observer));
    }

    /// Returns the fingerprint of the reward model's files; `None` if the files are not on this
    /// machine.
    pub fn prm_fingerprint(&self) -> Option<&str> {
        let reward = self.scorer.reward.as_ref();
        reward.map(|reward| reward.prm.fingerprint.as_str())
    }

    fn load_classifier(&mut self) -> Result<(), Error> {
        if let Some(classifier) = self.scorer.classifier.take() {
            self.own.scorer = Some(classifier.load(&self.memory.plan)?);
        }
        Ok(())
    }
}

/// Starts the verifiers of the settings, and adds the caller's own. Scoring of given chains needs
/// none.
fn find_verifiers(inputs: &mut Inputs, wanted: Wanted) -> Result<Verifiers, Error> {
    if wanted == Wanted::RewardModel {
        return Ok(Verifiers::default());
    }
    let mut verifiers = inputs.config.verifier.open(&inputs.own.launcher)?;
    if let Some((name, own)) = inputs.own.verifier.take() {
        verifiers.add(&name, own);
        verifiers.set_usual(&name);
    }
    Ok(verifiers)
}
