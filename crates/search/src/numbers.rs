//! Helpers for serde: numbers of JSON, where null stands for NaN and infinities, and defaults of
//! fields.

use serde::{Deserialize, Deserializer};

/// Reads a number; null is read as NaN.
///
/// # Errors
/// The value is neither a number nor null.
pub fn number_or_nan<'de, D: Deserializer<'de>, T: Deserialize<'de> + From<f32>>(
    from: D,
) -> Result<T, D::Error> {
    let read = Option::<T>::deserialize(from)?;
    Ok(read.unwrap_or_else(|| f32::NAN.into()))
}

/// Reads three numbers, or null for `None`; each number may be null, which is read as NaN.
///
/// # Errors
/// The value is neither three numbers nor null.
pub fn numbers_or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[f32; 3]>, D::Error> {
    let read = Option::<[Option<f32>; 3]>::deserialize(from)?;
    Ok(read.map(|three| three.map(|number| number.unwrap_or(f32::NAN))))
}

/// Whether a value is its type's default, so that its field can be left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) fn one() -> usize {
    1
}
