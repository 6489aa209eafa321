//! The judges beside the scorer: found and checked before a weight is read, as the scorer is.

use beamgen_checkers::LostSoFar;
use beamgen_engine::Checkpoint;
use beamgen_search::{Judge, Scorer};
use serde_json::{Map, Value};

use super::reward::RewardModels;
use crate::candle::{self, CandleClassifier};
use crate::checkers_config::OpenedChecker;
use crate::judge_config::{JudgeConfig, numbered};
use crate::memory::MemoryPlan;
use crate::own::{Identity, OwnParts};
use crate::served::Served;
use crate::source::{Downloads, OpenedModel};
use crate::{Config, Error, ExactScorer, ScorerKind};

/// A judge that was found and fits.
pub(super) struct PreparedJudge {
    pub(super) name: String,
    pub(super) part: Part,
    veto: bool,
    at_end: bool,
    /// What it loses, of a checker that is a command.
    pub(super) lost: Option<LostSoFar>,
}

/// What a judge is.
pub(super) enum Part {
    /// A reward model of this process.
    Model(Box<RewardModels>),
    Classifier(Box<CandleClassifier>),
    /// What needs no memory here.
    Scorer(Identity, Box<dyn Scorer + Send>),
}

/// What judges are found with.
pub(super) struct Finding<'a> {
    pub(super) config: &'a Config,
    pub(super) served: &'a mut Served,
    pub(super) generator: Option<&'a OpenedModel>,
    /// Where the generator's tokenizer is.
    pub(super) tokens_of: Option<&'a Checkpoint>,
    pub(super) downloads: &'a mut Option<Downloads>,
    pub(super) notes: &'a mut Vec<String>,
}

impl Finding<'_> {
    /// The judges of the settings, then its checkers, then the builder's own judges. `scorer` is the
    /// scorer's name.
    pub(super) fn judges(
        mut self,
        scorer: Option<String>,
        own: &mut OwnParts,
    ) -> Result<Vec<PreparedJudge>, Error> {
        let mut names: Vec<String> = scorer.into_iter().collect();
        let mut judges = Vec::new();
        for judge in &self.config.models.judges {
            let name = judge.name_beside(&names);
            names.push(name.clone());
            judges.push(PreparedJudge {
                name,
                part: self.part(judge, own)?,
                veto: judge.veto,
                at_end: judge.judges_ends(),
                lost: None,
            });
        }
        let mut of_scorer = |name: String, scorer, veto, lost| {
            let name = numbered(name, &names);
            names.push(name.clone());
            judges.push(PreparedJudge {
                part: Part::Scorer(Identity::Named(name.clone()), scorer),
                name,
                veto,
                at_end: false,
                lost,
            });
        };
        for OpenedChecker { name, scorer, lost } in self.config.checkers.scorers(&own.launcher)? {
            of_scorer(name, scorer, true, lost);
        }
        for judge in std::mem::take(&mut own.judges) {
            of_scorer(judge.name, judge.scorer, judge.veto, None);
        }
        Ok(judges)
    }

    fn part(&mut self, judge: &JudgeConfig, own: &OwnParts) -> Result<Part, Error> {
        if let Some(checker) = checker(judge) {
            let name = judge.judge.display().to_string();
            return Ok(Part::Scorer(Identity::Named(name), checker));
        }
        // The settings as if the judge were the scorer.
        let mut config = self.config.clone();
        let models = &mut config.models;
        models.scorer = match judge.is("orm") {
            true => ScorerKind::Orm,
            false => ScorerKind::Prm,
        };
        models.prm = (!judge.is("prm") && !judge.is("orm")).then(|| judge.judge.clone());
        models.prm_format.clone_from(&judge.format);
        models.prm_reference.clone_from(&judge.reference);
        models.prm_server.clone_from(&judge.server);
        let (downloads, notes) = (&mut *self.downloads, &mut *self.notes);
        let served = self
            .served
            .scorer("judge", &config, self.tokens_of, own, downloads, notes)?;
        if let Some((identity, scorer)) = served {
            return Ok(Part::Scorer(identity, scorer));
        }
        let source = RewardModels::find(&config, downloads, notes)?;
        let checkpoint = source.checkpoint();
        if let Some(family) = candle::classifier(&checkpoint) {
            let opened = CandleClassifier::open(&source, &checkpoint, family, &config, notes)?;
            return Ok(Part::Classifier(Box::new(opened)));
        }
        let opened = RewardModels::open(&source, &config, self.generator, downloads, notes)?;
        Ok(Part::Model(Box::new(opened)))
    }
}

/// A judge that is no model, by its word.
fn checker(judge: &JudgeConfig) -> Option<Box<dyn Scorer + Send>> {
    judge
        .is("exact")
        .then(|| Box::new(ExactScorer::default()) as Box<dyn Scorer + Send>)
}

impl PreparedJudge {
    /// The reward model of this process, if it is one.
    pub(super) fn reward(&self) -> Option<&RewardModels> {
        match &self.part {
            Part::Model(reward) => Some(reward),
            _ => None,
        }
    }

    /// The models of its reward model.
    pub(super) fn models(&self) -> impl Iterator<Item = &OpenedModel> {
        self.reward().into_iter().flat_map(RewardModels::models)
    }

    /// The part of the memory plan that is its.
    pub(super) fn role(&self) -> String {
        format!("judge {}", self.name)
    }

    /// What decides its scores, for the run's identity.
    pub(super) fn identify(&self) -> Value {
        let mut facts = Map::new();
        match &self.part {
            Part::Model(reward) => reward.identify(&mut facts),
            Part::Classifier(classifier) => facts.extend(classifier.identity()),
            Part::Scorer(Identity::Named(name), _) => {
                facts.insert("scorer".into(), name.clone().into());
            }
            Part::Scorer(Identity::Facts(known), _) => facts.extend(known.clone()),
        }
        facts.insert("name".into(), self.name.clone().into());
        for (key, holds) in [("veto", self.veto), ("at_end", self.at_end)] {
            if holds {
                facts.insert(key.into(), true.into());
            }
        }
        Value::Object(facts)
    }

    /// The judge; `loaded` is the model of one that is a reward model of this process.
    pub(super) fn judge(
        self,
        loaded: Option<Box<dyn Scorer + Send>>,
        plan: &MemoryPlan,
    ) -> Result<Judge, Error> {
        let scorer = match (self.part, loaded) {
            (Part::Model(_), Some(scorer)) | (Part::Scorer(_, scorer), _) => scorer,
            (Part::Classifier(classifier), _) => classifier.load(plan)?.1,
            (Part::Model(_), None) => return Err(Error::NoScorer),
        };
        let mut judge = Judge::boxed(self.name, scorer);
        if self.veto {
            judge = judge.vetoing();
        }
        if self.at_end {
            judge = judge.at_end();
        }
        Ok(judge)
    }
}
