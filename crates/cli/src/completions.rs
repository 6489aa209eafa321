//! `beamgen completions`: writes a completion script, made from the definition of the flags.

use crate::args::{self, CompletionsArgs};
use crate::failure::Failure;
use crate::output;

pub(crate) fn main(args: &CompletionsArgs) -> Result<(), Failure> {
    // `generate` panics if a write fails, as on a closed pipe, so the script goes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "beamgen", &mut script);
    Ok(output::bytes(&script)?)
}
