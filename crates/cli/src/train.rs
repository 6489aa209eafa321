//! `beamgen train`: fine-tunes a checkpoint, or trains the bundled models from scratch.

mod abacus;
mod adapt;
mod display;
mod numbers;
mod refresh;
mod rl;
mod stages;
mod tune;

use std::path::Path;

use beamgen::bundled;
use beamgen::models::Checkpoint;
use beamgen::program::is_word;
use beamgen_train::Error;
use beamgen_train::tune::labelled::Target;

use crate::args::{TrainArgs, TrainCommand};
use crate::failure::{Failure, refuse};

pub(crate) use adapt::main as adapt;

pub(crate) fn main(args: &TrainArgs) -> Result<(), Failure> {
    match &args.command {
        Some(TrainCommand::Sft(args)) => tune::sft(args),
        Some(TrainCommand::Prm(args)) => tune::reward(args, Target::Process),
        Some(TrainCommand::Orm(args)) => tune::reward(args, Target::Outcome),
        Some(TrainCommand::Rl(args)) => rl::main(args),
        Some(TrainCommand::Abacus(args)) => abacus::main(args),
        None => refuse(
            "no training is named: use beamgen train sft: a generator on solutions, from a checkpoint; \
             beamgen train prm or orm: a reward model on labelled chains; \
             beamgen train rl: a generator by what its own chains earn; \
             beamgen train abacus: the bundled models, from scratch",
        ),
    }
}

/// Returns the checkpoint with this name: `bundled` for the bundled generator, or else a path.
fn checkpoint(from: &Path) -> Checkpoint {
    if is_word(Some(from), "bundled") {
        bundled::generator()
    } else {
        Checkpoint::from(from)
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::EarlierRun(folder) => Failure::Input(format!(
            "{}: has an earlier run: add --resume to continue it, or delete the folder",
            folder.display()
        )),
        error if error.is_input() => Failure::Input(error.to_string()),
        error => Failure::Run(error.into()),
    }
}
