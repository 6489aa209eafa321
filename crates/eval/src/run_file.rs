//! Run files: a header line, then one JSON line a problem, written as soon as the problem is done.
//!
//! A line that ends in a newline is a finished problem. A killed process leaves at most one
//! incomplete line at the end. A resumed run drops that line and solves its problem again.
//! The header has every setting that the results depend on, as text and not as a hash, so
//! that a resume with other settings can name the setting that differs. Settings that cannot change
//! a result are left out, for example the number of threads.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Problems;
use crate::fingerprint::is_of_older_kind;

/// The longest accepted line, in bytes. A line with a large search tree may have some hundred MiB.
const MAX_LINE_BYTES: usize = 1 << 30;

/// The version of the format, the value of the header's `beamgen_run`.
pub(crate) const VERSION: u32 = 1;

/// The first line of a run file: the settings and problems on which the results depend.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunHeader {
    /// The version of the format, 1.
    pub beamgen_run: u32,
    /// The fingerprint by [`Problems::fingerprint`](crate::Problems::fingerprint).
    pub problems: String,
    /// Settings and model fingerprints, nested as in the configuration file.
    pub settings: Map<String, Value>,
    /// The device, instruction set and memory of the run's first call. A resumed run may have others, because they
    /// change results only by rounding.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub effective: Map<String, Value>,
}

impl RunHeader {
    /// Makes a header of the current version with an empty `effective`.
    pub fn new(problems: String, settings: Map<String, Value>) -> Self {
        Self {
            beamgen_run: VERSION,
            problems,
            settings,
            effective: Map::new(),
        }
    }

    /// Returns the header with `effective` set, which comparisons ignore.
    #[must_use]
    pub fn with_effective(mut self, effective: Map<String, Value>) -> Self {
        self.effective = effective;
        self
    }

    /// Returns this header after a round trip through JSON, in which a float may lose its last digit.
    fn as_read(&self) -> Self {
        serde_json::to_vec(self)
            .and_then(|text| serde_json::from_slice(&text))
            .unwrap_or_else(|_| self.clone())
    }

    /// Returns the first field in which this header differs from `there`, the header of a file: its name, the value
    /// in the file, and the value here.
    pub fn difference(&self, there: &Self) -> Option<(String, String, String)> {
        self.as_read().exact_difference(there)
    }

    fn exact_difference(&self, there: &Self) -> Option<(String, String, String)> {
        // The version is compared first, since fields of another version may have another meaning.
        if self.beamgen_run != there.beamgen_run {
            let versions = (there.beamgen_run.to_string(), self.beamgen_run.to_string());
            return Some(("beamgen_run".to_owned(), versions.0, versions.1));
        }
        let problems = |header: &Self| Value::String(header.problems.clone());
        if let Some(difference) = different_value("problems", &problems(self), &problems(there)) {
            return Some(difference);
        }
        let here = Value::Object(self.settings.clone());
        different_value("settings", &here, &Value::Object(there.settings.clone()))
    }
}

fn different_value(name: &str, here: &Value, there: &Value) -> Option<(String, String, String)> {
    let (Value::Object(a), Value::Object(b)) = (here, there) else {
        // Older builds used another hash. The message says so, since the data may be the same.
        let older = match (here, there) {
            (Value::String(here), Value::String(there)) => is_of_older_kind(here, there),
            _ => false,
        };
        let there_text = if older {
            format!("a fingerprint of an older beamgen, {there},")
        } else {
            there.to_string()
        };
        return (here != there).then(|| (name.to_owned(), there_text, here.to_string()));
    };
    // A setting that one side lacks is compared as null, so that it is reported by name.
    let null = Value::Null;
    let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
    keys.into_iter().find_map(|key| {
        different_value(
            &format!("{name}.{key}"),
            a.get(key).unwrap_or(&null),
            b.get(key).unwrap_or(&null),
        )
    })
}

/// A run file that could not be used. The message is one line: file, line, field.
#[derive(Debug, thiserror::Error)]
#[error("{}{fault}", path.display())]
pub struct RunFileError {
    /// The path of the run file, with which the message begins.
    pub path: PathBuf,
    /// The fault of the file.
    pub fault: RunFileFault,
}

/// The reason why a run file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunFileFault {
    /// Reading or writing failed, with the error of the operating system.
    #[error(": {0}")]
    Io(io::Error),
    /// A new run would overwrite a file.
    #[error(": exists already")]
    Exists,
    /// Another process writes to the file.
    #[error(": another beamgen is writing to it")]
    Locked,
    /// The file was removed while the run was writing to it.
    #[error(": was removed while the run was writing to it, and its results with it: run again")]
    Removed,
    /// A line is not valid JSON, or not a header or record of the expected form.
    #[error(":{line}: not a line of a run file ({reason}): repair or remove the file")]
    Line {
        /// The number of the line, counted from 1; the header is line 1.
        line: usize,
        /// The message of the parser, or `no header`.
        reason: String,
    },
    /// A record is not about a problem of this run.
    #[error(
        ":{line}: field \"{field}\": not that of a problem of the run ({id}), so the file was changed: repair or remove it"
    )]
    OtherProblem {
        /// The number of the record's line, counted from 1.
        line: usize,
        /// `id` if no problem has the id of the record, `problem` if the problem with this id has another text.
        field: &'static str,
        /// The id in the record, which the message shows.
        id: String,
    },
    /// The run was made under other settings or on other problems.
    #[error(":1: field \"{field}\": the run has {there}, this call {here}")]
    OtherRun {
        /// The path of the first different field in the header, for example `settings.search.n`.
        field: String,
        /// The value in the file, as JSON or as a note on an older fingerprint.
        there: String,
        /// The value in this call, as JSON.
        here: String,
    },
}

impl RunFileError {
    /// Returns whether the cause is the machine, for example a full disk, and not the user's input. The exit code of
    /// the program depends on the cause.
    pub fn is_failure(&self) -> bool {
        match &self.fault {
            RunFileFault::Io(error) => !beamgen_files::is_about_the_name(error),
            fault => matches!(fault, RunFileFault::Removed),
        }
    }
}

/// A run file open for writing, locked against other processes.
#[derive(Debug)]
pub struct RunFile {
    path: PathBuf,
    file: File,
    /// True for a pipe or a device, which cannot be locked, synced or resumed.
    is_stream: bool,
}

impl RunFile {
    fn opened(path: &Path, opened: io::Result<(File, bool)>) -> Result<Self, RunFileError> {
        let path = path.to_owned();
        match opened {
            Ok((file, is_stream)) => Ok(Self {
                path,
                file,
                is_stream,
            }),
            Err(error) => {
                let fault = match error.kind() {
                    io::ErrorKind::AlreadyExists => RunFileFault::Exists,
                    _ => RunFileFault::Io(error),
                };
                Err(RunFileError { path, fault })
            }
        }
    }

    /// Starts a new run. An existing file is never overwritten, because it may have the results of hours.
    ///
    /// # Errors
    /// [`RunFileFault::Exists`] if the file exists, and errors of the file system.
    pub fn create(path: &Path, header: &RunHeader) -> Result<Self, RunFileError> {
        let mut run = Self::opened(path, beamgen_files::create_new(path))?;
        run.lock()?;
        // On a full disk, an empty file would remain, and the next call would refuse to overwrite it.
        run.append(header).inspect_err(|_| run.forget())?;
        Ok(run)
    }

    /// Resumes a run, or starts it if the file does not exist. Returns the records in the file.
    ///
    /// Text after the last newline is an incomplete line and is cut off. Any other line that is not
    /// a `Line` is an error, and so is a header that differs from `header`.
    ///
    /// # Errors
    /// [`RunFileError`] names the file, and the line or the field that differs.
    pub fn resume<Line: DeserializeOwned>(
        path: &Path,
        header: &RunHeader,
    ) -> Result<(Self, Vec<Line>), RunFileError> {
        // In append mode each record is written at the end, wherever reading stopped.
        let file = beamgen_files::append(path);
        let mut run = Self::opened(path, file.map(|file| (file, false)))?;
        run.lock()?;
        let (there, lines, whole) = run.read_whole_lines()?;
        if let Some(there) = &there
            && let Some((field, there, here)) = header.difference(there)
        {
            return Err(run.error(RunFileFault::OtherRun { field, there, here }));
        }
        // The incomplete line is cut off only after the header was accepted, so that other runs' files stay
        // unchanged.
        run.file.set_len(whole).map_err(|error| run.io(error))?;
        if there.is_none() {
            run.append(header)?;
        }
        Ok((run, lines))
    }

    /// Checks that the records of a resumed run are about problems of the run. `lines` has the id in each record, and
    /// the text if the record has one.
    ///
    /// # Errors
    /// [`RunFileFault::OtherProblem`] for the first record of another problem.
    pub fn check_problems<'l>(
        &self,
        problems: &Problems,
        lines: impl Iterator<Item = (&'l str, Option<&'l str>)>,
    ) -> Result<(), RunFileError> {
        let is_cut = problems.is_cut();
        let problems = problems.problems.iter();
        let texts: HashMap<&str, &str> = problems
            .map(|problem| (problem.id.as_str(), problem.text.as_str()))
            .collect();
        for (at, (id, text)) in lines.enumerate() {
            let field = match texts.get(id) {
                // The record may be of a problem beyond the limit.
                None if is_cut => continue,
                None => "id",
                Some(&own) if text.is_some_and(|text| text != own) => "problem",
                Some(_) => continue,
            };
            // The first record is on line 2, after the header.
            let (line, id) = (at + 2, id.to_owned());
            return Err(self.error(RunFileFault::OtherProblem { line, field, id }));
        }
        Ok(())
    }

    /// Reads the header and the records of a run file for a reader that does not resume the run. An incomplete last
    /// line is ignored, even if it is the header.
    ///
    /// # Errors
    /// [`RunFileError`] has the line that is not valid.
    pub fn read<Line: DeserializeOwned>(
        path: &Path,
    ) -> Result<(Option<RunHeader>, Vec<Line>), RunFileError> {
        let file = beamgen_files::open_regular_file(path);
        let mut run = Self::opened(path, file.map(|file| (file, false)))?;
        let (header, lines, _) = run.read_whole_lines()?;
        Ok((header, lines))
    }

    /// Writes one line. Once this returns, the line survives a crash of the process.
    ///
    /// # Errors
    /// Writing failed, or the file was removed: its lines would be lost with the process.
    pub fn append(&mut self, line: &impl Serialize) -> Result<(), RunFileError> {
        self.check_still_there()?;
        // Text and newline in one write, so that a crash leaves both or, at worst, part of a line
        // without its newline.
        let mut bytes = serde_json::to_vec(line).map_err(|error| self.io(error.into()))?;
        bytes.push(b'\n');
        self.file.write_all(&bytes).map_err(|error| self.io(error))
    }

    /// Flushes the file to the disk, so that all lines survive a power cut, too.
    ///
    /// # Errors
    /// The file was removed, or a write to the disk failed.
    pub fn finish(self) -> Result<(), RunFileError> {
        self.check_still_there()?;
        if self.is_stream {
            Ok(())
        } else {
            self.file.sync_all().map_err(|error| self.io(error))
        }
    }

    /// Removes the file after its header could not be written, since a later run would refuse the empty file.
    fn forget(&self) {
        if let (false, Ok(path)) = (self.is_stream, self.path.canonicalize()) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Returns an error if the file was removed while it was open. A renamed file is no error, because it keeps its
    /// lines.
    #[cfg(unix)]
    fn check_still_there(&self) -> Result<(), RunFileError> {
        use std::os::unix::fs::MetadataExt;
        // The open file tells by its number of links: 0 if it was removed, unchanged if it was renamed.
        let found = self.file.metadata().map_err(|error| self.io(error))?;
        match found.nlink() {
            0 if !self.is_stream => Err(self.error(RunFileFault::Removed)),
            _ => Ok(()),
        }
    }

    #[cfg(not(unix))]
    fn check_still_there(&self) -> Result<(), RunFileError> {
        // An open file cannot be removed.
        Ok(())
    }

    fn lock(&self) -> Result<(), RunFileError> {
        if self.is_stream {
            return Ok(());
        }
        match self.file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(self.error(RunFileFault::Locked)),
            // A file system may lack locks, which is no reason to stop the run.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        }
    }

    /// Reads the header and all complete lines after it. Returns both, and the length of the complete lines in bytes.
    fn read_whole_lines<Line: DeserializeOwned>(
        &mut self,
    ) -> Result<(Option<RunHeader>, Vec<Line>, u64), RunFileError> {
        self.file
            .seek(SeekFrom::Start(0))
            .map_err(|error| self.io(error))?;
        let mut reader = BufReader::new(&self.file);
        let (mut header, mut lines) = (None, Vec::new());
        let (mut whole, mut number, mut buffer) = (0u64, 0usize, Vec::new());
        loop {
            let read = beamgen_files::read_line(&mut reader, &mut buffer, MAX_LINE_BYTES)
                .map_err(|error| self.io(error))?;
            if read > MAX_LINE_BYTES {
                let reason = format!("longer than {} MiB", MAX_LINE_BYTES >> 20);
                return Err(self.line(number + 1, reason));
            }
            if buffer.last() != Some(&b'\n') {
                // An incomplete header is dropped. Any other text may be somebody's file.
                if number == 0 && !is_torn_header(&buffer) {
                    return Err(self.line(1, "no header".to_owned()));
                }
                break;
            }
            whole += read as u64;
            number += 1;
            // The first line has another type than the others: it must be a header.
            if number == 1 {
                header = Some(self.parse::<RunHeader>(&buffer, number)?);
            } else {
                lines.push(self.parse(&buffer, number)?);
            }
        }
        Ok((header, lines, whole))
    }

    fn parse<T: DeserializeOwned>(&self, bytes: &[u8], line: usize) -> Result<T, RunFileError> {
        serde_json::from_slice(bytes).map_err(|error| {
            let text = error.to_string();
            // The line number of serde is always 1 here and would mislead, so it is cut off.
            let reason = text.split(" at line ").next().unwrap_or(&text);
            self.line(line, reason.to_owned())
        })
    }

    fn io(&self, error: io::Error) -> RunFileError {
        self.error(RunFileFault::Io(error))
    }

    fn line(&self, line: usize, reason: String) -> RunFileError {
        self.error(RunFileFault::Line { line, reason })
    }

    fn error(&self, fault: RunFileFault) -> RunFileError {
        let path = self.path.clone();
        RunFileError { path, fault }
    }
}

fn is_torn_header(bytes: &[u8]) -> bool {
    let opening: &[u8] = b"{\"beamgen_run\":";
    bytes.starts_with(opening) || opening.starts_with(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn header(n: u32) -> RunHeader {
        let Value::Object(settings) = json!({"search": {"n": n, "m": 4}}) else {
            unreachable!()
        };
        RunHeader::new("abc".to_owned(), settings)
    }

    fn path(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("run.jsonl")
    }

    #[test]
    fn lines_come_back_and_a_torn_one_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        let mut run = RunFile::create(&path, &header(16)).unwrap();
        run.append(&json!({"id": "1"})).unwrap();
        run.append(&json!({"id": "2"})).unwrap();
        run.finish().unwrap();
        let whole = std::fs::read(&path).unwrap();
        // Wherever a crash cuts the file, complete lines stay and an incomplete one goes.
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let newlines = whole[..cut].iter().filter(|&&b| b == b'\n').count();
            let (mut run, lines) = RunFile::resume::<Value>(&path, &header(16)).unwrap();
            assert_eq!(lines.len(), newlines.saturating_sub(1), "cut at {cut}");
            run.append(&json!({"id": "3"})).unwrap();
            drop(run);
            let (_, lines) = RunFile::resume::<Value>(&path, &header(16)).unwrap();
            assert_eq!(lines.last(), Some(&json!({"id": "3"})), "cut at {cut}");
        }
    }

    #[test]
    fn a_run_with_fingerprints_of_an_older_build_is_refused_with_that_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        let header = |problems: &str| RunHeader::new(problems.to_owned(), Map::new());
        let old = "6c62272e07bb014262b821756295c58d";
        drop(RunFile::create(&path, &header(old)).unwrap());
        let new = crate::Fingerprint::default().finish();
        let refused = RunFile::resume::<Value>(&path, &header(&new)).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("\"problems\""), "{refused}");
        assert!(refused.contains("of an older beamgen"), "{refused}");
    }

    #[test]
    fn lines_of_other_problems_are_refused_by_line_and_field() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFile::create(&path(&dir), &header(16)).unwrap();
        let file = "{\"problem\": \"p\", \"id\": \"a\"}\n{\"problem\": \"q\", \"id\": \"b\"}";
        let problems = Problems::read(file.as_bytes(), "f").unwrap();
        let checked = |lines: &[(&'static str, Option<&'static str>)]| {
            let checked = run.check_problems(&problems, lines.iter().copied());
            checked.map_err(|error| error.to_string())
        };
        let (a, b) = (("a", Some("p")), ("b", Some("q")));
        assert_eq!(checked(&[b, a, ("a", None)]), Ok(()));
        for (lines, wanted) in [
            (
                &[a, ("b", Some("p"))][..],
                ":3: field \"problem\": not that of a problem of the run (b)",
            ),
            (
                &[("b", Some("p")), ("a", Some("q"))],
                ":2: field \"problem\"",
            ),
            (
                &[("c", None)],
                ":2: field \"id\": not that of a problem of the run (c)",
            ),
        ] {
            let refused = checked(lines).unwrap_err();
            assert!(refused.contains(wanted), "{refused}");
        }
    }

    #[test]
    fn another_run_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        drop(RunFile::create(&path, &header(16)).unwrap());
        let refused = |header: &RunHeader| {
            RunFile::resume::<Value>(&path, header)
                .unwrap_err()
                .to_string()
        };
        assert!(
            refused(&header(8))
                .contains(":1: field \"settings.search.n\": the run has 16, this call 8")
        );
        let mut other = header(16);
        other.problems = "abd".to_owned();
        assert!(
            refused(&other).contains("field \"problems\": the run has \"abc\", this call \"abd\"")
        );
        let mut other = header(16);
        other.settings.insert("seed".to_owned(), json!(1));
        assert!(refused(&other).contains("field \"settings.seed\": the run has null, this call 1"));
        assert!(RunFile::resume::<Value>(&path, &header(16)).is_ok());
    }

    /// 0.98 in single precision is 0.9800000190734863, which the parser of JSON reads as ...864.
    #[test]
    fn a_setting_with_many_digits_is_still_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        let with = |top_p: f32| {
            let mut header = header(16);
            header.settings.insert("top_p".to_owned(), json!(top_p));
            header
        };
        drop(RunFile::create(&path, &with(0.98)).unwrap());
        assert!(RunFile::resume::<Value>(&path, &with(0.98)).is_ok());
        assert!(RunFile::resume::<Value>(&path, &with(0.97)).is_err());
    }

    #[test]
    fn a_run_that_is_not_continued_keeps_its_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        let mut run = RunFile::create(&path, &header(16)).unwrap();
        run.append(&json!({"id": "1"})).unwrap();
        drop(run);
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend(b"{\"id\": \"2\", \"ans");
        std::fs::write(&path, &torn).unwrap();
        assert!(RunFile::resume::<Value>(&path, &header(8)).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), torn);
    }

    #[test]
    fn what_is_there_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        let run = RunFile::create(&path, &header(16)).unwrap();
        let error = RunFile::create(&path, &header(16)).unwrap_err();
        assert!(error.to_string().contains("exists") && !error.is_failure());
        let error = RunFile::resume::<Value>(&path, &header(16)).unwrap_err();
        assert!(error.to_string().contains("another beamgen"), "{error}");
        drop(run);
        for (text, want) in [
            ("{\"problem\": \"p\"}\n", "(missing field"),
            ("my notes", "(no header)"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = RunFile::resume::<Value>(&path, &header(16))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(":1: not a line of a run file") && error.contains(want),
                "{error}"
            );
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                text,
                "the file is left as it was"
            );
        }
    }
}
