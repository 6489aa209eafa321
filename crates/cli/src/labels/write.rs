//! Files of JSON lines.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// Writes a line for each record, into a file aside that is renamed when it is whole; `-` is
/// stdout.
pub fn lines(path: &Path, records: impl Iterator<Item = impl Serialize>) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(all(&mut io::stdout().lock(), records)?);
    }
    let failed = |error: io::Error| Failure::Input(format!("{}: {error}", path.display()));
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(Failure::Input(format!(
            "{}: not a regular file: write into another one",
            path.display()
        )));
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    let file = File::create(&aside).map_err(failed)?;
    all(&mut BufWriter::new(file), records)
        .and_then(|()| fs::rename(&aside, path))
        .map_err(failed)
}

fn all(out: &mut dyn Write, records: impl Iterator<Item = impl Serialize>) -> io::Result<()> {
    for record in records {
        output::json_line(out, &record)?;
    }
    out.flush()
}
