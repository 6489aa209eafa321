//! The table of packings that are undone while a file is read, and the limit on what comes out.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use crate::error::Bomb;
use crate::input::Input;
use crate::{Fault, Place, RecordsError};

/// The largest accepted ratio of the unpacked to the packed size.
const MOST_TIMES: u64 = 100;

/// The largest accepted unpacked size: 20 GiB.
const MOST_BYTES: u64 = 20 << 30;

/// The unpacked size up to which the ratio is not checked: small files of repeated text are fine.
const FREE_BYTES: u64 = 1 << 20;

type Unpacker<'a> = io::Result<Box<dyn Read + 'a>>;

/// A packing: how it is recognised and undone.
pub(crate) struct Packing {
    /// The ending of file names, without the dot.
    extension: &'static str,
    /// The first bytes of a packed file.
    magic: &'static [u8],
    /// Undoes the packing; `None` in builds without the feature `data`.
    open: Option<Open>,
}

type Open = for<'a> fn(Box<dyn BufRead + 'a>) -> Unpacker<'a>;

static PACKINGS: [Packing; 3] = [
    Packing {
        extension: "gz",
        magic: b"\x1f\x8b",
        open: Some(|packed| Ok(Box::new(flate2::bufread::MultiGzDecoder::new(packed)))),
    },
    Packing {
        extension: "zst",
        magic: b"\x28\xb5\x2f\xfd",
        #[cfg(feature = "data")]
        open: Some(|packed| Ok(Box::new(zstd::Decoder::with_buffer(packed)?))),
        #[cfg(not(feature = "data"))]
        open: None,
    },
    Packing {
        extension: "xz",
        magic: b"\xfd7zXZ\0",
        #[cfg(feature = "data")]
        open: Some(xz),
        #[cfg(not(feature = "data"))]
        open: None,
    },
];

/// Unpacks xz with at most 256 MiB of memory, which is enough for its strongest preset.
#[cfg(feature = "data")]
fn xz<'a>(packed: Box<dyn BufRead + 'a>) -> Unpacker<'a> {
    use liblzma::stream::{CONCATENATED, Stream};
    let stream = Stream::new_stream_decoder(256 << 20, CONCATENATED)?;
    Ok(Box::new(liblzma::bufread::XzDecoder::new_stream(
        packed, stream,
    )))
}

/// Returns the packing of an input that begins with `head`.
pub(crate) fn of(head: &[u8]) -> Option<&'static Packing> {
    PACKINGS
        .iter()
        .find(|packing| head.starts_with(packing.magic))
}

impl Packing {
    pub(crate) fn unpack<'a>(&self, input: Input<'a>) -> Result<Input<'a>, RecordsError> {
        let Some(open) = self.open else {
            let advice = beamgen_files::packed(self.magic).unwrap_or_default();
            let fault = Fault::Packed(format!("{advice}, or build with `--features data`"));
            return Err(input.fault(Place::Line(1), fault));
        };
        let taken = Rc::new(Cell::new(0));
        let counted = Counted {
            inner: input.bytes,
            taken: Rc::clone(&taken),
        };
        let inner =
            open(Box::new(counted)).map_err(|error| RecordsError::unreadable(input.name, error))?;
        let unpacked = Unpacked {
            inner,
            size: input.size,
            taken,
            given: 0,
        };
        let file_name = input.file_name.map(|name| {
            let path = Path::new(&name);
            let end = path.extension().unwrap_or_default();
            match path.file_stem() {
                Some(stem) if end.eq_ignore_ascii_case(self.extension) => stem.to_owned(),
                _ => name,
            }
        });
        Ok(Input {
            name: input.name,
            file_name,
            size: None,
            file: None,
            bytes: Box::new(BufReader::new(unpacked)),
        })
    }
}

/// A reader that counts the bytes that were taken from it.
struct Counted<'a> {
    inner: Box<dyn BufRead + 'a>,
    taken: Rc<Cell<u64>>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.taken.set(self.taken.get() + read as u64);
        Ok(read)
    }
}

impl BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.taken.set(self.taken.get() + amount as u64);
        self.inner.consume(amount);
    }
}

/// An unpacking reader with the limits on its output.
struct Unpacked<'a> {
    inner: Box<dyn Read + 'a>,
    /// The packed size, if the input is a file. A stream is judged by what was taken of it.
    size: Option<u64>,
    taken: Rc<Cell<u64>>,
    given: u64,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.given += read as u64;
        check(self.given, self.size.unwrap_or(self.taken.get()))?;
        Ok(read)
    }
}

/// Checks the unpacked size of a file against its packed size.
pub(crate) fn check(unpacked: u64, packed: u64) -> io::Result<()> {
    if unpacked > MOST_BYTES {
        Err(io::Error::other(Bomb("20 GiB")))
    } else if unpacked > FREE_BYTES && unpacked > packed.saturating_mul(MOST_TIMES) {
        Err(io::Error::other(Bomb("100 times its size")))
    } else {
        Ok(())
    }
}
