//! `beamgen labels`: converts, counts, splits and judges labelled chains in any known format.

mod chains;
mod convert;
pub(crate) mod inputs;
mod judge;
mod split;
mod stat;
mod write;

use crate::args::LabelsCommand;
use crate::failure::Failure;

pub(crate) fn main(command: &LabelsCommand) -> Result<(), Failure> {
    match command {
        LabelsCommand::Convert(args) => convert::main(args),
        LabelsCommand::Stat(args) => stat::main(args),
        LabelsCommand::Judge(args) => judge::main(args),
        LabelsCommand::Chains(args) => chains::main(args),
        LabelsCommand::Split(args) => split::main(args),
    }
}
