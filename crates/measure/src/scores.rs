//! Scoring of existing chains with a reward model, in batches.

use beamgen::Config;
use beamgen::eval::GivenChain;
use beamgen::scorer::{ScoreError, Scorer, score_chains};
use beamgen_labels::LabelledChain;

use crate::{Error, Watch};

/// The number of chains scored in one call of the model: enough to fill forward passes, few enough
/// that the first scores come while later chains are still being scored.
pub const AT_ONCE: usize = 64;

/// Converts labelled chains to the form that a reward model reads. A chain without an id gets its position as its id,
/// counted from 1.
#[must_use]
pub fn given(chains: &[LabelledChain]) -> Vec<GivenChain> {
    (1..)
        .zip(chains)
        .map(|(number, chain)| GivenChain {
            id: chain.id.clone().unwrap_or_else(|| number.to_string()),
            problem: chain.problem.clone(),
            steps: chain.steps.iter().map(|step| step.text.clone()).collect(),
            ..GivenChain::default()
        })
        .collect()
}

/// Returns a description of the reward model for reports: its path, the addresses of its servers, or `bundled`.
#[must_use]
pub fn scorer(config: &Config) -> String {
    let models = &config.models;
    match (&models.prm, &models.prm_server) {
        (Some(name), _) => name.display().to_string(),
        (None, Some(server)) => server.urls.join(","),
        (None, None) => "bundled".to_owned(),
    }
}

/// Scores the chains. Returns the step scores of each chain in the given order; `None` for a chain that the model
/// refused.
///
/// # Errors
/// The model is lost, or the caller cancelled through `watch`.
pub fn judge(
    model: &mut dyn Scorer,
    chains: &[GivenChain],
    watch: &mut dyn Watch,
) -> Result<Vec<Option<Vec<f32>>>, Error> {
    let mut all = Vec::with_capacity(chains.len());
    each(model, chains, |chain, scores| {
        if let Err(reason) = &scores {
            watch.refused(&chain.id, reason);
        }
        watch.done(None);
        all.push(scores.ok());
        // The check follows each chain, so that a cancelled measurement ends after the current batch.
        if watch.is_cancelled() {
            Err(Error::Cancelled)
        } else {
            Ok(())
        }
    })?;
    Ok(all)
}

/// Scores the chains in order, [`AT_ONCE`] in one call of the model. Calls `each` for every chain, with its scores or
/// the reason of a refusal.
///
/// # Errors
/// The model is lost, or `each` failed.
pub fn each<E: From<ScoreError>>(
    model: &mut dyn Scorer,
    chains: &[GivenChain],
    mut each: impl FnMut(&GivenChain, Result<Vec<f32>, ScoreError>) -> Result<(), E>,
) -> Result<(), E> {
    for some in chains.chunks(AT_ONCE) {
        let steps: Vec<Vec<&str>> = some
            .iter()
            .map(|chain| chain.steps.iter().map(String::as_str).collect())
            .collect();
        let items: Vec<(&str, &[&str])> = some
            .iter()
            .zip(&steps)
            .map(|(chain, steps)| (chain.problem.as_str(), steps.as_slice()))
            .collect();
        let scores = score_chains(model, &items)?;
        for (chain, scores) in some.iter().zip(scores) {
            each(chain, scores)?;
        }
    }
    Ok(())
}
