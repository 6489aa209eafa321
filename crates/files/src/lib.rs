//! Safe reading and writing of whole files whose names a user gave.
//!
//! A device has no end (`/dev/zero`) and a FIFO may never have a writer, so a program that reads
//! any named file may run out of memory or hang. The functions for reading accept only regular
//! files and read at most a given number of bytes. All output is written by [`Output`] and the
//! functions around it.

#![forbid(unsafe_code)]

mod output;
mod panics;

pub use output::{
    FileId, Output, append, create_folder, create_new, is_about_the_name, is_foreign_folder, place,
    replace, write,
};
pub use panics::caught;

use std::fs::File;
use std::io::{self, BufRead, ErrorKind, Read};
use std::path::Path;

use serde::Serialize;

/// Opens a regular file for reading; links are followed.
///
/// # Errors
/// Returns [`ErrorKind::IsADirectory`] for folders, [`ErrorKind::InvalidInput`] for devices, FIFOs
/// and sockets, and errors of the system.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    // The path is checked before opening, since opening a FIFO waits for a writer. The open file is
    // checked again, since the path may have changed in between.
    check(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file whole, if it has at most `cap` bytes.
///
/// # Errors
/// Returns the errors of [`open_regular_file`], and [`ErrorKind::FileTooLarge`] above `cap` bytes.
pub fn read_regular_file(path: &Path, cap: u64) -> io::Result<Vec<u8>> {
    read_capped(open_regular_file(path)?, cap)
}

/// Reads a regular file as UTF-8 text, if it has at most `cap` bytes.
///
/// # Errors
/// Returns the errors of [`read_regular_file`], and [`ErrorKind::InvalidData`] if the file is
/// packed or not UTF-8.
pub fn read_text_file(path: &Path, cap: u64) -> io::Result<String> {
    text(read_regular_file(path, cap)?)
}

/// Reads a stream to its end, if it has at most `cap` bytes.
///
/// # Errors
/// Returns [`ErrorKind::FileTooLarge`] above `cap` bytes, and errors of the system.
pub fn read_capped(stream: impl Read, cap: u64) -> io::Result<Vec<u8>> {
    // One byte more than `cap` shows that the stream is too long.
    let mut bytes = Vec::new();
    stream.take(cap.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= cap {
        Ok(bytes)
    } else {
        Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("larger than {} MiB", cap >> 20),
        ))
    }
}

/// Reads a line with its newline into `line`, which is cleared first, and returns the length. A
/// line above `cap` bytes is cut after `cap + 1`, so the caller can detect it.
///
/// # Errors
/// The error of the system.
pub fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, cap: usize) -> io::Result<usize> {
    line.clear();
    input.take(cap as u64 + 1).read_until(b'\n', line)
}

/// Writes a file of indented JSON with a final newline, whole or not at all.
///
/// # Errors
/// Returns the errors of [`write()`], and errors of values that JSON cannot represent.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    write(path, bytes)
}

/// Returns an operating system's message without its error number.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Returns the message of the JSON parser about a text of one line: with its column, without its
/// line.
#[must_use]
pub fn json_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    format!("{reason} at column {}", error.column())
}

/// Converts the bytes of a file to UTF-8 text.
///
/// # Errors
/// [`ErrorKind::InvalidData`] for a format that is [`packed`], or with the place of the first byte
/// that is not UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    if let Some(packed) = packed(&bytes) {
        return Err(io::Error::new(ErrorKind::InvalidData, packed));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(
            ErrorKind::InvalidData,
            format!("invalid UTF-8 at byte {at}: save the file as UTF-8"),
        )
    })
}

/// The first bytes of packed formats that often contain text, and how to unpack each.
const PACKED: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "compressed by gzip: unpack it (`gunzip FILE`)"),
    (b"\xfd7zXZ\0", "compressed by xz: unpack it (`unxz FILE`)"),
    (
        b"\x28\xb5\x2f\xfd",
        "compressed by zstd: unpack it (`unzstd FILE`)",
    ),
    (b"PK\x03\x04", "a ZIP archive: unpack it (`unzip FILE`)"),
    (
        b"PAR1",
        "a Parquet table: write JSON lines (`python3 -c \"import pandas; \
         pandas.read_parquet('FILE').to_json('FILE.jsonl', orient='records', lines=True)\"` does it)",
    ),
    (
        b"ARROW1\0\0",
        "an Arrow table: write JSON lines (`python3 -c \"import pandas; \
         pandas.read_feather('FILE').to_json('FILE.jsonl', orient='records', lines=True)\"` does it)",
    ),
];

/// Returns advice on unpacking if `head` begins like a packed format; otherwise `None`.
pub fn packed(head: &[u8]) -> Option<&'static str> {
    let found = PACKED.iter().find(|(begin, _)| head.starts_with(begin));
    found.map(|(_, advice)| *advice)
}

fn check(found: &std::fs::Metadata) -> io::Result<()> {
    if found.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if found.is_file() {
        Ok(())
    } else {
        Err(io::Error::new(
            ErrorKind::InvalidInput,
            "not a regular file",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_files_are_read_up_to_the_cap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "Mia").unwrap();
        assert_eq!(read_regular_file(&path, 3).unwrap(), b"Mia");
        assert_eq!(read_text_file(&path, 3).unwrap(), "Mia");
        let error = read_regular_file(&path, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        std::fs::write(&path, b"a\xff").unwrap();
        let error = read_text_file(&path, 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("byte 1"), "{error}");
        let error = read_regular_file(dir.path(), 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        let error = read_regular_file(&dir.path().join("none"), 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn packed_files_are_told_what_they_are() {
        for (bytes, name) in [
            (&b"\x1f\x8b\x08"[..], "gzip"),
            (b"\xfd7zXZ\0\0", "xz"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"PK\x03\x04", "ZIP"),
            (b"PAR1", "Parquet"),
            (b"ARROW1\0\0", "Arrow"),
        ] {
            let error = text(bytes.to_vec()).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        assert!(packed(b"PARIS\n{\"a\": 1}").is_none());
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_fifos_are_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        for path in [
            fifo.as_path(),
            Path::new("/dev/zero"),
            Path::new("/dev/full"),
        ] {
            let error = read_regular_file(path, 1 << 20).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", path.display());
        }
    }
}
