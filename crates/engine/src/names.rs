//! The error for the name of an enumeration's value that does not exist.

/// The error for a name that an enumeration does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid name `{name}`: use one of {}", known.join(", "))]
#[non_exhaustive]
pub struct UnknownName {
    /// The name that was not found, as it was given.
    pub name: String,
    /// All valid names, in the order of the enumeration.
    pub known: &'static [&'static str],
}

impl UnknownName {
    /// Creates the error from the names that `strum` derives for the enumeration `T`.
    pub(crate) fn of<T: strum::VariantNames>(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            known: T::VARIANTS,
        }
    }
}
