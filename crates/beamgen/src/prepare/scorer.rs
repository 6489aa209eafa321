//! Finds and checks the scorer of the settings.

use super::calibration::{self, Found};
use super::generator::FoundGenerator;
use super::reward::RewardModels;
use super::{Inputs, Wanted};
use crate::Error;
use crate::candle::{self, CandleClassifier};
use crate::config::ScorerKind;
use crate::exact::ExactScorer;
use crate::own::Identity;

/// A scorer that was found and checked. Both model fields are `None` if the scorer is the caller's
/// own or on a server; such a scorer is in [`OwnParts`](crate::own::OwnParts).
#[derive(Default)]
pub(super) struct FoundScorer {
    /// A reward model of this process's engine.
    pub(super) reward: Option<RewardModels>,
    /// A model of candle.
    pub(super) classifier: Option<CandleClassifier>,
    pub(super) calibration: Option<Found>,
}

/// Finds the scorer: on servers, among the caller's parts, or as a checkpoint. If no search needs
/// scores, there is none.
pub(super) fn find_scorer(
    inputs: &mut Inputs,
    wanted: Wanted,
    generator: &FoundGenerator,
) -> Result<FoundScorer, Error> {
    let has_kind = inputs.config.models.scorer != ScorerKind::None;
    let asks = inputs.asks_scorer();
    let Inputs {
        config,
        own,
        finder,
        served,
    } = inputs;
    let mut found = FoundScorer::default();
    if wanted == Wanted::Pair && !(has_kind && asks) {
        // The run's identity would name the caller's scorer, although no search asks it.
        own.scorer = None;
        return Ok(found);
    }
    if config.models.scorer == ScorerKind::Exact && own.scorer.is_none() {
        let delay = config.models.exact_delay;
        let identity = Identity::Named(ExactScorer::name(delay));
        own.scorer = Some((identity, Box::new(ExactScorer::late(delay))));
    }
    let tokens_of = generator.tokens_of.as_ref();
    if let Some(scorer) = served.scorer("prm", config, tokens_of, own, finder)? {
        own.scorer = Some(scorer);
    }
    let mut source = None;
    if own.scorer.is_none() {
        let source = source.insert(RewardModels::find(config, finder)?);
        let checkpoint = source.checkpoint();
        if let Some(family) = candle::family(&checkpoint, &candle::CLASSIFIERS) {
            let opened =
                CandleClassifier::open(source, &checkpoint, family, config, &mut finder.notes)?;
            found.classifier = Some(opened);
        } else {
            let generator = generator.opened.as_ref();
            let opened = RewardModels::open(source, config, generator, finder)?;
            found.reward = Some(opened);
        }
    }
    // Without a search (`Wanted::RewardModel`), commands show raw scores or fit a calibration to
    // them.
    if wanted == Wanted::Pair {
        found.calibration = calibration::find(config, source.as_ref())?;
    }
    if let Some(calibration) = &found.calibration {
        calibration.check(config.models.score_as, found.reward.as_ref())?;
    }
    Ok(found)
}
