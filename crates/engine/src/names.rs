//! The error for an unknown name of a setting's value.

/// A name that an enumeration does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid name `{name}`: use one of {}", known.join(", "))]
#[non_exhaustive]
pub struct UnknownName {
    /// The name that was given.
    pub name: String,
    /// All valid names.
    pub known: &'static [&'static str],
}

impl UnknownName {
    /// Creates the error for an enumeration whose names `strum` derives.
    pub(crate) fn of<T: strum::VariantNames>(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            known: T::VARIANTS,
        }
    }
}
