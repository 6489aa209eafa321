//! Compares the answers of run files with those of a reference: what `beamgen monitor` prints.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use beamgen::eval::calibrate::Calibration;
use beamgen::eval::profile::{Drift, FLAGS, Profile, QUANTITIES};
use beamgen::eval::{Record, RunFile};
use beamgen::program::search_name;
use serde::Serialize;

use crate::{Error, calibrate};

/// The answers of some searches beside those of a reference.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The number of searches in the reference.
    pub reference_searches: u64,
    /// The number of searches in the run files.
    pub searches: u64,
    /// A row for each quantity and each flag of a [`Profile`].
    pub rows: Vec<Row>,
}

/// A quantity or a flag of the searches.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name, as in `/metrics` of a server.
    pub name: &'static str,
    /// The meaning in a few words.
    pub help: &'static str,
    /// Whether the row is a flag, whose means are shares of the searches.
    pub is_flag: bool,
    /// The mean in the reference; `None` if no search there has a value.
    pub before: Option<f64>,
    /// The mean in the run files; `None` if no search has a value.
    pub now: Option<f64>,
    /// The distance of the distributions; `None` if one of them has fewer than [`Drift::LEAST`] values.
    pub drift: Option<Drift>,
}

impl Report {
    /// Reads a reference and run files. The reference is a calibration with the profile of the runs' search, or of
    /// another search if it has none of this one; or a run file.
    ///
    /// # Errors
    /// A file cannot be read, there are no run files, or the calibration has no profile.
    pub fn read(reference: &Path, runs: &[PathBuf]) -> Result<Self, Error> {
        let mut now = Profile::default();
        let mut search = None;
        for path in runs {
            let (of_file, profile) = run(path)?;
            search = search.or(of_file);
            now.merge(&profile);
        }
        let before = match calibrate::read(reference) {
            Ok(calibration) => of_calibration(&calibration, search.as_deref())
                .cloned()
                .ok_or_else(|| {
                    Error::reading(reference)(
                        "has no profile of searches: make it with `beamgen calibrate --runs`",
                    )
                })?,
            Err(_) => run(reference)?.1,
        };
        Ok(Self::of(&before, &now))
    }

    /// Compares two profiles.
    #[must_use]
    pub fn of(before: &Profile, now: &Profile) -> Self {
        let drifts = now.drift_from(before);
        let drift = |name: &str| drifts.iter().find(|drift| drift.name == name).copied();
        let quantities = QUANTITIES.iter().map(|quantity| Row {
            name: quantity.name,
            help: quantity.help,
            is_flag: false,
            before: before.mean(quantity),
            now: now.mean(quantity),
            drift: drift(quantity.name),
        });
        let flags = FLAGS.iter().map(|flag| Row {
            name: flag.name,
            help: flag.help,
            is_flag: true,
            before: Some(before.share(flag)),
            now: Some(now.share(flag)),
            drift: drift(flag.name),
        });
        Self {
            reference_searches: before.searches,
            searches: now.searches,
            rows: quantities.chain(flags).collect(),
        }
    }

    /// Iterates over the names of the rows whose drift exceeds a bound.
    pub fn alarms(&self) -> impl Iterator<Item = &'static str> {
        let drifted = |row: &&Row| row.drift.is_some_and(|drift| drift.is_alarm());
        self.rows.iter().filter(drifted).map(|row| row.name)
    }
}

/// Returns the profile of the search, or of the last search that has one.
fn of_calibration<'c>(calibration: &'c Calibration, search: Option<&str>) -> Option<&'c Profile> {
    let curves = calibration.answers.iter().rev();
    let mut own = curves
        .clone()
        .filter(|curve| Some(curve.search.as_str()) == search);
    let mut any = curves;
    own.find_map(|curve| curve.profile.as_ref())
        .or_else(|| any.find_map(|curve| curve.profile.as_ref()))
}

/// Reads a run file: the key of its search, if it has a header, and the profile of its records.
fn run(path: &Path) -> Result<(Option<String>, Profile), Error> {
    let (header, records) = RunFile::read::<Record>(path)?;
    let mut profile = Profile::default();
    let mut seen = HashSet::new();
    // A problem that was tried again has several lines, of which the last counts.
    for record in records.iter().rev() {
        if seen.insert(record.id.as_str()) {
            profile.add(record);
        }
    }
    Ok((header.map(|header| search_name(&header.settings)), profile))
}
