//! `beamgen score`: the scores of given chains, a JSON line each.

use std::io::{self, Write};
use std::time::Instant;

use beamgen::eval::{GivenChain, GivenChains};
use beamgen::{Aggregation, Config, ScoreError, Scorer, score_chains};
use beamgen_labels::LabelledChain;
use serde::Serialize;

use crate::args::ScoreArgs;
use crate::failure::Failure;
use crate::output;
use crate::settings;
use crate::table::grouped;

/// Chains scored in one call of the model: enough to fill forward passes, few enough that output
/// appears while later chains are still being scored.
pub const AT_ONCE: usize = 64;

/// A line of output: the chain's id, and scores or what is wrong with it.
#[derive(Serialize)]
struct Scored<'a> {
    id: &'a str,
    /// One score per step.
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<&'a [f32]>,
    /// The step scores aggregated as `--aggregation` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub fn main(args: &ScoreArgs) -> Result<(), Failure> {
    let config = settings::prm_config(&args.prm)?;
    let aggregation = args.aggregation.unwrap_or(config.search.aggregation);
    let chains = GivenChains::open(&args.file)?;
    let mut model = settings::reward_model(config, chains.problems())?;
    let started = Instant::now();
    let (mut steps, mut refused) = (0, 0);
    each(&mut *model, &chains.chains, |chain, scores| {
        let mut out = io::stdout().lock();
        match &scores {
            Ok(scores) => steps += scores.len(),
            Err(error) => {
                refused += 1;
                output::note(format_args!("beamgen: chain {}: {error}", chain.id));
            }
        }
        output::json_line(&mut out, &line(chain, &scores, aggregation))?;
        Ok(out.flush()?)
    })?;
    output::note(format_args!(
        "{} steps of {} chains scored in {:.1} s",
        grouped(steps as u64),
        grouped((chains.chains.len() - refused) as u64),
        started.elapsed().as_secs_f64()
    ));
    match refused {
        0 => Ok(()),
        refused => Err(Failure::Run(anyhow::anyhow!(
            "{refused} chains could not be scored, see above"
        ))),
    }
}

fn line<'a>(
    chain: &'a GivenChain,
    scores: &'a Result<Vec<f32>, ScoreError>,
    aggregation: Aggregation,
) -> Scored<'a> {
    let known = scores.as_ref().ok();
    Scored {
        id: &chain.id,
        scores: known.map(Vec::as_slice),
        score: known.and_then(|scores| aggregation.fold(scores.iter().copied())),
        error: scores.as_ref().err().map(ToString::to_string),
    }
}

/// What a reward model reads of a labelled chain.
pub fn given(id: String, chain: &LabelledChain) -> GivenChain {
    GivenChain {
        id,
        problem: chain.problem.clone(),
        steps: chain.steps.iter().map(|step| step.text.clone()).collect(),
    }
}

/// The reward model as it was named.
pub fn scorer(config: &Config) -> String {
    let models = &config.models;
    match (&models.prm, &models.prm_server) {
        (Some(name), _) => name.display().to_string(),
        (None, Some(server)) => server.urls.join(","),
        (None, None) => "bundled".to_owned(),
    }
}

/// Scores the chains in order, [`AT_ONCE`] at a time, and calls `each` for every chain with its
/// scores or the reason why it has none.
pub fn each(
    model: &mut dyn Scorer,
    chains: &[GivenChain],
    mut each: impl FnMut(&GivenChain, Result<Vec<f32>, ScoreError>) -> Result<(), Failure>,
) -> Result<(), Failure> {
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
        let scores = score_chains(model, &items).map_err(|error| Failure::Run(error.into()))?;
        for (chain, scores) in some.iter().zip(scores) {
            each(chain, scores)?;
        }
    }
    Ok(())
}
