//! Reads the chains in a command's files, and reports records that were rejected.

use std::collections::{BTreeMap, BTreeSet};

use beamgen_labels::{Labelled, LabelledChain, Rejected, open};
use serde_json::json;

use super::write::Lines;
use crate::args::InputFlags;
use crate::failure::{Failure, refuse};
use crate::{data, output};

/// The number of rejected records per file that are printed.
const SHOWN: usize = 10;

/// Reads all files, and keeps the chains of the levels in `flags`. Prints the first rejected
/// records of each file, and writes all of them to the file of `--rejected`. With `--alternatives`,
/// alternatives of steps become chains of their own.
pub(crate) fn read(flags: &InputFlags) -> Result<Vec<Labelled>, Failure> {
    let rejected = flags.rejected.as_deref().map(Lines::open).transpose()?;
    let mut inputs = Vec::new();
    for source in data::sources(&flags.files, &flags.part, false)? {
        let mut input = open(source, flags.from)?;
        if !flags.level.is_empty() {
            input.chains = of_levels(input.chains, &flags.level, &input.source)?;
        }
        if flags.alternatives {
            let apart = input.chains.iter();
            input.chains = apart.flat_map(LabelledChain::with_alternatives).collect();
        }
        say_rejected(&input, rejected.is_some());
        inputs.push(input);
    }
    if let Some(rejected) = rejected {
        write_rejected(rejected, &inputs)?;
    }
    Ok(inputs)
}

/// Keeps the chains of the given levels. A level that no chain has is an error.
fn of_levels(
    chains: Vec<LabelledChain>,
    levels: &[String],
    source: &str,
) -> Result<Vec<LabelledChain>, Failure> {
    let named: BTreeSet<&String> = chains.iter().filter_map(|c| c.level.as_ref()).collect();
    if let Some(unknown) = levels.iter().find(|level| !named.contains(level)) {
        // A source may use the field for something else, such as ids, so an error lists at most 12
        // values.
        let some: Vec<&str> = named.iter().take(12).map(|name| name.as_str()).collect();
        return refuse(format!(
            "--level {unknown}: no chain of {source} has this level: {}",
            if some.is_empty() {
                "the file has no levels, so leave --level out".to_owned()
            } else {
                format!("use one of {}", some.join(", "))
            }
        ));
    }
    let kept = chains.into_iter().filter(|chain| {
        let level = chain.level.as_ref();
        level.is_some_and(|level| levels.contains(level))
    });
    Ok(kept.collect())
}

pub(crate) fn chains(inputs: Vec<Labelled>) -> Vec<LabelledChain> {
    inputs.into_iter().flat_map(|input| input.chains).collect()
}

fn say_rejected(input: &Labelled, all_are_written: bool) {
    let source = &input.source;
    for one in input.rejected.iter().take(SHOWN) {
        output::note(format_args!(
            "{source}: {}: rejected: {}",
            one.place, one.reason
        ));
    }
    if input.rejected.len() <= SHOWN {
        return;
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &input.rejected {
        *reasons.entry(&one.reason.what).or_default() += 1;
    }
    for (reason, count) in reasons {
        output::note(format_args!("{source}: {count} rejected: {reason}"));
    }
    if !all_are_written {
        output::note(format_args!(
            "{source}: {SHOWN} of {} rejected records are shown; --rejected FILE writes all",
            input.rejected.len()
        ));
    }
}

fn write_rejected(out: Lines, inputs: &[Labelled]) -> Result<(), Failure> {
    let each = inputs.iter().flat_map(|input| {
        let line = |one: &Rejected| {
            json!({
                "file": input.source,
                "place": one.place.to_string(),
                "reason": one.reason.what,
                "detail": one.reason.detail,
            })
        };
        input.rejected.iter().map(line)
    });
    out.write(each)
}
