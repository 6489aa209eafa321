//! Numbers in JSON, which writes one that is not finite as null, and those that are left out.

use serde::{Deserialize, Deserializer};

/// Reads a number; null is not a number.
///
/// # Errors
/// It is neither.
pub fn number_or_nan<'de, D: Deserializer<'de>, T: Deserialize<'de> + From<f32>>(
    from: D,
) -> Result<T, D::Error> {
    let read = Option::<T>::deserialize(from)?;
    Ok(read.unwrap_or_else(|| f32::NAN.into()))
}

/// Reads three numbers, if they are there, as [`number_or_nan`] does each.
///
/// # Errors
/// They are none.
pub fn numbers_or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[f32; 3]>, D::Error> {
    let read = Option::<[Option<f32>; 3]>::deserialize(from)?;
    Ok(read.map(|three| three.map(|number| number.unwrap_or(f32::NAN))))
}

/// Whether a value is the one that stands for a field that is left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) fn one() -> usize {
    1
}
