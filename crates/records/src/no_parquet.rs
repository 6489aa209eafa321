//! Parquet tables in builds without the feature `data`: refused with advice.

use crate::input::Input;
use crate::{Place, Record, RecordsError};

/// The first bytes of a Parquet file.
pub(crate) const MAGIC: &[u8] = b"PAR1";

pub(crate) fn read<E: From<RecordsError>>(
    input: Input<'_>,
    _each: &mut dyn FnMut(Place, Record) -> Result<(), E>,
) -> Result<(), E> {
    let advice = beamgen_files::packed(MAGIC).unwrap_or_default();
    Err(E::from(RecordsError::Format {
        source_name: input.name.to_owned(),
        reason: format!("{advice}, or build with `--features data`"),
    }))
}
