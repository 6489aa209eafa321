//! Arguments of `beamgen annotate`.

use std::path::PathBuf;

use beamgen_labels::annotate::Order;
use clap::Args;

use super::by_name;

#[derive(Args, Debug)]
#[command(after_long_help = ANNOTATE)]
pub(crate) struct AnnotateArgs {
    /// Chains to rate, in any format that `beamgen labels` reads; labels need not be there
    pub file: PathBuf,
    /// The file that every rating is appended to; it is made if it is not there
    ///
    /// Nothing in it is written over: a later call continues where the file ends, and several people
    /// may share one.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The name of the person who rates
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub rater: String,
    /// Which chains come first: given, random, unsure, apart or convincing
    ///
    /// given: as in the file. random: drawn by --seed. unsure: those with a step whose score is near
    /// one half. apart: those with a step on which score and rollouts differ. convincing: those with a
    /// wrong answer whose lowest score is high (PRM800K). Scores are those of `labels judge`.
    #[arg(
        long,
        value_parser = by_name(Order::ALL.map(|order| (order.name(), order))),
        value_name = "ORDER",
        default_value = "given",
        hide_possible_values = true
    )]
    pub order: Order,
    /// The seed of --order random
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Rate all steps; without it a chain is done at its first wrong step
    #[arg(long)]
    pub through: bool,
    /// Rate in the terminal, not on a page
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
      by ratings alone, whatever else the chains have

Keys: 1 right, 0 neutral, - wrong (as in PRM800K), u undoes what this call did, c comments, up and down move among steps, \
left and right among chains; in the terminal s stops at first errors or not, and q quits. Where standard input is no \
terminal, each of its lines is a key (up, down, left, right; c TEXT). The page is served on 127.0.0.1 under an address that holds a secret, and shows the problem, the reference \
answer on demand, and the steps: no score, and nobody else's ratings.

FILE of --out has each chain once, with its facts, and then a line for each rating: \
{\"chain\": ..., \"step\": 0, \"rater\": \"anna\", \"rating\": 1}. All commands that read labelled chains read it. Where people \
differ, the rating that most gave counts; --rule rating=NAME asks one.";

fn name(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.is_empty() {
        return Err("write a name".to_owned());
    }
    Ok(name.to_owned())
}
