//! The header of a GGUF file. Every count, length and offset is checked against the length of the
//! file before it is used, so what is allocated stays in proportion to the file.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use crate::Encoding;
use crate::error::Malformed;

const MAGIC: &[u8] = b"GGUF";
/// The alignment of tensors in bytes, in a file without `general.alignment`.
const ALIGNMENT: u64 = 32;
const MAX_DIMS: u32 = 4;

pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) tensors: Vec<TensorInfo>,
}

/// A value of the metadata. A text or an array is a range of the file, which is not copied.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Integer(i128),
    Number(f64),
    Bool(bool),
    Text(Range<usize>),
    Array {
        kind: Kind,
        len: usize,
        start: usize,
    },
}

/// The type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    Array,
    U64,
    I64,
    F64,
}

#[derive(Debug)]
pub(crate) struct TensorInfo {
    pub(crate) name: String,
    /// The shape, outermost dimension first. GGUF stores the innermost dimension first.
    pub(crate) shape: Vec<usize>,
    /// The encoding, or the name of a type that is not supported.
    pub(crate) encoding: Result<Encoding, String>,
    /// The range of the tensor's bytes in the file; empty for an unsupported type.
    pub(crate) range: Range<usize>,
}

impl Value {
    /// Formats the value for a message, with at most 60 characters of a text.
    pub(super) fn describe(&self, bytes: &[u8]) -> String {
        match self {
            Self::Integer(n) => n.to_string(),
            Self::Number(n) => n.to_string(),
            Self::Bool(b) => b.to_string(),
            Self::Text(range) => {
                let text = String::from_utf8_lossy(&bytes[range.clone()]);
                format!("`{}`", text.chars().take(60).collect::<String>())
            }
            Self::Array { kind, len, .. } => format!("a list of {len} values of type {kind:?}"),
        }
    }
}

impl Kind {
    fn of(id: u32) -> Result<Self, Malformed> {
        use Kind::{Array, Bool, F32, F64, I8, I16, I32, I64, Text, U8, U16, U32, U64};
        const KINDS: [Kind; 13] = [
            U8, I8, U16, I16, U32, I32, F32, Bool, Text, Array, U64, I64, F64,
        ];
        KINDS
            .get(id as usize)
            .copied()
            .ok_or_else(|| Malformed(format!("corrupt GGUF header: value of unknown type {id}")))
    }

    /// The fewest bytes that a value of this type takes in the file.
    fn smallest(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::Text | Self::U64 | Self::I64 | Self::F64 => 8,
            Self::Array => 12,
        }
    }
}

/// A reader of the header, at the byte `at`.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, n: u64) -> Result<Range<usize>, Malformed> {
        match usize::try_from(n) {
            Ok(n) if n <= self.left() => {
                let range = self.at..self.at + n;
                self.at = range.end;
                Ok(range)
            }
            _ => Err(Malformed(format!(
                "truncated or corrupt GGUF header: {n} bytes wanted at byte {}, the file has {}",
                self.at,
                self.bytes.len()
            ))),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let range = self.take(N as u64)?;
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[range]);
        Ok(out)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<Range<usize>, Malformed> {
        let len = self.u64()?;
        self.take(len)
    }

    /// Reads a name. Names must be UTF-8, unlike other texts.
    fn name(&mut self) -> Result<&'a str, Malformed> {
        let at = self.at;
        let range = self.text()?;
        std::str::from_utf8(&self.bytes[range]).map_err(|_| {
            Malformed(format!(
                "corrupt GGUF header: the name at byte {at} is not UTF-8"
            ))
        })
    }

    /// Reads the number of `what`, which take at least `smallest` bytes each.
    fn count(&mut self, what: &str, smallest: usize) -> Result<usize, Malformed> {
        let n = self.u64()?;
        self.fits(n, what, smallest)
    }

    /// Refuses a number of `what` that the rest of the file cannot hold, before memory is
    /// allocated.
    fn fits(&self, n: u64, what: &str, smallest: usize) -> Result<usize, Malformed> {
        match usize::try_from(n) {
            Ok(count) if count <= self.left() / smallest => Ok(count),
            _ => Err(Malformed(format!(
                "truncated or corrupt GGUF header: {n} {what} do not fit into {} bytes",
                self.left()
            ))),
        }
    }

    fn value(&mut self, kind: Kind) -> Result<Value, Malformed> {
        Ok(match kind {
            Kind::U8 => Value::Integer(u8::from_le_bytes(self.array()?).into()),
            Kind::I8 => Value::Integer(i8::from_le_bytes(self.array()?).into()),
            Kind::U16 => Value::Integer(u16::from_le_bytes(self.array()?).into()),
            Kind::I16 => Value::Integer(i16::from_le_bytes(self.array()?).into()),
            Kind::U32 => Value::Integer(self.u32()?.into()),
            Kind::I32 => Value::Integer(i32::from_le_bytes(self.array()?).into()),
            Kind::U64 => Value::Integer(self.u64()?.into()),
            Kind::I64 => Value::Integer(i64::from_le_bytes(self.array()?).into()),
            Kind::F32 => Value::Number(f32::from_le_bytes(self.array()?).into()),
            Kind::F64 => Value::Number(f64::from_le_bytes(self.array()?)),
            Kind::Bool => Value::Bool(self.array::<1>()? != [0]),
            Kind::Text => Value::Text(self.text()?),
            Kind::Array => {
                let kind = Kind::of(self.u32()?)?;
                // Nested lists would need recursion to a depth that the file determines.
                if kind == Kind::Array {
                    return Err("lists of lists in the metadata are not supported".into());
                }
                let len = self.count("values of a list", kind.smallest())?;
                let start = self.at;
                if kind == Kind::Text {
                    // Each text has its own length, so the end of the list is found only by reading
                    // all texts.
                    for _ in 0..len {
                        self.text()?;
                    }
                } else {
                    // `count` has checked that the file has these bytes.
                    self.at += len * kind.smallest();
                }
                Value::Array { kind, len, start }
            }
        })
    }
}

/// Iterates over an array of a header that [`read`] has accepted.
pub(super) fn items(
    bytes: &[u8],
    kind: Kind,
    len: usize,
    start: usize,
) -> impl Iterator<Item = Value> {
    let mut cursor = Cursor { bytes, at: start };
    (0..len).map(move |_| cursor.value(kind).expect("the header was read to its end"))
}

/// Reads and checks the header of a file.
pub(super) fn read(bytes: &[u8]) -> Result<Header, Malformed> {
    let mut cursor = Cursor { bytes, at: 0 };
    if !bytes.starts_with(MAGIC) {
        return Err("not a GGUF file (it does not begin with `GGUF`)".into());
    }
    cursor.at = MAGIC.len();
    let version = cursor.u32()?;
    if !(2..=3).contains(&version) {
        let why = if version.swap_bytes() <= 3 {
            "it is big endian".into()
        } else {
            format!("it has version {version}")
        };
        return Err(Malformed(format!(
            "unsupported GGUF file: {why}; use version 2 or 3, little endian"
        )));
    }
    // The number of tensors is checked after the number of metadata entries, which follows it in
    // the file. An entry takes at least 13 bytes (a name's length, a type and a byte), and a tensor
    // 24 bytes (a name's length, a number of dimensions, a type and an offset).
    let tensors = cursor.u64()?;
    let pairs = cursor.count("entries of metadata", 13)?;
    cursor.fits(tensors, "tensors", 24)?;
    let mut metadata = BTreeMap::new();
    for _ in 0..pairs {
        let key = cursor.name()?;
        let kind = Kind::of(cursor.u32()?)?;
        let value = cursor.value(kind)?;
        // Programs differ in which of two values they use, so a file with two values is ambiguous.
        if metadata.insert(key.to_owned(), value).is_some() {
            return Err(Malformed(format!(
                "corrupt GGUF header: the key `{key}` appears twice"
            )));
        }
    }
    let alignment = match metadata.get("general.alignment") {
        None => ALIGNMENT,
        Some(Value::Integer(n)) if (1..=1 << 30).contains(n) && n.count_ones() == 1 => *n as u64,
        Some(other) => {
            let value = other.describe(bytes);
            return Err(Malformed(format!(
                "corrupt GGUF header: general.alignment is {value}, expected a power of two"
            )));
        }
    };
    let mut raw = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..tensors {
        let tensor = RawTensor::read(&mut cursor)?;
        if !names.insert(tensor.name) {
            let name = tensor.name;
            return Err(Malformed(format!(
                "corrupt GGUF header: the tensor `{name}` appears twice"
            )));
        }
        raw.push(tensor);
    }
    // The tensors' data begin at the next multiple of the alignment after the header.
    let start = (cursor.at as u64).next_multiple_of(alignment);
    let tensors = raw
        .into_iter()
        .map(|tensor| tensor.check(bytes.len(), start, alignment))
        .collect::<Result<_, _>>()?;
    Ok(Header { metadata, tensors })
}

/// A tensor's entry in the header. Its range in the file is not checked yet.
struct RawTensor<'a> {
    name: &'a str,
    shape: Vec<usize>,
    type_id: u32,
    offset: u64,
}

impl<'a> RawTensor<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Malformed> {
        let name = cursor.name()?;
        let dims = cursor.u32()?;
        if dims > MAX_DIMS {
            return Err(Malformed(format!(
                "corrupt GGUF header: tensor `{name}` has {dims} dimensions"
            )));
        }
        let mut shape = Vec::new();
        let mut values = 1usize;
        for _ in 0..dims {
            let size = cursor.u64()?;
            let checked = usize::try_from(size).ok().filter(|size| *size > 0);
            let total = checked.and_then(|size| values.checked_mul(size));
            let (Some(size), Some(total)) = (checked, total) else {
                return Err(Malformed(format!(
                    "corrupt GGUF header: tensor `{name}` has a dimension of {size}"
                )));
            };
            values = total;
            shape.push(size);
        }
        shape.reverse();
        Ok(Self {
            name,
            shape,
            type_id: cursor.u32()?,
            offset: cursor.u64()?,
        })
    }

    /// Checks that the tensor is within a file of `len` bytes whose data begin at `start`.
    fn check(self, len: usize, start: u64, alignment: u64) -> Result<TensorInfo, Malformed> {
        let Self {
            name,
            shape,
            type_id,
            offset,
        } = self;
        let info = |encoding, range| TensorInfo {
            name: name.to_owned(),
            shape: shape.clone(),
            encoding,
            range,
        };
        let encoding = match encoding(type_id) {
            // An unsupported type is an error only if the model needs the tensor.
            Ok(encoding) => encoding,
            Err(dtype) => return Ok(info(Err(dtype), 0..0)),
        };
        let Some(size) = encoding.bytes(&shape) else {
            let values = encoding.block().0;
            return Err(Malformed(format!(
                "corrupt GGUF header: tensor `{name}` of shape {shape:?} cannot be {encoding:?}: \
                 rows must be multiples of {values} values (or the size is beyond all sizes)"
            )));
        };
        if !offset.is_multiple_of(alignment) {
            return Err(Malformed(format!(
                "corrupt GGUF header: tensor `{name}` begins at {offset}, which is not a multiple of \
                 {alignment}"
            )));
        }
        let end = start
            .checked_add(offset)
            .and_then(|from| from.checked_add(size as u64));
        match end {
            Some(end) if end <= len as u64 => {
                let end = end as usize;
                Ok(info(Ok(encoding), end - size..end))
            }
            _ => Err(Malformed(format!(
                "truncated or corrupt GGUF file: tensor `{name}` has {size} bytes at {offset} of \
                 the data, which begin at {start}; the file has {len}"
            ))),
        }
    }
}

/// Returns the encoding with the number `id` of `enum ggml_type`, or the name of an unsupported
/// type.
fn encoding(id: u32) -> Result<Encoding, String> {
    Encoding::of_gguf(id).ok_or_else(|| {
        let name = match id {
            9 => "Q8_1",
            15 => "Q8_K",
            16 => "IQ2_XXS",
            17 => "IQ2_XS",
            18 => "IQ3_XXS",
            19 => "IQ1_S",
            20 => "IQ4_NL",
            21 => "IQ3_S",
            22 => "IQ2_S",
            23 => "IQ4_XS",
            24 => "I8",
            25 => "I16",
            26 => "I32",
            27 => "I64",
            28 => "F64",
            29 => "IQ1_M",
            34 => "TQ1_0",
            35 => "TQ2_0",
            39 => "MXFP4",
            40 => "NVFP4",
            _ => return format!("number {id} of GGUF"),
        };
        name.to_owned()
    })
}
