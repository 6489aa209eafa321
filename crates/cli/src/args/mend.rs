//! Arguments of `beamgen refine` and `beamgen guard`.

use std::path::PathBuf;

use clap::Args;

use super::SearchFlags;

#[derive(Args, Debug)]
pub(crate) struct AnswersFlags {
    /// Answers, one JSON object a line; `-` is stdin
    #[arg(help_heading = None::<&str>)]
    pub file: PathBuf,
    #[command(flatten)]
    pub settings: SearchFlags,
    /// Read the first K answers only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Write a JSON line for each answer to this file, and differences to stdout
    ///
    /// Without this flag the JSON lines go to stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_long_help = REFINE)]
pub(crate) struct RefineArgs {
    #[command(flatten)]
    pub answers: AnswersFlags,
    /// Rewrite each answer K times, and keep the one with the highest score
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub rounds: usize,
    /// Rewrite from the first step that scores less than X; answers without such a step are kept
    ///
    /// Without this flag, rewrite from the step with the lowest score.
    #[arg(long, value_name = "X")]
    pub below: Option<f32>,
}

#[derive(Args, Debug)]
#[command(after_long_help = GUARD)]
pub(crate) struct GuardArgs {
    #[command(flatten)]
    pub answers: AnswersFlags,
    /// Count an answer as unsure if it scores less than X, from 0 to 1
    #[arg(long, value_name = "X", default_value_t = 0.5)]
    pub bound: f32,
    /// Solve the problem K times for a vote; 0 holds no vote
    #[arg(long, value_name = "K", default_value_t = 8)]
    pub samples: usize,
    /// Rewrite an answer up to K times before it is withheld
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub rounds: usize,
}

const REFINE: &str = "\
Examples:
  beamgen refine chains.jsonl --out refined.jsonl
      score each answer, and rewrite it from its weakest step by a beam
  beamgen refine answers.jsonl --below 0.5 --rounds 3 --strategy best-of-n --n 8 --out refined.jsonl

A line of FILE is a chain in any format of `beamgen score`, or {\"problem\": \"...\", \"response\": \"...\"}: a whole \
answer, which is split into steps by the settings of the generator. The steps before the weakest one are kept, \
and the strategy continues from them. The new chain replaces the answer if its aggregated score is higher, or \
if only the new chain is finished. A line of output has `before` and `after` (steps, scores, answer), `rounds`, and \
`difference`: the steps kept, removed (-) and added (+), with their scores.";

const GUARD: &str = "\
Examples:
  beamgen guard answers.jsonl --out guarded.jsonl
  beamgen guard answers.jsonl --bound 0.8 --samples 16 --rounds 0
      accept or withhold; rewrite nothing

Input as for `beamgen refine`. `verdict` is accept, mend (`mended` is a rewritten chain without findings) or \
withhold. Each of `reasons` has a code: unsure (the score is below --bound), split-vote (--samples new chains, \
weighted by their scores, vote for another answer), unsound (a built-in checker proves a step wrong), \
unfinished (no answer is stated), unlike-training (the bundled models were not trained on such problems; \
nothing is sampled then).";
