//! The log of a run, `OUT/work/log.jsonl`. A line is a JSON object with the figures of an update or of a measurement.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::write::io_error;
use crate::{Error, Result};

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Opens the log in the folder `work`. A run that resumes after `done` updates repeats all later ones, so only
    /// the lines of the first `done` updates are kept. `None` starts an empty log.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(super) fn open(work: &Path, done: Option<usize>) -> Result<Self> {
        let path = work.join("log.jsonl");
        let before = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(io_error(&path))?,
        };
        let kept: String = before
            .lines()
            .filter(|line| {
                // The last line of a crashed run may be cut off; a line that is not valid JSON is dropped.
                let line: Option<Value> = serde_json::from_str(line).ok();
                let update = line.and_then(|line| line["update"].as_u64());
                done.zip(update)
                    .is_some_and(|(done, update)| update as usize <= done)
            })
            .map(|line| format!("{line}\n"))
            .collect();
        beamgen_files::write(&path, kept).map_err(io_error(&path))?;
        let file = beamgen_files::append(&path).map_err(io_error(&path))?;
        Ok(Self { path, file })
    }

    /// Appends `entry` as a JSON line, with the extra field `kind`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn line(&mut self, kind: &str, entry: &impl Serialize) -> Result<()> {
        let mut value = serde_json::to_value(entry).map_err(|e| Error::Empty(e.to_string()))?;
        value["kind"] = kind.into();
        writeln!(self.file, "{value}").map_err(io_error(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_resumed_log_has_every_update_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path(), None).unwrap();
        for update in 1..=4 {
            log.line("update", &json!({ "update": update })).unwrap();
        }
        drop(log);
        let mut log = Log::open(dir.path(), Some(2)).unwrap();
        log.line("update", &json!({"update": 3})).unwrap();
        let text = std::fs::read_to_string(dir.path().join("log.jsonl")).unwrap();
        let updates: Vec<u64> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["update"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        assert_eq!(updates, [1, 2, 3]);
    }
}
