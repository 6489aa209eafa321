//! Names of settings.

/// A name that is none of the known ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is none of {}", known.join(", "))]
#[non_exhaustive]
pub struct UnknownName {
    /// What was given.
    pub name: String,
    /// The names there are.
    pub known: &'static [&'static str],
}

impl UnknownName {
    /// For an enumeration whose names `strum` derives.
    pub(crate) fn of<T: strum::VariantNames>(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            known: T::VARIANTS,
        }
    }
}
