//! `beamgen eval-prm --partial`: what the scores of unfinished steps say.

use std::io::{self, Write};

use beamgen_labels::Neutral;
use beamgen_measure::eval_prm::{self, Partial, PartialRow};

use crate::args::EvalPrmArgs;
use crate::failure::Failure;
use crate::output;
use crate::printable;
use crate::settings;
use crate::table::{Table, grouped, percent};
use crate::watch::Shown;

pub(crate) fn main(args: &EvalPrmArgs) -> Result<(), Failure> {
    let config = settings::prm_config(&args.prm)?;
    let rule = args.labels.rule(Neutral::Positive);
    let sets = eval_prm::open(&super::sources(args)?, args.limit, &rule)?;
    let problems = sets.iter().flat_map(|set| &set.chains);
    let problems = problems.map(|chain| chain.problem.as_str());
    let mut model = settings::reward_model(config, problems)?;
    let found = eval_prm::partial(&mut *model, &sets, &mut Shown::default())?;
    let mut out = io::stdout().lock();
    for set in &found {
        if args.json {
            output::json_line(&mut out, set)?;
        } else {
            print(&mut out, set)?;
        }
    }
    Ok(out.flush()?)
}

fn print(out: &mut dyn Write, set: &Partial) -> io::Result<()> {
    writeln!(out, "{}\n", printable::line(&set.set))?;
    let mut table = Table::new(&[
        "read",
        "steps",
        "correlation",
        "rank correlation",
        "area",
        "area of whole steps",
    ]);
    for row in &set.at_share {
        table.row(cells(format!("{:.0} % of the step", 100.0 * row.read), row));
    }
    for row in &set.after_words {
        let words = if row.read == 1.0 { "word" } else { "words" };
        table.row(cells(format!("{} {words}", row.read), row));
    }
    table.write(out)?;
    writeln!(
        out,
        "\n  correlation: of the score with that of the whole step; area: under the ROC curve for the step's label.\n"
    )
}

fn cells(read: String, row: &PartialRow) -> Vec<String> {
    let number =
        |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.3}"));
    vec![
        read,
        grouped(row.steps as u64),
        number(row.correlation),
        number(row.rank_correlation),
        row.area.map_or("-".to_owned(), percent),
        row.whole_area.map_or("-".to_owned(), percent),
    ]
}
