//! Arguments of `beamgen annotate`.

use std::path::PathBuf;

use beamgen_labels::annotate::Order;
use clap::Args;

use super::by_name;

#[derive(Args, Debug)]
#[command(after_long_help = ANNOTATE)]
pub(crate) struct AnnotateArgs {
    /// Chains to rate, in any format that `beamgen labels` reads, with or without labels
    pub file: PathBuf,
    /// File that ratings are appended to; created if it does not exist
    ///
    /// Nothing in it is overwritten: a later call continues where the file ends, and several people
    /// may share a file.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Name of the person who rates
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub rater: String,
    /// Order of the chains: given, random, unsure, apart or convincing
    ///
    /// given: as in the file. random: shuffled by --seed. unsure: first chains with a step whose
    /// score is near one half. apart: first chains with a step on which score and rollouts differ.
    /// convincing: first chains with a wrong answer whose lowest score is high (PRM800K). Scores
    /// come from `labels judge`.
    #[arg(
        long,
        value_parser = by_name(Order::ALL.map(|order| (order.name(), order))),
        value_name = "ORDER",
        default_value = "given",
        hide_possible_values = true
    )]
    pub order: Order,
    /// Seed of --order random
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Rate all steps; without this flag a chain is done at its first wrong step
    #[arg(long)]
    pub through: bool,
    /// Rate in the terminal instead of on a page
    #[arg(long)]
    pub terminal: bool,
}

const ANNOTATE: &str = "\
Examples:
  beamgen annotate chains.jsonl --out rated.jsonl --rater anna
      an address of this machine to open in a browser
  beamgen annotate judged.jsonl --out rated.jsonl --rater ben --order unsure
  beamgen annotate chains.jsonl --out rated.jsonl --rater ben --terminal
  beamgen labels stat rated.jsonl
      counts, and how far the raters agree
  beamgen train prm --from DIR --data rated.jsonl --rule rating --out my-prm
      by ratings only, whatever other labels the chains have

Keys: 1 right, 0 neutral, - wrong (as in PRM800K), u undoes the last action of this call, c comments; up and \
down select a step, left and right a chain. In the terminal, s toggles stopping at first wrong steps, and q \
quits. If standard input is not a terminal, each of its lines is a key (up, down, left, right; c TEXT). \
The page is served on 127.0.0.1 under an address that contains a secret. It shows the problem, the steps and, on \
demand, the reference answer; no scores and no ratings of other people.

FILE of --out has each chain once, with its facts, and then a line for each rating: \
{\"chain\": ..., \"step\": 0, \"rater\": \"anna\", \"rating\": 1}. All commands that read labelled chains read it. If raters \
disagree, the majority's rating counts; --rule rating=NAME uses one rater's.";

fn name(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.is_empty() {
        return Err("the name is empty: write the rater's name".to_owned());
    }
    Ok(name.to_owned())
}
