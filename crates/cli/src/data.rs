//! Finds and reads the data of a command, with notes and the progress of downloads.

use std::path::Path;

use beamgen::eval::{DataSource, NamedKeys, Problems, Wanted};
use beamgen::hub::DataSetPart;

use crate::args::{DataFlags, PartFlags};
use crate::download::{self, Display};
use crate::failure::Failure;
use crate::output;

/// Finds the file or the data set `given`.
pub(crate) fn source(given: &Path, part: &PartFlags, offline: bool) -> Result<DataSource, Failure> {
    let part = DataSetPart {
        subset: part.subset.clone(),
        split: part.split.clone(),
    };
    let (mut display, name) = (Display::new(), given.display().to_string());
    let found = beamgen::find_data(given, &part, || download::hub(offline), &mut |progress| {
        display.show(&name, progress);
    })?;
    for note in found.notes {
        output::note(format_args!("note: {note}"));
    }
    Ok(found.source)
}

/// Finds all files or data sets of a command.
pub(crate) fn sources(
    given: &[impl AsRef<Path>],
    part: &PartFlags,
    offline: bool,
) -> Result<Vec<DataSource>, Failure> {
    let given = given.iter();
    given
        .map(|given| source(given.as_ref(), part, offline))
        .collect()
}

/// Reads the wanted problems by the keys of the flags.
pub(crate) fn problems(
    source: DataSource,
    flags: &DataFlags,
    wanted: Wanted,
) -> Result<Problems, Failure> {
    let keys = NamedKeys {
        problem: flags.problem_key.clone(),
        answer: flags.answer_key.clone(),
        solution: flags.solution_key.clone(),
    };
    Ok(Problems::open_with(source, &keys, wanted)?)
}
