//! The store of a bench's raw rows, in memory or in the results folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use beamgen::eval::{RunFile, RunHeader};
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::row::Row;
use crate::Error;
use crate::report::create_folder;
pub(super) use crate::report::folder::ROWS;

/// A line of the file of rows.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// The inputs that the rows of a set and a cell depend on; written before the first of these
    /// rows.
    Cell {
        set: String,
        cell: String,
        identity: Box<RunHeader>,
    },
    Row(Box<Row>),
}

/// The key of a series of searches: set, cell and seed.
type Series = (String, String, u64);

/// The destination of rows, and an index of the rows that exist.
#[derive(Debug, Default)]
pub(super) struct Store {
    file: Option<(PathBuf, RunFile)>,
    /// The rows, if they are not written to a file.
    rows: Vec<Row>,
    identities: BTreeMap<(String, String), RunHeader>,
    done: BTreeMap<Series, BTreeSet<String>>,
    /// The number of uninterrupted stretches so far.
    parts: BTreeMap<Series, u32>,
}

impl Store {
    /// Makes a store in memory.
    pub(super) fn in_memory() -> Self {
        Self::default()
    }

    /// Makes a store in a folder. A folder with rows is continued if `resume` is set, and refused
    /// otherwise.
    ///
    /// # Errors
    /// The folder cannot be made, or its rows cannot be used.
    pub(super) fn in_folder(folder: &Path, resume: bool) -> Result<Self, Error> {
        create_folder(folder)?;
        let path = folder.join(ROWS);
        let header = header();
        let (file, lines) = if resume {
            RunFile::resume::<Line>(&path, &header)?
        } else {
            (RunFile::create(&path, &header)?, Vec::new())
        };
        let mut store = Self {
            file: Some((path, file)),
            ..Self::default()
        };
        for line in lines {
            match line {
                Line::Cell {
                    set,
                    cell,
                    identity,
                } => {
                    store.identities.insert((set, cell), *identity);
                }
                // Only the index stays in memory; `finish` reads the rows again.
                Line::Row(row) => store.note(&row),
            }
        }
        Ok(store)
    }

    fn note(&mut self, row: &Row) {
        let series = series(row);
        let parts = self.parts.entry(series.clone()).or_default();
        // Rows need not be in order, so the largest number counts.
        *parts = (*parts).max(row.part + 1);
        self.done.entry(series).or_default().insert(row.id.clone());
    }

    /// Checks that existing rows of a cell were made under the same settings, from the same
    /// problems.
    pub(super) fn check(&self, set: &str, cell: &str, identity: &RunHeader) -> Result<(), Error> {
        let there = self.identities.get(&(set.to_owned(), cell.to_owned()));
        let Some((path, _)) = &self.file else {
            return Ok(());
        };
        // A cell that is new to the file has nothing to contradict.
        match there.and_then(|there| identity.difference(there)) {
            None => Ok(()),
            Some((field, there, here)) => Err(Error::OtherSettings {
                path: path.clone(),
                cell: format!("set \"{set}\", {cell}"),
                difference: format!("field \"{field}\": the rows have {there}, this call {here}"),
            }),
        }
    }

    /// Writes the inputs of a cell, unless the file has them already.
    pub(super) fn begin(
        &mut self,
        set: &str,
        cell: &str,
        identity: &RunHeader,
    ) -> Result<(), Error> {
        let key = (set.to_owned(), cell.to_owned());
        if self.identities.contains_key(&key) {
            return Ok(());
        }
        if let Some((_, file)) = &mut self.file {
            file.append(&Line::Cell {
                set: key.0.clone(),
                cell: key.1.clone(),
                identity: Box::new(identity.clone()),
            })?;
        }
        self.identities.insert(key, identity.clone());
        Ok(())
    }

    pub(super) fn has(&self, set: &str, cell: &str, seed: u64, id: &str) -> bool {
        let series = (set.to_owned(), cell.to_owned(), seed);
        self.done.get(&series).is_some_and(|ids| ids.contains(id))
    }

    /// Returns the number of the stretch that begins now.
    pub(super) fn next_part(&self, set: &str, cell: &str, seed: u64) -> u32 {
        let series = (set.to_owned(), cell.to_owned(), seed);
        self.parts.get(&series).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, row: Row) -> Result<(), Error> {
        self.note(&row);
        if let Some((_, file)) = &mut self.file {
            Ok(file.append(&Line::Row(Box::new(row)))?)
        } else {
            self.rows.push(row);
            Ok(())
        }
    }

    /// Returns all rows. The rows of a folder are read back, so that a report depends only on
    /// files.
    ///
    /// # Errors
    /// The rows cannot be written or read.
    pub(super) fn finish(self) -> Result<Vec<Row>, Error> {
        match self.file {
            Some((path, file)) => {
                file.finish()?;
                read(&path)
            }
            None => Ok(self.rows),
        }
    }
}

/// Reads the rows of a folder.
pub(super) fn read(path: &Path) -> Result<Vec<Row>, Error> {
    let (_, lines) = RunFile::read::<Line>(path)?;
    Ok(lines
        .into_iter()
        .filter_map(|line| match line {
            Line::Row(row) => Some(*row),
            Line::Cell { .. } => None,
        })
        .collect())
}

/// Makes the header of the file. It names no settings: each cell has its own, so that a bench can
/// be continued with more cells.
fn header() -> RunHeader {
    RunHeader::new("see the lines \"cell\"".to_owned(), Map::new())
}

fn series(row: &Row) -> Series {
    (row.set.clone(), format!("{}@{}", row.run, row.n), row.seed)
}
