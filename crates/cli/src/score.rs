//! `beamgen score`: scores given chains, and writes a JSON line for each chain.

use std::fmt::Display;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Instant;

use beamgen::eval::GivenChain;
use beamgen::settings::{Part, SETTINGS};
use beamgen::{Aggregation, Config, Problem, mend};
use beamgen_measure::scores;
use serde::Serialize;

use crate::args::{Given, ScoreArgs, flagged};
use crate::failure::Failure;
use crate::foreign;
use crate::lost;
use crate::output;
use crate::settings::{self, ShowPlan};
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
    let mut config = settings::config(&args.settings)?;
    if let Some(count) = args.rollouts {
        config.search.rollouts.get_or_insert_default().count = count;
    }
    let rollouts = config.search.rollouts.as_ref();
    let by_rollouts = rollouts.is_some_and(|rollouts| rollouts.count > 0);
    if !by_rollouts {
        refuse_idle(&args.settings.given)?;
        config = settings::prm_config(&args.settings)?;
    }
    let chains = {
        let cut = |text: &str| mend::steps_of(text, &config.generator);
        scores::given(&beamgen_labels::open_unlabelled(&args.file, &cut)?.chains)
    };
    // A value says where its own step leads, whatever those before it led to.
    let usual = if by_rollouts {
        Aggregation::Last
    } else {
        config.search.aggregation
    };
    let mut written = Written {
        aggregation: args.aggregation.unwrap_or(usual),
        started: Instant::now(),
        steps: 0,
        refused: 0,
    };
    if by_rollouts {
        complete(config, &chains, &mut written)?;
    } else {
        let problems = chains.iter().map(|chain| chain.problem.as_str());
        let mut model = settings::reward_model(config, problems)?;
        written.started = Instant::now();
        scores::each(&mut *model, &chains, |chain, scores| {
            written.chain(chain, scores)
        })?;
    }
    written.sum_up(chains.len())
}

/// Scores the chains by completions.
fn complete(config: Config, chains: &[GivenChain], written: &mut Written) -> Result<(), Failure> {
    let problems: Vec<Problem> = chains.iter().cloned().map(Problem::from).collect();
    let mut solver = settings::solver(config, &[], ShowPlan::OwnModels, None)?;
    foreign::note(
        solver.has_bundled(),
        "chains",
        problems.iter().map(Problem::with_context),
    );
    written.started = Instant::now();
    let mut failed = None;
    solver.score_by_rollouts(&problems, |index, scores| {
        failed = written.chain(&chains[index], scores).err();
        match &failed {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    })?;
    lost::tell_of(&solver);
    failed.map_or(Ok(()), Err)
}

/// Refuses flags that only completions use.
fn refuse_idle(given: &Given) -> Result<(), Failure> {
    let idle = SETTINGS.iter().find(|setting| {
        let part = setting.part;
        given.has(setting.name) && !matches!(part, Part::Reward | Part::Engine)
    });
    match idle {
        None => Ok(()),
        Some(setting) => Err(Failure::Input(flagged(&format!(
            "`{0}` changes nothing here without --rollouts: add --rollouts, or leave `{0}` out",
            setting.name
        )))),
    }
}

/// The lines that were written, and what they say together.
struct Written {
    aggregation: Aggregation,
    started: Instant,
    steps: usize,
    refused: usize,
}

impl Written {
    fn chain(
        &mut self,
        chain: &GivenChain,
        scores: Result<Vec<f32>, impl Display>,
    ) -> Result<(), Failure> {
        let scores = scores.map_err(|error| error.to_string());
        match &scores {
            Ok(scores) => self.steps += scores.len(),
            Err(error) => {
                self.refused += 1;
                output::note(format_args!("beamgen: chain {}: {error}", chain.id));
            }
        }
        let known = scores.as_ref().ok();
        let line = Scored {
            id: &chain.id,
            scores: known.map(Vec::as_slice),
            score: known.and_then(|scores| self.aggregation.fold(scores.iter().copied())),
            error: scores.as_ref().err().cloned(),
        };
        let mut out = io::stdout().lock();
        output::json_line(&mut out, &line)?;
        // Each line is flushed, since another program may be waiting for the chain's scores.
        Ok(out.flush()?)
    }

    fn sum_up(&self, chains: usize) -> Result<(), Failure> {
        output::note(format_args!(
            "{} of {} scored in {:.1} s",
            counted(self.steps, "step", "steps"),
            counted(chains - self.refused, "chain", "chains"),
            self.started.elapsed().as_secs_f64()
        ));
        match self.refused {
            0 => Ok(()),
            refused => Err(Failure::Run(anyhow::anyhow!(
                "{} could not be scored: see the messages above",
                counted(refused, "chain", "chains")
            ))),
        }
    }
}
