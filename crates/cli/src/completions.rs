//! `beamgen completions`: completions for shells, from the definition of commands and flags.

use crate::args::{self, CompletionsArgs};
use crate::failure::Failure;
use crate::output;

pub(crate) fn main(args: &CompletionsArgs) -> Result<(), Failure> {
    // Into memory first: the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "beamgen", &mut script);
    Ok(output::bytes(&script)?)
}
