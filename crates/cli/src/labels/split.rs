//! `beamgen labels split`.

use std::collections::BTreeSet;

use beamgen_labels::{LabelledChain, normalised, problems_of, split};

use super::inputs;
use super::write::Lines;
use crate::args::SplitArgs;
use crate::failure::{Failure, refuse};
use crate::output;
use crate::table::{counted, grouped};

pub(super) fn main(args: &SplitArgs) -> Result<(), Failure> {
    let (train, test) = (Lines::open(&args.train)?, Lines::open(&args.test)?);
    let chains = inputs::chains(inputs::read(&args.input)?);
    // Problems are compared in the normalised form that `split` uses when it leaves problems out.
    let here: BTreeSet<String> = chains.iter().map(|c| normalised(&c.problem)).collect();
    let mut exclude = BTreeSet::new();
    for path in &args.exclude {
        let found = problems_of(path)?;
        output::note(format_args!(
            "{}: {}, {} of them here",
            path.display(),
            counted(found.len(), "problem", "problems"),
            grouped(found.intersection(&here).count() as u64)
        ));
        exclude.extend(found);
    }
    let parts = split(&chains, args.share, args.seed, &exclude);
    if parts.train.is_empty() {
        return refuse(format!(
            "no chain is left for training; problems for the test: {}, excluded: {}",
            parts.problems[1], parts.problems[2]
        ));
    }
    let files: [(&str, &[usize], Option<Lines>); 3] = [
        ("train", &parts.train, Some(train)),
        ("test", &parts.test, Some(test)),
        ("taken out", &parts.excluded, None),
    ];
    for ((name, part, out), problems) in files.into_iter().zip(parts.problems) {
        if let Some(out) = out {
            let some = part
                .iter()
                .map(|&i: &usize| -> &LabelledChain { &chains[i] });
            out.write(some)?;
        }
        output::note(format_args!(
            "{name}: {} of {}",
            counted(part.len(), "chain", "chains"),
            counted(problems, "problem", "problems")
        ));
    }
    Ok(())
}
