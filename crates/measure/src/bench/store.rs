//! The store of a bench's raw rows: in memory, or in a file of the results folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use beamgen::eval::{RunFile, RunHeader};
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::row::Row;
use crate::Error;
use crate::report::create_folder;
pub(super) use crate::report::folder::ROWS;

/// A line in the file of rows, after the header.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// The inputs on which the rows of a cell and a set depend. The line precedes these rows.
    Cell {
        set: String,
        cell: String,
        identity: Box<RunHeader>,
    },
    Row(Box<Row>),
}

/// The set, the label of the cell and the seed of searches.
type Series = (String, String, u64);

/// The destination of rows, with an index of those that exist, so that no search is repeated.
#[derive(Debug, Default)]
pub(super) struct Store {
    file: Option<(PathBuf, RunFile)>,
    /// The rows of a store without a file; empty if there is a file.
    rows: Vec<Row>,
    identities: BTreeMap<(String, String), RunHeader>,
    done: BTreeMap<Series, BTreeSet<String>>,
    /// The number of uninterrupted stretches in which searches of a series ran.
    parts: BTreeMap<Series, u32>,
}

impl Store {
    pub(super) fn in_memory() -> Self {
        Self::default()
    }

    /// Opens the file of rows in `folder`. Existing rows are kept if `resume` is true and refused
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
                // Memory keeps only the index of rows. `finish` reads the rows from the file.
                Line::Row(row) => store.note(&row),
            }
        }
        Ok(store)
    }

    fn note(&mut self, row: &Row) {
        let series = series(row);
        let parts = self.parts.entry(series.clone()).or_default();
        // Rows may come in any order, so the largest number counts.
        *parts = (*parts).max(row.part + 1);
        self.done.entry(series).or_default().insert(row.id.clone());
    }

    /// Checks that the existing rows of a cell were made with the same settings and problems.
    pub(super) fn check(&self, set: &str, cell: &str, identity: &RunHeader) -> Result<(), Error> {
        let there = self.identities.get(&(set.to_owned(), cell.to_owned()));
        let Some((path, _)) = &self.file else {
            return Ok(());
        };
        // A cell without rows has no stored identity to compare.
        match there.and_then(|there| identity.difference(there)) {
            None => Ok(()),
            Some((field, there, here)) => Err(Error::OtherSettings {
                path: path.clone(),
                cell: format!("set \"{set}\", {cell}"),
                difference: format!("field \"{field}\": the rows have {there}, this call {here}"),
            }),
        }
    }

    /// Writes the identity of a cell, unless the file has it.
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

    /// Returns the number of the stretch that begins now, from 0.
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

    /// Returns all rows. The rows of a folder are read back from the file, so that the report depends only on files.
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

/// Reads the rows in the file at `path`, without opening it for writing.
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

/// Makes the header of the file, which has no settings. The settings are in the `cell` lines, so that a resumed bench
/// may have more cells.
fn header() -> RunHeader {
    RunHeader::new("see the lines \"cell\"".to_owned(), Map::new())
}

fn series(row: &Row) -> Series {
    (row.set.clone(), format!("{}@{}", row.run, row.n), row.seed)
}
