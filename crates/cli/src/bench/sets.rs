//! The problem sets of a bench.

use std::path::Path;

use beamgen::Problem;
use beamgen::eval::Problems;
use beamgen_measure::bench::{SetOutline, UNFIT_NAME, is_fit_name};
use beamgen_measure::slug;
use beamgen_world::Split;

use super::file::{BenchFile, SetEntry};
use crate::args::{DataFlags, PartFlags, ProblemsArgs};
use crate::failure::Failure;
use crate::{problems, settings};

/// The maximum number of sampled problems in a set: all of them are in memory.
const MOST_DRAWN: usize = 1_000_000;

/// Reads or samples the sets of a bench file. Of each set, the first `limit` problems are used. A
/// file without sets has one set: the problems of `given`, or the bundled sample.
pub(super) fn load(
    file: &BenchFile,
    given: Option<&Path>,
    data: &DataFlags,
    offline: bool,
    limit: Option<usize>,
) -> Result<(Vec<SetOutline>, Vec<Problems>), Failure> {
    let (mut outlines, mut all) = (Vec::new(), Vec::new());
    if file.written.sets.is_empty() {
        let (problems, count) = settings::problems(given, data, offline, limit)?;
        outlines.push(SetOutline::of_file(None, &problems, count));
        all.push(problems);
    }
    for set in &file.written.sets {
        let name = set.name.get_ref();
        let fault = |reason: &str| file.fault(&set.name, format!("set \"{name}\": {reason}"));
        let others = outlines.iter().map(|there: &SetOutline| &there.name);
        check_name(name, others).map_err(fault)?;
        let (source, problems) = match (&set.file, set.count) {
            (Some(path), None) if !names_the_world(set) => {
                let data = DataFlags {
                    part: PartFlags {
                        subset: set.subset.clone(),
                        split: set.split.clone(),
                    },
                    ..data.clone()
                };
                // A path that exists wins; others may be names of data sets.
                let local = file.folder().join(path);
                let given = if local.exists() { &local } else { path };
                let (problems, _) = settings::problems(Some(given), &data, offline, limit)?;
                (path.display().to_string(), problems)
            }
            (None, Some(count)) if (1..=MOST_DRAWN).contains(&count) => {
                drawn(set, count).map_err(|failure| fault(&failure.to_string()))?
            }
            (None, Some(count)) => {
                return Err(fault(&format!("count = {count}: use 1 to {MOST_DRAWN}")));
            }
            _ => {
                let reason = "needs either `file`, or `count` for problems of the bundled world";
                return Err(fault(reason));
            }
        };
        let count = limit.unwrap_or(usize::MAX).min(problems.problems.len());
        outlines.push(SetOutline::new(name, &source, &problems, count));
        all.push(problems);
    }
    Ok((outlines, all))
}

/// Refuses a name that cannot be part of a file name, or whose plot would overwrite another one's.
pub(super) fn check_name<'a>(
    name: &str,
    mut others: impl Iterator<Item = &'a String>,
) -> Result<(), &'static str> {
    if slug(name).is_empty() || others.any(|other| slug(other) == slug(name)) {
        return Err(
            "the name has no letter or digit, or is too much like another: use another name",
        );
    }
    is_fit_name(name).then_some(()).ok_or(UNFIT_NAME)
}

fn names_the_world(set: &SetEntry) -> bool {
    let people = set
        .min_people
        .or(set.max_people)
        .or(set.dependency_distance);
    people.is_some() || set.seed.is_some()
}

/// Samples held-out problems of the bundled world. `beamgen problems` gives the same ones for the
/// same numbers.
fn drawn(set: &SetEntry, count: usize) -> Result<(String, Problems), Failure> {
    let args = ProblemsArgs {
        steps: false,
        solutions: false,
        twins: false,
        count,
        seed: set.seed.unwrap_or(1),
        split: Split::Test,
        min_people: set.min_people.unwrap_or(3),
        max_people: set.max_people.unwrap_or(7),
        dependency_distance: set.dependency_distance.unwrap_or(1),
    };
    let problems: Vec<Problem> = problems::generate(&args)?.collect();
    // The source is a command, so that readers of a report can create the same problems.
    let mut source = format!(
        "beamgen problems --count {count} --seed {} --min-people {} --max-people {}",
        args.seed, args.min_people, args.max_people
    );
    if args.dependency_distance != 1 {
        source.push_str(&format!(
            " --dependency-distance {}",
            args.dependency_distance
        ));
    }
    Ok((source.clone(), Problems::made(source, problems)))
}
