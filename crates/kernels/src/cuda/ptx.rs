//! The kernels, compiled: one module for each file of `kernels/`.

/// A module and the kernels that it has.
pub(super) struct Module {
    /// PTX with a zero at its end.
    pub(super) text: &'static str,
    pub(super) kernels: &'static [&'static str],
}

macro_rules! modules {
    ($($name:literal: [$($kernel:literal),* $(,)?]),* $(,)?) => {
        &[$(Module {
            text: concat!(include_str!(concat!("../../../../kernels/ptx/", $name, ".ptx")), "\0"),
            kernels: &[$($kernel),*],
        }),*]
    };
}

pub(super) const MODULES: &[Module] = modules! {
};
