use cudarc::driver::DriverError;

/// A failure of a CUDA device, of its driver, or of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CudaError {
    /// The driver's library is missing, so no CUDA device can be used.
    NoDriver,
    /// The driver works, but it shows no device with the requested number.
    NoDevice {
        /// The device asked for.
        ordinal: usize,
        /// The number of devices that the driver shows, which are numbered from 0.
        devices: usize,
    },
    /// The driver is older than the kernels and calls of this crate require.
    OldDriver {
        /// The CUDA version that it has, as 1000 times the major and 10 times the minor one.
        version: i32,
    },
    /// The card lacks instructions that the kernels use.
    OldCard {
        /// The name of the card, for messages.
        name: String,
        /// The compute capability of the card, as major and minor version.
        capability: (i32, i32),
    },
    /// This process was forked after the driver had started.
    Forked {
        /// The process that started the driver, if it is known.
        process: Option<u32>,
    },
    /// The device has too little free memory for an allocation.
    OutOfMemory {
        /// The bytes of the refused allocation.
        needed: usize,
        /// The bytes that the driver reported as free after the refusal.
        free: usize,
    },
    /// A thread records a graph on the device, and the operation would become part of the graph or
    /// break it.
    Recording {
        /// The operation that was attempted.
        what: &'static str,
    },
    /// A call of the driver failed.
    Failed {
        /// The operation that was attempted.
        what: &'static str,
        /// The driver's description of the error and its name, in one line.
        reason: String,
    },
}

impl CudaError {
    pub(super) fn failed(what: &'static str) -> impl Fn(DriverError) -> Self {
        move |error| Self::Failed {
            what,
            reason: reason(error),
        }
    }
}

/// Returns the driver's description of an error, in one line. A code newer than `CUresult` has no
/// `Debug`, so `Debug` is not used.
pub(super) fn reason(error: DriverError) -> String {
    match (error.error_string(), error.error_name()) {
        (Ok(text), Ok(name)) => format!("{} ({})", text.to_string_lossy(), name.to_string_lossy()),
        _ => format!("error {}, which the driver has no name for", error.0 as u32),
    }
}

impl std::fmt::Display for CudaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoDriver => {
                f.write_str("no CUDA driver on this machine: libcuda.so.1 cannot be loaded")
            }
            Self::NoDevice { ordinal, devices } => {
                write!(f, "no CUDA device {ordinal}: the driver shows {devices}")
            }
            Self::OldDriver { version } => write!(
                f,
                "the driver for CUDA {}.{} is too old: install 11.4 or later (driver 470)",
                version / 1000,
                version % 1000 / 10
            ),
            Self::OldCard {
                name,
                capability: (major, minor),
            } => write!(
                f,
                "{name} is too old: compute capability {major}.{minor}, 8.0 (Ampere) or later is needed"
            ),
            Self::Forked { process } => {
                f.write_str("CUDA was opened before this process was forked")?;
                if let Some(process) = process {
                    write!(f, " from process {process}")?;
                }
                f.write_str(
                    ": open it in the process that uses it (multiprocessing: start method spawn)",
                )
            }
            Self::OutOfMemory { needed, free } => write!(
                f,
                "not enough memory on the CUDA device: {needed} bytes needed, {free} free"
            ),
            Self::Recording { what } => write!(
                f,
                "CUDA: {what}: a graph is being recorded on the device: wait until that is done"
            ),
            Self::Failed { what, reason } => write!(f, "CUDA: {what}: {reason}"),
        }
    }
}

impl std::error::Error for CudaError {}
