//! `beamgen labels convert`.

use std::collections::BTreeMap;

use beamgen_labels::{Format, LabelRule, LabelledChain};

use super::inputs;
use super::write::Lines;
use crate::args::ConvertArgs;
use crate::failure::{Failure, refuse};
use crate::output;
use crate::table::{counted, grouped};

pub(super) fn main(args: &ConvertArgs) -> Result<(), Failure> {
    let own = std::ptr::eq(args.to, Format::own());
    if own && args.rule.given() {
        return refuse(
            "--to beamgen writes raw facts, so flags on labels change nothing: give --rule, --neutral, --rollout-label \
             and --first-error-only to the command that uses the labels, or write another format",
        );
    }
    let out = Lines::open(&args.out)?;
    let chains = inputs::chains(inputs::read(&args.input)?);
    let rule = args.rule.rule(LabelRule::default().neutral);
    let mut written = 0;
    let mut left_out: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let records = args.to.export(&chains, &rule).into_iter().flatten();
    let records = records.enumerate().filter_map(|(i, record)| match record {
        Ok(record) => {
            written += 1;
            Some(record)
        }
        Err(reason) => {
            left_out
                .entry(reason.what.clone())
                .or_insert_with(|| (0, format!("chain {}: {reason}", i + 1)))
                .0 += 1;
            None
        }
    });
    let mut records = records.peekable();
    // If no chain can be converted, an existing file must not be replaced by an empty one.
    if records.peek().is_some() {
        out.write(records)?;
    } else {
        // The iterator borrows `written` and `left_out`, which are read below.
        drop(records);
    }
    for (count, first) in left_out.values() {
        let chains = counted(*count, "chain", "chains");
        output::note(format_args!("left out {chains}; the first: {first}"));
    }
    if written == 0 {
        return refuse(format!(
            "none of the chains can be written as {}: see the reasons above, or use another --to",
            args.to.name
        ));
    }
    if args.to.name == "trl" && soft(&chains, &rule) {
        output::note(
            "note: some labels are between 0 and 1, which TRL's trainer truncates to 0 (`int(label)`): use hard labels",
        );
    }
    output::note(format_args!(
        "{} of {} chains written as {} to {}",
        grouped(written),
        grouped(chains.len() as u64),
        args.to.name,
        args.out.display()
    ));
    Ok(())
}

fn soft(chains: &[LabelledChain], rule: &LabelRule) -> bool {
    chains.iter().any(|chain| {
        let labels = rule.labels(chain);
        labels
            .iter()
            .flatten()
            .any(|&label| label > 0.0 && label < 1.0)
    })
}
