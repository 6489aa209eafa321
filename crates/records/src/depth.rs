//! The depth of a Parquet schema, which is read before the library reads it. The library calls
//! itself for each level, and a small file can have enough levels to overflow any stack.
//!
//! A file ends with its metadata in Thrift's compact protocol
//! (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>). The schema
//! is a list of elements in depth-first order, each with its number of children.

/// The most levels of a schema. Those of published data sets have less than ten.
const MOST: usize = 256;

/// The field of `FileMetaData` that has the schema.
const SCHEMA: i64 = 2;

/// The field of `SchemaElement` that has the number of children.
const CHILDREN: i64 = 5;

/// The types of the protocol.
mod kind {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const STRUCT: u8 = 12;
}

/// Checks that the schema in the metadata of a file has at most [`MOST`] levels. Returns the reason
/// if it has more, or if it cannot be read.
pub(crate) fn check(metadata: &[u8]) -> Result<(), String> {
    let mut reader = Reader(metadata);
    match reader.schema() {
        Some(depth) if depth <= MOST => Ok(()),
        Some(_) => Err(format!(
            "its columns are nested more than {MOST} levels deep"
        )),
        None => Err("its schema is damaged".to_owned()),
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// Reads the metadata up to the schema, and returns its depth.
    fn schema(&mut self) -> Option<usize> {
        let mut id = 0;
        loop {
            let of_type = self.field(&mut id)?;
            if id == SCHEMA && of_type == kind::LIST {
                break;
            }
            self.skip(of_type, 0)?;
        }
        let (count, _) = self.list()?;
        // The numbers of children that are still to come, from the root down.
        let (mut open, mut depth): (Vec<i64>, _) = (Vec::new(), 0);
        for _ in 0..count {
            let children = self.element()?;
            while open.last() == Some(&0) {
                open.pop();
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            open.push(children.max(0));
            depth = depth.max(open.len());
            if depth > MOST {
                break;
            }
        }
        Some(depth)
    }

    /// Reads an element of the schema, and returns its number of children.
    fn element(&mut self) -> Option<i64> {
        let (mut id, mut children) = (0, 0);
        loop {
            match self.field(&mut id)? {
                0 => return Some(children),
                kind::I32 if id == CHILDREN => children = self.signed()?,
                of_type => self.skip(of_type, 0)?,
            }
        }
    }

    /// Reads the head of a field. Returns its type, 0 after the last one, and changes `id` from the
    /// number of the field before to its own.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let head = self.byte()?;
        if head != 0 {
            *id = match head >> 4 {
                0 => self.signed()?,
                more => id.checked_add(i64::from(more))?,
            };
        }
        Some(head & 0xf)
    }

    /// Skips a value. A value that holds others more than eight levels deep is not one of Parquet.
    fn skip(&mut self, of_type: u8, level: usize) -> Option<()> {
        match of_type {
            kind::TRUE | kind::FALSE => Some(()),
            kind::BYTE => self.bytes(1),
            kind::I16 | kind::I32 | kind::I64 => self.signed().map(|_| ()),
            kind::DOUBLE => self.bytes(8),
            kind::BINARY => {
                let length = self.unsigned()?;
                self.bytes(length.try_into().ok()?)
            }
            _ if level == 8 => None,
            kind::LIST | kind::SET => {
                let (count, of_type) = self.list()?;
                for _ in 0..count {
                    match of_type {
                        // In a list, a truth value has a byte of its own.
                        kind::TRUE | kind::FALSE => self.bytes(1)?,
                        of_type => self.skip(of_type, level + 1)?,
                    }
                }
                Some(())
            }
            kind::STRUCT => {
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        0 => return Some(()),
                        of_type => self.skip(of_type, level + 1)?,
                    }
                }
            }
            _ => None,
        }
    }

    /// Reads the head of a list: the number of items, and their type.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.unsigned()?,
            few => u64::from(few),
        };
        Some((count, head & 0xf))
    }

    /// Reads a number of variable length.
    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Reads a number whose sign is its lowest bit.
    fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn bytes(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns metadata with a schema of groups within groups, written by hand.
    pub(crate) fn nested(levels: usize) -> Vec<u8> {
        let group = [0x35, 0, 0x18, 1, b'x', 0x15, 2, 0];
        let root = [0x48, 1, b'r', 0x15, 2, 0];
        let leaf = [0x15, 2, 0x25, 0, 0x18, 1, b'l', 0];
        let mut metadata = vec![0x15, 2, 0x19, 0xfc];
        let mut count = levels + 2;
        while count >= 0x80 {
            metadata.push(count as u8 | 0x80);
            count >>= 7;
        }
        metadata.push(count as u8);
        metadata.extend(root);
        metadata.extend(std::iter::repeat_n(group, levels).flatten());
        metadata.extend(leaf);
        metadata
    }

    #[test]
    fn a_deep_schema_is_found_without_recursion() {
        assert_eq!(check(&nested(0)), Ok(()));
        assert_eq!(check(&nested(MOST - 2)), Ok(()));
        let deep = check(&nested(MOST - 1)).unwrap_err();
        assert!(deep.contains("more than 256 levels"), "{deep}");
        assert!(check(&nested(3_000_000)).is_err());
    }

    #[test]
    fn damaged_metadata_are_an_error() {
        let whole = nested(20);
        for end in 0..whole.len() {
            assert!(check(&whole[..end]).is_err(), "{end}");
        }
        let endless = [0x1c; 100_000];
        assert!(check(&endless).is_err());
    }
}
