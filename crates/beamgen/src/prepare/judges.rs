//! Finds and checks the judges, before weights are read.

use beamgen_checkers::LostSoFar;
use beamgen_search::{Combine, Judge, Judges, Scorer};
use serde_json::{Map, Value};

use super::generator::FoundGenerator;
use super::reward::RewardModels;
use super::{Inputs, Wanted};
use crate::candle::{self, CandleClassifier};
use crate::config::ScorerKind;
use crate::exact::ExactScorer;
use crate::judge_config::{JudgeConfig, numbered};
use crate::memory::MemoryPlan;
use crate::own::{Identity, OwnParts};
use crate::source::OpenedModel;
use crate::{Config, Error};

/// A judge that was found and checked.
pub(super) struct PreparedJudge {
    pub(super) name: String,
    part: Part,
    veto: bool,
    at_end: bool,
    /// Counts the verdicts that a checker command failed to give; `None` for other judges.
    pub(super) lost: Option<LostSoFar>,
}

/// The source of a judge's scores.
enum Part {
    /// A reward model of this process.
    Model(Box<RewardModels>),
    Classifier(Box<CandleClassifier>),
    /// A scorer without weights to load, with its identity in run files.
    Scorer(Identity, Box<dyn Scorer + Send>),
}

/// Finds all judges: those of the settings, then the checkers, then the caller's own. Results list
/// judges in this order. If no search needs scores, there are no judges.
pub(super) fn find_judges(
    inputs: &mut Inputs,
    wanted: Wanted,
    generator: &FoundGenerator,
) -> Result<Vec<PreparedJudge>, Error> {
    if wanted == Wanted::RewardModel || !inputs.asks_scorer() {
        return Ok(Vec::new());
    }
    let name = scorer_name(&inputs.config, &inputs.own).map(str::to_owned);
    let mut names: Vec<String> = name.into_iter().collect();
    let mut judges = Vec::new();
    for judge in inputs.config.models.judges.clone() {
        let name = judge.name_beside(&names);
        names.push(name.clone());
        judges.push(PreparedJudge {
            name,
            part: find_part(inputs, &judge, generator)?,
            veto: judge.veto,
            at_end: judge.judges_ends(),
            lost: None,
        });
    }
    let Inputs { config, own, .. } = inputs;
    let checkers = config.checkers.scorers(&own.launcher)?.into_iter();
    let checkers = checkers.map(|(name, opened)| (name, opened.scorer, true, opened.lost));
    let owned = std::mem::take(&mut own.judges).into_iter();
    let owned = owned.map(|judge| (judge.name, judge.scorer, judge.veto, None));
    for (name, scorer, veto, lost) in checkers.chain(owned) {
        // Trees and ledgers are keyed by these names, so each name must be unique.
        let name = numbered(name, &names);
        names.push(name.clone());
        judges.push(PreparedJudge {
            part: Part::Scorer(Identity::Named(name.clone()), scorer),
            name,
            veto,
            at_end: false,
            lost,
        });
    }
    Ok(judges)
}

fn find_part(
    inputs: &mut Inputs,
    judge: &JudgeConfig,
    generator: &FoundGenerator,
) -> Result<Part, Error> {
    if judge.is("exact") {
        let delay = inputs.config.models.exact_delay;
        let identity = Identity::Named(ExactScorer::name(delay));
        return Ok(Part::Scorer(identity, Box::new(ExactScorer::late(delay))));
    }
    let Inputs {
        config,
        own,
        finder,
        served,
    } = inputs;
    let config = config.judged_by(judge);
    let tokens_of = generator.tokens_of.as_ref();
    if let Some((identity, scorer)) = served.scorer("judge", &config, tokens_of, own, finder)? {
        return Ok(Part::Scorer(identity, scorer));
    }
    let source = RewardModels::find(&config, finder)?;
    let checkpoint = source.checkpoint();
    if let Some(family) = candle::family(&checkpoint, &candle::CLASSIFIERS) {
        let opened =
            CandleClassifier::open(&source, &checkpoint, family, &config, &mut finder.notes)?;
        return Ok(Part::Classifier(Box::new(opened)));
    }
    let generator = generator.opened.as_ref();
    let opened = RewardModels::open(&source, &config, generator, finder)?;
    Ok(Part::Model(Box::new(opened)))
}

/// Returns the name that the scorer has among the judges; `None` if the search has no scorer.
pub(super) fn scorer_name<'a>(config: &Config, own: &'a OwnParts) -> Option<&'a str> {
    match (&own.scorer, config.models.scorer) {
        (Some((Identity::Named(name), _)), _) => Some(name),
        (_, ScorerKind::None) => None,
        (_, kind) => Some(kind.name()),
    }
}

/// Joins the scorer and the judges, with the reward models that were loaded for them.
pub(super) fn joined(
    scorer: Option<Box<dyn Scorer + Send>>,
    name: String,
    judges: impl IntoIterator<Item = (PreparedJudge, Option<Box<dyn Scorer + Send>>)>,
    plan: &MemoryPlan,
    rule: Combine,
) -> Result<Option<Box<dyn Scorer + Send>>, Error> {
    let mut judges = judges.into_iter().peekable();
    if judges.peek().is_none() {
        return Ok(scorer);
    }
    let scorer = scorer.map(|scorer| Ok(Judge::boxed(name, scorer)));
    let judges = judges.map(|(judge, model)| judge.judge(model, plan));
    let all: Result<Vec<Judge>, Error> = scorer.into_iter().chain(judges).collect();
    Ok(Some(Box::new(Judges::new(all?, rule))))
}

impl PreparedJudge {
    /// Returns the judge's reward model, if this process runs one.
    pub(super) fn reward(&self) -> Option<&RewardModels> {
        match &self.part {
            Part::Model(reward) => Some(reward),
            _ => None,
        }
    }

    /// Returns the models that this process runs for the judge: a reward model and perhaps its
    /// reference.
    pub(super) fn models(&self) -> impl Iterator<Item = &OpenedModel> {
        self.reward().into_iter().flat_map(RewardModels::models)
    }

    /// Returns the name of the judge's rows in the memory plan.
    pub(super) fn role(&self) -> String {
        format!("judge {}", self.name)
    }

    /// Returns the facts that the judge's scores depend on, for the run's identity.
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

    /// Converts the judge for a search. `loaded` is its reward model, if this process runs it.
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
