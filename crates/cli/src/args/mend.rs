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
    /// Take the first K answers only
    #[arg(long, value_name = "K")]
    pub limit: Option<usize>,
    /// Write a JSON line for each answer to this file, and differences to stdout
    ///
    /// Without it the JSON lines go to stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_long_help = REFINE)]
pub(crate) struct RefineArgs {
    #[command(flatten)]
    pub answers: AnswersFlags,
    /// Write each answer again K times, and keep what scores best
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub rounds: usize,
    /// Write again from the first step that scores less than X, and not at all if there is none
    ///
    /// Without it, from the step with the lowest score.
    #[arg(long, value_name = "X")]
    pub below: Option<f32>,
}

#[derive(Args, Debug)]
#[command(after_long_help = GUARD)]
pub(crate) struct GuardArgs {
    #[command(flatten)]
    pub answers: AnswersFlags,
    /// An answer that scores less than X is unsure
    #[arg(long, value_name = "X", default_value_t = 0.5)]
    pub bound: f32,
    /// Solve the problem K times for a vote; 0 asks for none
    #[arg(long, value_name = "K", default_value_t = 8)]
    pub samples: usize,
    /// Write an answer again up to K times before it is withheld
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub rounds: usize,
}

const REFINE: &str = "\
Examples:
  beamgen refine chains.jsonl --out refined.jsonl
      each answer is scored, and written again from its weakest step by a beam
  beamgen refine answers.jsonl --below 0.5 --rounds 3 --strategy best-of-n --n 8 --out refined.jsonl

A line of FILE is a chain in any format of `beamgen score`, or {\"problem\": \"...\", \"response\": \"...\"}: a whole \
answer, which is cut into steps where a chain of these settings is. The steps before the weakest one are kept, \
and the strategy of the settings goes on from them. The new chain takes the answer's place if its aggregated \
score is higher, or if only it comes to an end. A line of output has `before` and `after` (steps, scores, answer), `rounds`, and \
`difference`: steps that were kept, that went (-) and that came (+), with their scores.";

const GUARD: &str = "\
Examples:
  beamgen guard answers.jsonl --out guarded.jsonl
  beamgen guard answers.jsonl --bound 0.8 --samples 16 --rounds 0
      accept or withhold, and mend nothing

Input as for `beamgen refine`. `verdict` is accept, mend (`mended` is a chain in which nothing is found) or \
withhold. `reasons` have a code each: unsure (its score is below --bound), split-vote (--samples new \
chains, each with its score as its vote, are for another answer), unsound (a built-in checker proves a step wrong), unfinished (it states no \
answer), unlike-training (the bundled models do not know such problems; nothing is sampled then).";
