//! `beamgen score`: scores given chains, and writes a JSON line for each chain.

use std::io::{self, Write};
use std::time::Instant;

use beamgen::Aggregation;
use beamgen::eval::GivenChain;
use beamgen::mend;
use beamgen::scorer::ScoreError;
use beamgen_measure::scores;
use serde::Serialize;

use crate::args::ScoreArgs;
use crate::failure::Failure;
use crate::output;
use crate::settings;
use crate::table::counted;

/// A line of output: a chain's id with its scores or its error.
#[derive(Serialize)]
struct Scored<'a> {
    id: &'a str,
    /// The score of each step, from 0 to 1; `None` after an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<&'a [f32]>,
    /// The chain's score, which the rule of `--aggregation` makes of the step scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) fn main(args: &ScoreArgs) -> Result<(), Failure> {
    let config = settings::prm_config(&args.prm)?;
    let aggregation = args.aggregation.unwrap_or(config.search.aggregation);
    let chains = {
        let cut = |text: &str| mend::steps_of(text, &config.generator);
        scores::given(&beamgen_labels::open_unlabelled(&args.file, &cut)?.chains)
    };
    let problems = chains.iter().map(|chain| chain.problem.as_str());
    let mut model = settings::reward_model(config, problems)?;
    let started = Instant::now();
    let (mut steps, mut refused) = (0, 0);
    scores::each(&mut *model, &chains, |chain, scores| {
        let mut out = io::stdout().lock();
        match &scores {
            Ok(scores) => steps += scores.len(),
            Err(error) => {
                refused += 1;
                output::note(format_args!("beamgen: chain {}: {error}", chain.id));
            }
        }
        output::json_line(&mut out, &line(chain, &scores, aggregation))?;
        // Each line is flushed, since another program may be waiting for the chain's scores.
        Ok::<(), Failure>(out.flush()?)
    })?;
    output::note(format_args!(
        "{} of {} scored in {:.1} s",
        counted(steps, "step", "steps"),
        counted(chains.len() - refused, "chain", "chains"),
        started.elapsed().as_secs_f64()
    ));
    match refused {
        0 => Ok(()),
        refused => Err(Failure::Run(anyhow::anyhow!(
            "{} could not be scored: see the messages above",
            counted(refused, "chain", "chains")
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
