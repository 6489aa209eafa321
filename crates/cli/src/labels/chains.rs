//! `beamgen labels chains`: writes chains without their labels and other facts, for people to rate.

use beamgen_labels::{LabelledChain, LabelledStep};

use super::inputs;
use super::write::Lines;
use crate::args::ChainsArgs;
use crate::failure::Failure;
use crate::output;
use crate::table::counted;

pub(super) fn main(args: &ChainsArgs) -> Result<(), Failure> {
    let out = Lines::open(&args.out)?;
    let chains = inputs::chains(inputs::read(&args.input)?);
    // The fields to keep are listed, so that a field added to chains later is left out.
    let bare = chains.iter().map(|chain| LabelledChain {
        id: chain.id.clone(),
        problem: chain.problem.clone(),
        steps: (chain.steps.iter())
            .map(|step| LabelledStep::unlabelled(step.text.clone()))
            .collect(),
        ..LabelledChain::default()
    });
    out.write(bare)?;
    output::note(format_args!(
        "{} written to {}",
        counted(chains.len(), "chain", "chains"),
        args.out.display()
    ));
    Ok(())
}
