use cudarc::driver::DriverError;

/// What can go wrong with a CUDA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CudaError {
    /// The driver's library is not on this machine.
    NoDriver,
    /// There is a driver, but no such device.
    NoDevice {
        /// The device asked for.
        ordinal: usize,
        /// How many there are.
        devices: usize,
    },
    /// The driver is too old for the calls that are made.
    OldDriver {
        /// The CUDA version that it has, as 1000 times the major and 10 times the minor one.
        version: i32,
    },
    /// The card lacks instructions that the kernels use.
    OldCard {
        /// Its name.
        name: String,
        /// Its compute capability.
        capability: (i32, i32),
    },
    /// This process was forked after the driver had started.
    Forked {
        /// The process that has started it, if that is known.
        process: Option<u32>,
    },
    /// The device has not enough free memory.
    OutOfMemory {
        /// Bytes asked for.
        needed: usize,
        /// Bytes that are free.
        free: usize,
    },
    /// A graph is being recorded on the device, and this would be recorded with it or break it.
    Recording {
        /// The operation that was attempted.
        what: &'static str,
    },
    /// A call of the driver failed.
    Failed {
        /// The operation that was attempted.
        what: &'static str,
        /// What the driver says.
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
            Self::NoDriver => f.write_str(
                "there is no CUDA driver on this machine (libcuda.so.1 cannot be loaded)",
            ),
            Self::NoDevice { ordinal, devices } => write!(
                f,
                "there is no CUDA device {ordinal}: the driver shows {devices}"
            ),
            Self::OldDriver { version } => write!(
                f,
                "the driver is for CUDA {}.{}; 11.4 or later is needed (driver 470)",
                version / 1000,
                version % 1000 / 10
            ),
            Self::OldCard {
                name,
                capability: (major, minor),
            } => write!(
                f,
                "{name} has compute capability {major}.{minor}; 8.0 (Ampere) or later is needed"
            ),
            Self::Forked { process } => {
                f.write_str("CUDA was opened before this process was forked")?;
                if let Some(process) = process {
                    write!(f, " from process {process}")?;
                }
                f.write_str(
                    "; open it in the process that uses it (multiprocessing: start method spawn)",
                )
            }
            Self::OutOfMemory { needed, free } => write!(
                f,
                "the CUDA device has {free} bytes free, {needed} were asked for"
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
